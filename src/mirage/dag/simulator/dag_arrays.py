"""Arrays of a simulation of stages: ``DagWorld`` (fixed) and ``DagState`` (changes).

Both are NamedTuples of numpy arrays.

Jobs and stages are numbered over the whole episode, in order of arrival; the stages of a job are consecutive, so stage
``s`` of job ``j`` is ``world.jobs[j].first_stage + k``. Times are whole milliseconds, as in the published data.

An executor *belongs to* a stage while it runs its tasks, waits in its job's pool when the job still has tasks that
cannot start, and is in the general pool when no job has it. Its next destination is *committed* in advance: when a
stage has no task left to start, all of its executors get a destination, also those that still run its last tasks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, typeof, types
from numpy.typing import NDArray

from mirage.kernel.record_arrays import Records, record_type, records

NO_JOB = NO_STAGE = NO_EXECUTOR = -1
"""No such entry."""

NIL = -1
"""The end of a list."""

NEVER_MS = 2**62
"""A time that is never reached."""

DECIMA_2019, SPARK_SCHED_SIM = range(2)
"""The two published environments; ``dynamics`` and ``rounds`` describe how they differ."""

_I, _F = np.int64, np.float64


JOB = record_type([("arrival_ms", _I), ("first_stage", _I), ("n_stages", _I), ("template", _I)])

STAGE = record_type(
    [
        ("job", _I),
        ("tasks", _I),
        ("rough_ms", _I),  # mean over all durations of the profile: known to schedulers in advance
        ("profile", _I),  # row of World.waves
        ("first_parent", _I),  # World.parents[first_parent : first_parent + n_parents]
        ("n_parents", _I),
        ("first_child", _I),
        ("n_children", _I),
        ("critical_ms", _I),  # rough length of the longest path from here to the job's end, one task per stage
        ("below_ms", _I),  # rough work of this stage and of all that come after it
    ]
)

WAVE = record_type([("first", _I), ("count", _I), ("added_ms", _I)])
"""Position of a wave's durations in ``World.durations_ms``, and the warm-up added to each."""

SETTINGS = record_type(
    [
        ("executors", _I),
        ("moving_ms", _I),  # from one job to another
        ("environment", _I),  # DECIMA_2019 or SPARK_SCHED_SIM
        ("noise", _F),  # durations are stretched by a factor drawn from 1 ± noise
    ]
)

CLOCK = record_type(
    [
        ("now_ms", _I),
        ("arrived", _I),  # jobs that have arrived
        ("finished", _I),
        ("n_active", _I),  # jobs in State.active
        ("n_heap", _I),
        ("sequence", _I),  # of events: their order at one time
        ("round_number", _I),  # of decisions: a stage is picked at most once in a round
        # the source: its executors need a destination
        ("free", _I),  # those without a destination; 0 outside a round
        ("source_job", _I),  # NO_JOB: the general pool, or a job that has ended
        ("source_stage", _I),  # NO_STAGE: a pool; else the stage that has no task left to start
        ("executor", _I),  # the one that has just finished, where the source is a stage
        ("pool", _I),  # first executor of the general pool
        ("in_pool", _I),
        ("free_entry", _I),  # first unused entry of State.commitments
        ("round_head", _I),  # first commitment of this round
        ("round_tail", _I),
        ("offered_again", _I),  # counts requests while nothing moves; idle executors are offered again
        # measurements
        ("decisions", _I),
        ("moves", _I),
        ("running_ms", _I),  # executor-time spent in tasks
        ("moving_ms", _I),  # executor-time spent between jobs
        ("in_system_ms", _I),  # sum over jobs of the time since their arrival, up to now or their end
        ("n_log", _I),
    ]
)

JOB_STATE = record_type(
    [
        ("active", _I),  # 1 from arrival to end
        ("end_ms", _I),
        ("local", _I),  # executors at the job, running or waiting
        ("moving", _I),  # on their way to it
        ("gone", _I),  # executors that it released to the general pool, since it had nothing left to start
        ("committed", _I),  # executors of other jobs and of the general pool that are to come
        ("unfinished", _I),  # stages with tasks not finished
        ("unstarted", _I),  # stages with tasks not started
        ("unsaturated", _I),  # stages that want more executors than they have
        ("open", _I),  # of these, stages with only saturated parents
        ("remaining_work_ms", _I),  # sum over stages of remaining tasks x last duration
        ("usual_work_ms", _I),  # sum over stages of remaining tasks x rough duration
        ("pool", _I),  # first executor that waits in the job's pool
        ("in_pool", _I),
    ]
)

