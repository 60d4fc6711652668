"""Arrays of the engine: the fixed world, its state, and the plan buffer of a scheduler.

Every time is a multiple of ``TICK_S``, a power of two. Products of GPUs and times, and their sums, are therefore exact
in doubles: the GPU-seconds held by a job equal useful, lost and overhead GPU-seconds to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import int64, typeof, types
from numpy.typing import NDArray

from mirage.kernel.record_arrays import Records, record_type, records
from mirage.kernel.reference import ReferenceType, joint_reference
from mirage.schedule.speeds.speed_arrays import Speeds, linear_speeds

TICK_S = 2.0**-10
NEVER_S = np.inf

# -- indices that refer to nothing -----------------------------------------------------------------------------------
NO_JOB = NO_SLOT = NO_SERVER = NO_TYPE = NO_POOL = NO_LOAN = NO_SEGMENT = -1
NIL = -1  # the end of a list of chunks
NOT_ENDED = -1  # ``why`` of a segment that has not ended
ALL_GPUS = -1  # ``needed`` of a preemption that needs all GPUs of the job

# -- status of a job; those from PENDING to SAVING are ``JobStatus`` -----------------------------------------------
FUTURE, PENDING, STARTING, RUNNING, STOPPING, SAVING, ENDED, CANCELLED = range(8)

# -- ends of a segment -----------------------------------------------------------------------------------------------
BY_ITSELF, BY_BOUNDARY, BY_SAVE, BY_KILL, BY_RESIZE, BY_CANCEL, BY_RECLAIM, BY_FAILED_SAVE = range(8)

# -- events at which a scheduler can be called; as ``Event`` ----------------------------------------------------------
ON_SUBMITTED, ON_ENDED, ON_LEFT, ON_SERVERS, ON_PROGRESS = 1, 2, 4, 8, 16

# -- actions ---------------------------------------------------------------------------------------------------------
START, RESIZE, PREEMPT, CANCEL, LEND, RETURN = range(6)
BOUNDARY, SAVE, KILL = range(3)

# -- reasons of refusals ---------------------------------------------------------------------------------------------
(
    APPLIED, NOT_ACTIVE, NOT_PENDING, HOLDS_NOTHING, LEAVES_ALREADY, NAMED_TWICE, WRONG_SIZE, NO_SUCH_SERVER,
    WRONG_POOL, MIXED_TYPES, NOT_FREE, RUNS_NOT_THERE, NOT_ITS_OWN, IN_USE, DEMAND, NOT_LENT, OVER_AT_ONCE, WRONG_TYPE,
) = range(18)  # fmt: skip

_I, _F = np.int64, np.float64


JOB = record_type(
    [
        # the request
        ("id", _I),
        ("submit_s", _F),
        ("model", _I),
        ("gpus", _I),
        ("min_gpus", _I),
        ("max_gpus", _I),
        ("pool", _I),
        ("types", _I),  # bit k: it may run on type k
        ("work", _F),
        ("known_run_s", _F),  # expected run time on the requested GPUs; NaN if no scheduler may know it
        ("known_work", _F),  # the work that takes this time: the true work, times expected over true run time
        ("first_epoch_work", _F),  # progress that shows its true run time; infinite if none does, or if it is known
        ("measured_run_s", _F),  # the run time that its first epoch shows
        ("checkpoint_work", _F),  # a checkpoint at each multiple of it; 0: always safe; infinite: only on demand
        ("first_start_s", _F),  # expected costs
        ("restart_s", _F),
        ("rescale_s", _F),
        ("save_s", _F),
        # its state
        ("status", _I),
        ("batch", _I),
        ("since_s", _F),  # time of the amounts below
        ("progress", _F),
        ("speed", _F),
        ("target", _F),  # progress at the end of the present phase of constant speed
        ("safe", _F),  # progress at the last checkpoint
        ("due_s", _F),  # its next event
        ("paused_until_s", _F),
        ("expected_until_s", _F),  # the same as expected by a scheduler
        ("held", _I),
        ("servers", _I),
        ("gpu_type", _I),
        ("chunk", _I),
        ("start_s", _F),
        ("segment", _I),
        ("executed", _F),  # GPU-seconds
        ("useful", _F),
        ("lost", _F),
        ("overhead", _F),
        ("unsafe", _F),  # useful so far, lost if killed now
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
"""A job: before submission, while it is active (``GpuState.live``), and after its end."""

CHUNK = record_type([("server", _I), ("gpus", _I), ("next", _I)])
"""GPUs of one job on one server."""

EVENT = record_type([("due", _F), ("order", _I), ("stamp", _I)])
"""An event of a job, in the form of ``mirage.kernel.heap``: ``due`` in seconds, ``order`` the job's id."""

