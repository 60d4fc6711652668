"""Features of a stage that wants executors: the load, its job, and the stage itself.

A candidate is a stage that may be picked, of a job that can get executors. Durations are seconds; work is
executor-seconds by the durations of the last tasks, or by the usual ones where the setting ``work`` of the tree selects
them; paths are rough lengths with one task per stage.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirage.dag.simulator.dag_arrays import DagState, DagWorld
from mirage.dag.simulator.stage_decision import held, is_ready, may_pick, takes_more
from mirage.distill.tree import TreeFeature
from mirage.distill.units import Unit
from mirage.kernel.compile import kernel

Row = NDArray[np.float64]

FEATURES = (
    # the load
    TreeFeature("executors"),  # in the cluster
    TreeFeature("jobs"),  # in the system
    TreeFeature("crowding", Unit.SHARE),  # jobs per executor
    TreeFeature("backlog", Unit.DURATION),  # work of all jobs per executor
    TreeFeature("free", Unit.SHARE),  # executors that need a destination, of all
    # the job
    TreeFeature("own", Unit.FLAG),  # the executors that need a destination are this job's
    TreeFeature("new", Unit.FLAG),  # no executor works for it, or is on its way
    TreeFeature("holds"),  # executors at the job, on their way and promised
    TreeFeature("work", Unit.DURATION),
    TreeFeature("work_times_least"),  # its work over the least of any job's
    TreeFeature("work_share", Unit.SHARE),  # its work over that of all jobs
    TreeFeature("drains_in", Unit.DURATION),  # its work over the executors that it holds
    TreeFeature("age", Unit.DURATION),  # since it arrived
    TreeFeature("job_path", Unit.DURATION),  # its longest path from here
    TreeFeature("tasks_left"),  # not started
    TreeFeature("stages_left"),  # not finished
    TreeFeature("choices"),  # its stages that may be picked
    # the stage
    TreeFeature("ready", Unit.FLAG),  # its tasks can start at once; else it waits for stages that still run
    TreeFeature("starts_in", Unit.DURATION),  # about when they can, if the stages that it waits for continue as now
    TreeFeature("tasks"),  # without a promised executor
    TreeFeature("task_time", Unit.DURATION),  # of the task started last
    TreeFeature("stage_work", Unit.DURATION),
    TreeFeature("stage_path", Unit.DURATION),  # the longest path from its start to the job's end
    TreeFeature("slack", Unit.DURATION),  # by which this path is shorter than the job's longest
    TreeFeature("work_below", Unit.DURATION),  # of the stage and all that come after it
    TreeFeature("here"),  # executors at the stage, on their way and promised
    TreeFeature("before"),  # stages of the job that may be picked and come first in its order
    TreeFeature("smaller"),  # stages of the job that may be picked and have less work
    TreeFeature("children"),  # stages that need its output
)

(
    EXECUTORS, JOBS, CROWDING, BACKLOG, FREE, OWN, NEW, HOLDS, WORK, WORK_TIMES_LEAST, WORK_SHARE, DRAINS_IN, AGE,
    JOB_PATH, TASKS_LEFT, STAGES_LEFT, CHOICES, READY, STARTS_IN, TASKS, TASK_TIME, STAGE_WORK, STAGE_PATH, SLACK,
    WORK_BELOW, HERE, BEFORE, SMALLER, CHILDREN,
) = range(len(FEATURES))  # fmt: skip

EVERYTHING = (1 << len(FEATURES)) - 1
"""Bits of tested columns, here all of them; columns that take long are filled only if tested."""

COMPARED = 1 << BACKLOG | 1 << WORK_TIMES_LEAST | 1 << WORK_SHARE
"""Columns that need the work of all jobs."""

SCANNED = 1 << JOB_PATH | 1 << TASKS_LEFT | 1 << CHOICES | 1 << SLACK | 1 << SMALLER
"""Columns that need all stages of a job."""

OF_A_STAGE = EVERYTHING & ~((1 << READY) - 1)
"""Columns that can differ between the stages of a job."""

_LEAST_WORK_S = 0.001
"""Least work for ratios: jobs with only started tasks have no work left to start."""


@kernel()
def may_have(world: DagWorld, state: DagState, job: int) -> bool:
    """Whether a job may have candidates: it has open stages and can get executors."""
    return bool(state.jobs[job].open > 0 and takes_more(world, state, job))


@kernel()
def job_work_ms(state: DagState, job: int, usual: bool) -> int:
    """The work of a job's unstarted tasks, by their usual or their last durations."""
    return int(state.jobs[job].usual_work_ms if usual else state.jobs[job].remaining_work_ms)


@kernel()
def fill_load(world: DagWorld, state: DagState, usual: bool, tested: int, row: Row) -> None:
    """Fills the columns of the load, and puts into those of work what jobs are compared with."""
    clock = state.clock[0]
    executors = world.settings[0].executors
    total_ms, least_ms = 0, -1
    if tested & COMPARED:
        for place in range(clock.n_active):
            work_ms = job_work_ms(state, state.active[place], usual)
            total_ms += work_ms
            if state.jobs[state.active[place]].open > 0 and (least_ms < 0 or work_ms < least_ms):
                least_ms = work_ms
    row[EXECUTORS] = executors
    row[JOBS] = clock.n_active
    row[CROWDING] = clock.n_active / executors
    row[BACKLOG] = total_ms / 1000.0 / executors
    row[FREE] = clock.free / executors
    row[WORK_SHARE] = max(total_ms / 1000.0, _LEAST_WORK_S)
    row[WORK_TIMES_LEAST] = max(least_ms / 1000.0, _LEAST_WORK_S)