STAGE_STATE = record_type(
    [
        ("remaining", _I),  # tasks not started
        ("running", _I),  # tasks that run
        ("finished", _I),
        ("executors", _I),  # those of the stage, including the one that has just finished
        ("moving", _I),  # on their way to it
        ("committed", _I),  # to come
        ("demand", _I),  # remaining - moving - committed; saturated at 0 and below
        ("waits_for", _I),  # parents that are not saturated; it may be picked at 0
        ("runs_after", _I),  # parents that are not finished; its tasks may start at 0
        ("picked_round", _I),  # the last round in which it was picked
        ("last_ms", _I),  # duration of the task started last; before the first, the rough one
        ("commitment", _I),  # first commitment of its executors
        ("promised", _I),  # its executors with a destination
    ]
)

EXECUTOR = record_type(
    [
        ("job", _I),  # its location
        ("stage", _I),  # the stage that it belongs to or moves to
        ("last_stage", _I),  # of its last task; NO_STAGE: its next task is its first one
        ("moving", _I),  # 1: on its way to the stage
        ("next", _I),  # in a pool
    ]
)

COMMITMENT = record_type([("stage", _I), ("count", _I), ("next", _I)])
"""A number of executors of a source that go to a stage; ``NO_STAGE``: they become idle."""

EVENT = record_type([("due", _I), ("order", _I), ("executor", _I)])
"""The end of an executor's task or move, in the form of ``mirage.kernel.heap``: ``due`` in ms, ``order`` as added."""

RUN = record_type([("stage", _I), ("task", _I), ("executor", _I), ("start_ms", _I), ("end_ms", _I), ("wave", _I)])
"""One task that ran; recorded while ``State.log`` has space."""


class DagWorld(NamedTuple):
    """Arrays that are fixed during an episode."""

    settings: Records  # SETTINGS, one row
    jobs: Records  # JOB, by arrival
    stages: Records  # STAGE
    parents: NDArray[np.int64]  # stages; see STAGE.first_parent
    children: NDArray[np.int64]  # stages
    waves: Records  # WAVE, (profiles, levels, 3 waves)
    durations_ms: NDArray[np.int32]
    levels: NDArray[np.int64]  # (executors + 1, 2): profile levels below and above a number of local executors
    chance: NDArray[np.float64]  # (executors + 1,): of the level below
    salts: NDArray[np.int64]  # (stages,): 32 random bits each, the seeds of the durations of its tasks


class DagState(NamedTuple):
    """Arrays that change during an episode."""

    clock: Records  # CLOCK, one row
    jobs: Records  # JOB_STATE
    stages: Records  # STAGE_STATE
    executors: Records  # EXECUTOR
    active: NDArray[np.int64]  # jobs in the system, by arrival: active[: clock.n_active]
    commitments: Records  # COMMITMENT
    heap: Records  # EVENT
    log: Records  # RUN


def _example_types() -> tuple[Any, Any]:
    ints = np.zeros(1, np.int64)
    world = DagWorld(
        records(SETTINGS, 1), records(JOB, 1), records(STAGE, 1), ints, ints, records(WAVE, 1, 1, 1),
        np.zeros(1, np.int32), np.zeros((1, 2), np.int64), np.zeros(1), ints,
    )  # fmt: skip
    state = DagState(
        records(CLOCK, 1), records(JOB_STATE, 1), records(STAGE_STATE, 1), records(EXECUTOR, 1), ints,
        records(COMMITMENT, 1), records(EVENT, 1), records(RUN, 1),
    )  # fmt: skip
    return typeof(world), typeof(state)  # type: ignore[no-untyped-call]


WORLD_TYPE, STATE_TYPE = _example_types()

PARAMETERS_TYPE = types.Array(types.float64, 1, "C")
"""Parameters of a decision function, and memory for its values between decisions."""

DECIDER = int64(WORLD_TYPE, STATE_TYPE, PARAMETERS_TYPE)
"""A scheduler: called while ``clock.free > 0``, it returns a decision (``mirage.dag.simulator.stage_decision``)."""

DECIDER_TYPE = types.FunctionType(DECIDER)