ACTION = record_type(
    [("kind", _I), ("id", _I), ("how", _I), ("gpus", _I), ("batch", _I), ("first", _I), ("places", _I), ("pool", _I),
     ("until_s", _F), ("reason", _I), ("needed", _I), ("estimate_s", _F), ("refused", _I)]
)  # fmt: skip
"""One action. ``id`` is a job's, or a server's for loans. Its locations are ``places`` records from ``first`` on; 0
lets the engine pack ``gpus`` GPUs. ``reason`` is a number of the scheduler."""

PLACE = record_type([("server", _I), ("gpus", _I)])

SEGMENT = record_type(
    [("id", _I), ("start_s", _F), ("end_s", _F), ("gpus", _I), ("gpu_type", _I), ("first", _I), ("places", _I),
     ("why", _I), ("pause_s", _F), ("progress", _F), ("progress_end", _F)]
)  # fmt: skip
"""A period of a job on the same GPUs; its locations are ``places`` records of ``GpuState.placement_rows``, from
``first`` on."""

PHASE = record_type([("id", _I), ("segment", _I), ("start_s", _F), ("speed", _F), ("progress", _F), ("batch", _I)])
"""A period of constant speed of a job, from ``start_s`` on."""

DECISION = record_type(
    [("time_s", _F), ("kind", _I), ("id", _I), ("gpus", _I), ("reason", _I), ("estimate_s", _F), ("refused", _I)]
)

DEMAND_CHANGE = record_type([("time_s", _F), ("pool", _I), ("servers", _I), ("announced_s", _F), ("announced", _I)])
"""From ``time_s`` on, inference takes ``servers`` servers of the pool; from ``announced_s`` on, ``announced`` are
expected."""

NOTICE = record_type([("time_s", _F), ("change", _I)])
"""At ``time_s`` a change of demand is announced: a row of the changes."""

LOAN = record_type([("server", _I), ("pool", _I), ("start_s", _F), ("until_s", _F), ("end_s", _F), ("breached", _I)])

SETTINGS = record_type(
    [
        ("seed", _I),
        ("cost_spread", _F),  # coefficient of variation of the costs of starts, restarts, rescaling and saving
        ("save_fails", _F),  # probability that a checkpoint on demand cannot be read later
        ("round_s", _F),  # NEVER_S: no rounds
        ("called_on", _I),  # bits of events
        ("force_after_s", _F),  # from unmet demand until inference takes lent servers by force
    ]
)

CLOCK = record_type(
    [
        ("now_s", _F),
        ("arrived", _I),
        ("demand_applied", _I),
        ("notices", _I),  # announced so far
        ("announced_until_s", _F),  # the latest change that was announced
        ("force_s", _F),  # when inference takes servers by force
        ("n_live", _I),
        ("n_pending", _I),
        ("n_heap", _I),
        ("chunks_used", _I),
        ("free_chunk", _I),
        ("n_segments", _I),
        ("n_placement_rows", _I),
        ("n_phases", _I),
        ("n_decisions", _I),
        ("n_news", _I),
        ("n_loans", _I),
        ("stamp", _I),
        ("plans", _I),  # applied so far
        ("planned", _I),  # actions of a plan that waits to be applied
        ("happened", _I),  # bits of events since the scheduler was last called
        ("called_at_s", _F),  # time of the last call
        ("wake_s", _F),
        ("idle_calls", _I),  # successive calls without a running job and without an applied action
        ("without_progress", _I),  # successive times that a job lost or changed its GPUs without progress on them
        ("without_progress_since_s", _F),
        ("breaches", _I),
        ("unmet_server_s", _F),  # server-seconds of inference demand that lent servers could not serve
        ("unmet_since_s", _F),
        ("unmet", _I),
        ("next_return_s", _F),
    ]
)

# -- return values of ``advance`` --------------------------------------------------------------------------------------
REACHED, NEEDS_PLAN, NEEDS_ROOM, ALL_OVER, STUCK, WAKES_TOO_SOON, LIVELOCK = range(7)


class GpuWorld(NamedTuple):
    """The fixed part of a simulation."""

    jobs: Records  # JOB, by submit time
    gpus_of: NDArray[np.int64]  # (servers,)
    type_of: NDArray[np.int64]
    home_of: NDArray[np.int64]  # pool that owns the server
    demand: Records  # DEMAND_CHANGE, by time
    notices: Records  # NOTICE, by time
    gpus_for_one: NDArray[np.int64]  # (types,): GPUs in place of one requested GPU
    settings: NDArray[Any]  # SETTINGS, one record
    speeds: Speeds


