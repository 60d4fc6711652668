"""Arrays of a GPU cluster's engine: ``World`` (fixed), ``State`` (changes), ``Desk`` (a scheduler's own).

Every time is a multiple of ``TICK_S``, a power of two. Products of GPUs and times, and their sums, are therefore exact
in doubles, and what a job held is what was useful, lost and overhead to the last bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, typeof, types
from numpy.typing import NDArray

from mirage.schedule.speeds.arrays import Speeds, linear_speeds

Records = Any
"""A numpy record array; the dtypes below say which."""

TICK_S = 2.0**-10
NEVER_S = np.inf
NOBODY = -1

# -- what a job is doing; those in between are ``contract.JobStatus`` ----------------------------------------------
FUTURE, PENDING, STARTING, RUNNING, STOPPING, SAVING, ENDED, CANCELLED = range(8)

# -- how a segment ended ---------------------------------------------------------------------------------------------
BY_ITSELF, BY_BOUNDARY, BY_SAVE, BY_KILL, BY_RESIZE, BY_CANCEL, BY_RECLAIM = range(7)

# -- events a scheduler can be asked on; as ``contract.Event`` --------------------------------------------------------
ON_SUBMITTED, ON_ENDED, ON_LEFT, ON_SERVERS, ON_PROGRESS = 1, 2, 4, 8, 16

# -- actions ---------------------------------------------------------------------------------------------------------
START, RESIZE, PREEMPT, CANCEL, LEND, RETURN = range(6)
BOUNDARY, SAVE, KILL = range(3)

# -- why an action is refused ----------------------------------------------------------------------------------------
(
    APPLIED, NOT_ACTIVE, NOT_PENDING, HOLDS_NOTHING, LEAVES_ALREADY, NAMED_TWICE, WRONG_SIZE, NO_SUCH_SERVER,
    WRONG_POOL, MIXED_TYPES, NOT_FREE, RUNS_NOT_THERE, NOT_ITS_OWN, IN_USE, DEMAND, NOT_LENT, OVER_AT_ONCE,
) = range(17)  # fmt: skip

_I, _F = np.int64, np.float64


def _record(fields: list[tuple[str, type]]) -> np.dtype[Any]:
    """A kind of record whose fields read as attributes, compiled or not."""
    return np.dtype((np.record, np.dtype(fields, align=True)))


JOB = _record(
    [
        # what was asked for
        ("id", _I),
        ("submit_s", _F),
        ("model", _I),
        ("gpus", _I),
        ("min_gpus", _I),
        ("max_gpus", _I),
        ("pool", _I),
        ("work", _F),
        ("known_run_s", _F),  # expected run time on the GPUs asked for; NaN where no scheduler may know it
        ("checkpoint_work", _F),  # a checkpoint at each multiple of it; 0: always safe; infinite: none by itself
        ("first_start_s", _F),  # expected costs
        ("restart_s", _F),
        ("rescale_s", _F),
        ("save_s", _F),
        # what became of it
        ("status", _I),
        ("batch", _I),
        ("since_s", _F),  # the amounts below are those of this time
        ("progress", _F),
        ("speed", _F),
        ("target", _F),  # progress at which this stretch of constant speed ends
        ("safe", _F),  # progress at the last checkpoint
        ("due_s", _F),  # its next event
        ("paused_until_s", _F),
        ("told_until_s", _F),  # the same as a scheduler expects it
        ("held", _I),
        ("servers", _I),
        ("gpu_type", _I),
        ("chunk", _I),
        ("start_s", _F),
        ("segment", _I),
        ("segment_pause_s", _F),
        ("leaves_by", _I),  # BOUNDARY or SAVE, while it stops
        ("executed", _F),  # GPU-seconds
        ("useful", _F),
        ("lost", _F),
        ("overhead", _F),
        ("unsafe", _F),  # useful so far, and lost if killed now
        ("queued_s", _F),
        ("queued_since_s", _F),
        ("restarts", _I),
        ("preemptions", _I),
        ("excess_gpus", _I),  # evicted beyond what was needed
        ("draws", _I),
        ("stamp", _I),
        ("named_at", _I),  # the last plan that named it
    ]
)
"""A job: as it will be submitted, while it is active (``State.live``), and when all is over."""

CHUNK = _record([("server", _I), ("gpus", _I), ("next", _I)])
"""GPUs of one job on one server."""

HEAP = _record([("due_s", _F), ("id", _I), ("stamp", _I)])

ACTION = _record(
    [("kind", _I), ("id", _I), ("how", _I), ("gpus", _I), ("batch", _I), ("first", _I), ("places", _I), ("pool", _I),
     ("until_s", _F), ("reason", _I), ("needed", _I), ("estimate_s", _F), ("refused", _I)]
)  # fmt: skip
"""One action. ``id`` is a job's, or a server's for loans; ``places`` of them from ``first`` on, 0 to let the engine
pack ``gpus`` GPUs; ``reason`` is a number of the scheduler's."""