@kernel()
def fill_job(
    world: DagWorld, state: DagState, job: int, usual: bool, tested: int, total_s: float, least_s: float, row: Row
) -> None:
    """Fills the columns of a job.

    Args:
        usual: Whether work uses the usual durations.
        tested: Bits of the columns that are tested.
        total_s: Work of all jobs.
        least_s: Work of the job that has least.
    """
    clock, now = state.clock[0], state.jobs[job]
    work_s = job_work_ms(state, job, usual) / 1000.0
    holds = held(state, job)
    row[OWN] = job == clock.source_job
    row[NEW] = holds == 0
    row[HOLDS] = holds
    row[WORK] = work_s
    row[WORK_TIMES_LEAST] = work_s / least_s
    row[WORK_SHARE] = work_s / total_s
    row[DRAINS_IN] = work_s / max(holds, 1)
    row[AGE] = (clock.now_ms - world.jobs[job].arrival_ms) / 1000.0
    row[STAGES_LEFT] = now.unfinished
    if tested & SCANNED == 0:
        return
    longest_ms, choices, tasks = 0, 0, 0
    first = world.jobs[job].first_stage
    for stage in range(first, first + world.jobs[job].n_stages):
        if state.stages[stage].remaining > 0:
            tasks += state.stages[stage].remaining
            longest_ms = max(longest_ms, world.stages[stage].critical_ms)
            if may_pick(state, stage):
                choices += 1
    row[JOB_PATH] = longest_ms / 1000.0
    row[CHOICES] = choices
    row[TASKS_LEFT] = tasks


@kernel()
def _starts_in_s(world: DagWorld, state: DagState, stage: int) -> float:
    """The estimated end of a stage's last parent, with tasks as long as the last one started."""
    fixed, longest = world.stages[stage], 0.0
    for place in range(fixed.first_parent, fixed.first_parent + fixed.n_parents):
        parent = world.parents[place]
        now = state.stages[parent]
        if now.finished < world.stages[parent].tasks:
            rounds = 0.5 + now.remaining / max(1, now.executors + now.moving + now.committed)
            longest = max(longest, rounds * now.last_ms / 1000.0)
    return longest


@kernel()
def fill_stage(world: DagWorld, state: DagState, stage: int, before: int, tested: int, row: Row) -> None:
    """Fills the columns of a stage; those of its job are filled already.

    Args:
        tested: Bits of the columns that are tested.
        before: Candidates of the job that come first in its order.
    """
    now, fixed = state.stages[stage], world.stages[stage]
    work_ms = now.remaining * now.last_ms
    row[READY] = is_ready(state, stage)
    if tested & 1 << STARTS_IN:
        row[STARTS_IN] = 0.0 if row[READY] else _starts_in_s(world, state, stage)
    row[TASKS] = now.demand
    row[TASK_TIME] = now.last_ms / 1000.0
    row[STAGE_WORK] = work_ms / 1000.0
    row[STAGE_PATH] = fixed.critical_ms / 1000.0
    row[SLACK] = row[JOB_PATH] - row[STAGE_PATH]
    row[WORK_BELOW] = fixed.below_ms / 1000.0
    row[HERE] = now.executors + now.moving + now.committed
    row[BEFORE] = before
    row[CHILDREN] = fixed.n_children
    row[SMALLER] = 0.0
    if tested & 1 << SMALLER and row[CHOICES] > 1.0:
        job = world.jobs[fixed.job]
        for other in range(job.first_stage, job.first_stage + job.n_stages):
            if may_pick(state, other) and state.stages[other].remaining * state.stages[other].last_ms < work_ms:
                row[SMALLER] += 1.0


@kernel(forceinline=False)
def candidate_rows(
    world: DagWorld, state: DagState, rows: NDArray[np.float64], stages: NDArray[np.int64], usual: bool = False
) -> int:
    """Fills a row for each candidate; returns their number.

    Args:
        rows: Shape (candidates or more, features).
        stages: Shape (candidates or more,), the stage of each row.
        usual: Whether the work of jobs uses the usual durations.
    """
    count = 0
    for place in range(state.clock[0].n_active):
        job = state.active[place]
        if not may_have(world, state, job):
            continue
        fixed, before = world.jobs[job], 0
        for stage in range(fixed.first_stage, fixed.first_stage + fixed.n_stages):
            if may_pick(state, stage) and count < len(stages):
                row = rows[count]
                fill_load(world, state, usual, EVERYTHING, row)
                fill_job(world, state, job, usual, EVERYTHING, row[WORK_SHARE], row[WORK_TIMES_LEAST], row)
                fill_stage(world, state, stage, before, EVERYTHING, row)
                stages[count] = stage
                before += 1
                count += 1
    return count