class GpuState(NamedTuple):
    """The part of a simulation that changes over time."""

    clock: NDArray[Any]  # CLOCK, one record
    live: Records  # JOB: active jobs, the first n_live
    slot_of: NDArray[np.int64]  # (jobs,): row of an active job in ``live``
    ended: Records  # JOB, by id: jobs at their end
    heap: Records  # EVENT
    chunks: Records  # CHUNK
    free: NDArray[np.int64]  # (servers,)
    pool_of: NDArray[np.int64]  # (servers,): the pool that may use it now
    lent_until_s: NDArray[np.float64]  # (servers,)
    loan_of: NDArray[np.int64]  # (servers,): its row in ``loans``, or NO_LOAN
    moved_at: NDArray[np.int64]  # (servers,): the last plan that lent it or gave it back
    wanted: NDArray[np.int64]  # (pools,): servers that inference takes now
    wanted_soon: NDArray[np.int64]  # (pools,): servers that inference takes at the next change that was announced
    wanted_from_s: NDArray[np.float64]  # (pools,): time of this change; NEVER_S for none
    present: NDArray[np.int64]  # (pools,): servers of the pool that are not lent
    segments: Records  # SEGMENT
    placement_rows: Records  # PLACE
    phases: Records  # PHASE
    decisions: Records  # DECISION
    loans: Records  # LOAN
    news: NDArray[np.int64]  # (n, 2): event and job since the scheduler was last called


class PlanBuffer(NamedTuple):
    """The plan buffer of a scheduler, with its private memory."""

    plan: Records  # ACTION
    places: Records  # PLACE
    free: NDArray[np.int64]  # (servers,): free GPUs while a plan is made or tried
    spare: NDArray[np.int64]  # (servers,): the part that is free at once
    picked: Records  # PLACE: locations of the job packed last
    memory: NDArray[np.float64]  # (columns, jobs + 1): retained between calls
    ranks: NDArray[np.int64]  # (columns, jobs + 1): the same for integers
    parameters: NDArray[np.float64]  # of the scheduler
    table: NDArray[np.int16]  # (jobs, GPUs): scratch of a scheduler that needs it


def _example_types() -> tuple[Any, Any, Any]:
    i1, f1 = np.zeros(1, np.int64), np.zeros(1, np.float64)
    world = GpuWorld(
        records(JOB, 1),
        i1,
        i1,
        i1,
        records(DEMAND_CHANGE, 1),
        records(NOTICE, 1),
        i1,
        np.zeros(1, SETTINGS),
        linear_speeds(f1),
    )
    state = GpuState(
        np.zeros(1, CLOCK), records(JOB, 1), i1, records(JOB, 1), records(EVENT, 1), records(CHUNK, 1), i1, i1, f1, i1,
        i1, i1, i1, f1, i1, records(SEGMENT, 1), records(PLACE, 1), records(PHASE, 1), records(DECISION, 1),
        records(LOAN, 1), np.zeros((1, 2), np.int64),
    )  # fmt: skip
    buffer = PlanBuffer(
        records(ACTION, 1),
        records(PLACE, 1),
        i1,
        i1,
        records(PLACE, 1),
        np.zeros((1, 1)),
        np.zeros((1, 1), np.int64),
        f1,
        np.zeros((1, 1), np.int16),
    )
    return typeof(world), typeof(state), typeof(buffer)  # type: ignore[no-untyped-call]


WORLD_TYPE, STATE_TYPE, PLAN_BUFFER_TYPE = _example_types()
JOBS_TYPE = typeof(records(JOB, 1))  # type: ignore[no-untyped-call]

situation_of: Callable[[GpuWorld, GpuState, PlanBuffer], Any]
dereference: Callable[[Any], tuple[GpuWorld, GpuState, PlanBuffer]]
situation_of, dereference = joint_reference(*map(ReferenceType, (WORLD_TYPE, STATE_TYPE, PLAN_BUFFER_TYPE)))
"""World, state and plan buffer, each already by reference, as the one argument of a scheduler; and its inverse."""

SCHEDULER = int64(types.voidptr)
"""Signature of a compiled scheduler: it reads world and state through one reference, writes actions into
``PlanBuffer.plan``, and returns their number. A negative number lets the caller decide."""

SCHEDULER_TYPE = types.FunctionType(SCHEDULER)