PLACE = _record([("server", _I), ("gpus", _I)])

SEGMENT = _record(
    [("id", _I), ("start_s", _F), ("end_s", _F), ("gpus", _I), ("gpu_type", _I), ("first", _I), ("places", _I),
     ("why", _I), ("pause_s", _F), ("progress", _F), ("progress_end", _F)]
)  # fmt: skip
"""One stretch on the same GPUs; ``places`` of them from ``first`` on in ``State.seats``."""

PHASE = _record([("id", _I), ("segment", _I), ("start_s", _F), ("speed", _F), ("progress", _F), ("batch", _I)])
"""From ``start_s`` on the job went at this speed."""

DECISION = _record(
    [("time_s", _F), ("kind", _I), ("id", _I), ("gpus", _I), ("reason", _I), ("estimate_s", _F), ("refused", _I)]
)

DEMAND_CHANGE = _record([("time_s", _F), ("pool", _I), ("servers", _I)])
"""From ``time_s`` on inference takes so many of the pool's servers."""

LOAN = _record([("server", _I), ("pool", _I), ("start_s", _F), ("until_s", _F), ("end_s", _F), ("breached", _I)])

SETTINGS = _record(
    [
        ("seed", _I),
        ("cost_spread", _F),  # coefficient of variation of what starts, restarts, rescaling and saving cost
        ("round_s", _F),  # NEVER_S: no rounds
        ("asked_on", _I),  # bits of events
    ]
)

CLOCK = _record(
    [
        ("now_s", _F),
        ("arrived", _I),
        ("demand_seen", _I),
        ("n_live", _I),
        ("n_pending", _I),
        ("n_heap", _I),
        ("chunks_used", _I),
        ("free_chunk", _I),
        ("n_segments", _I),
        ("n_seats", _I),
        ("n_phases", _I),
        ("n_decisions", _I),
        ("n_news", _I),
        ("n_loans", _I),
        ("stamp", _I),
        ("plans", _I),  # applied so far
        ("planned", _I),  # actions of a plan that waits to be applied
        ("happened", _I),  # bits of events since the scheduler was asked
        ("asked_at_s", _F),  # the last round
        ("wake_s", _F),
        ("idle_asks", _I),  # times asked in a row with nothing running and nothing done
        ("vain", _I),  # times in a row that a job lost or changed its GPUs and had gained nothing on them
        ("vain_since_s", _F),
        ("breaches", _I),
        ("unmet_server_s", _F),  # server-seconds of inference demand that lent servers could not serve
        ("unmet_since_s", _F),
        ("unmet", _I),
        ("next_return_s", _F),
    ]
)

# -- how ``advance`` comes back ----------------------------------------------------------------------------------------
REACHED, ASKS, NEEDS_ROOM, ALL_OVER, STUCK, WAKES_TOO_SOON, IN_VAIN = range(7)


class World(NamedTuple):
    """What does not change while time passes."""

    jobs: Records  # JOB, by submit time
    gpus_of: NDArray[np.int64]  # (servers,)
    type_of: NDArray[np.int64]
    home_of: NDArray[np.int64]  # pool that owns the server
    demand: Records  # DEMAND_CHANGE, by time
    settings: NDArray[Any]  # SETTINGS, one record
    speeds: Speeds


class State(NamedTuple):
    """Everything that changes."""

    clock: NDArray[Any]  # CLOCK, one record
    live: Records  # JOB: active jobs, the first n_live
    slot_of: NDArray[np.int64]  # (jobs,): where an active job is
    ended: Records  # JOB, by id: jobs as they were when all was over
    heap: Records  # HEAP
    chunks: Records  # CHUNK
    free: NDArray[np.int64]  # (servers,)
    pool_of: NDArray[np.int64]  # (servers,): who may use it now
    lent_until_s: NDArray[np.float64]  # (servers,)
    loan_of: NDArray[np.int64]  # (servers,): its row in ``loans``, or NOBODY
    moved_at: NDArray[np.int64]  # (servers,): the last plan that lent it or gave it back
    wanted: NDArray[np.int64]  # (pools,): servers that inference takes now
    present: NDArray[np.int64]  # (pools,): servers at home that are not lent
    segments: Records  # SEGMENT
    seats: Records  # PLACE
    phases: Records  # PHASE
    decisions: Records  # DECISION
    loans: Records  # LOAN
    news: NDArray[np.int64]  # (n, 2): event and job since the scheduler was asked


class Desk(NamedTuple):
    """What a scheduler works with: its plan, and a memory that nobody else touches."""

    plan: Records  # ACTION
    places: Records  # PLACE
    free: NDArray[np.int64]  # (servers,): free GPUs while a plan is made or tried
    spare: NDArray[np.int64]  # (servers,): the same, of those free at once
    picked: Records  # PLACE: where a job has been packed
    memory: NDArray[np.float64]  # (columns, jobs + 1): kept between calls
    ranks: NDArray[np.int64]  # (columns, jobs + 1): the same for integers
    parameters: NDArray[np.float64]  # of the scheduler


def records(dtype: np.dtype[Any], n: int) -> Records:
    """N zeroed records, whose columns read as attributes too."""
    return np.zeros(n, dtype).view(np.recarray)


def _example_types() -> tuple[Any, Any, Any]:
    i1, f1 = np.zeros(1, np.int64), np.zeros(1, np.float64)
    world = World(
        records(JOB, 1),
        i1,
        i1,
        i1,
        records(DEMAND_CHANGE, 1),
        np.zeros(1, SETTINGS),
        linear_speeds(f1),
    )
    state = State(
        np.zeros(1, CLOCK), records(JOB, 1), i1, records(JOB, 1), records(HEAP, 1), records(CHUNK, 1), i1, i1, f1, i1,
        i1, i1, i1, records(SEGMENT, 1), records(PLACE, 1), records(PHASE, 1), records(DECISION, 1), records(LOAN, 1),
        np.zeros((1, 2), np.int64),
    )  # fmt: skip
    desk = Desk(
        records(ACTION, 1),
        records(PLACE, 1),
        i1,
        i1,
        records(PLACE, 1),
        np.zeros((1, 1)),
        np.zeros((1, 1), np.int64),
        f1,
    )
    return typeof(world), typeof(state), typeof(desk)  # type: ignore[no-untyped-call]


WORLD_TYPE, STATE_TYPE, DESK_TYPE = _example_types()
JOBS_TYPE = typeof(records(JOB, 1))  # type: ignore[no-untyped-call]

SCHEDULER = int64(types.voidptr)
"""What a compiled scheduler is: it looks at world and state through one reference, writes actions into ``desk.plan``,
and returns how many. A negative answer has the caller decide."""

SCHEDULER_TYPE = types.FunctionType(SCHEDULER)
