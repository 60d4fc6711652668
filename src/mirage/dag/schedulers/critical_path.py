"""List scheduling by critical path: first the stage farthest from its job's end.

With many jobs the executors of a stage that ends mostly move to another job, which costs a move and a fresh task each.
``critical_path_local`` skips such stages while the executors are useful where they are, and stages that cannot start.
"""

from __future__ import annotations

from mirage.array_types import Floats
from mirage.dag.schedulers.serving import critical_stage_to_pick
from mirage.dag.simulator.dag_arrays import DECIDER, NO_JOB, NO_STAGE, DagState, DagWorld
from mirage.dag.simulator.stage_decision import NOTHING, decision, is_ready, may_pick, takes_more
from mirage.kernel.compile import kernel


@kernel(DECIDER)
def critical_path(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """Gives all free executors to the stage with the longest path; it takes one per task."""
    found, farthest = NO_STAGE, -1
    for k in range(state.clock[0].n_active):
        job = state.active[k]
        if state.jobs[job].open > 0 and takes_more(world, state, job):
            stage = critical_stage_to_pick(world, state, job)
            if stage != NO_STAGE and world.stages[stage].critical_ms > farthest:
                found, farthest = stage, world.stages[stage].critical_ms
    return NOTHING if found == NO_STAGE else decision(found, state.clock[0].free)


@kernel()
def _ready_or_critical(world: DagWorld, state: DagState, job: int) -> int:
    """The stage of a job with the longest path; ready stages come before all others."""
    found, farthest = NO_STAGE, -1
    if state.jobs[job].open == 0 or not takes_more(world, state, job):
        return NO_STAGE
    first = world.jobs[job].first_stage
    for stage in range(first, first + world.jobs[job].n_stages):
        if may_pick(state, stage) and is_ready(state, stage) and world.stages[stage].critical_ms > farthest:
            found, farthest = stage, world.stages[stage].critical_ms
    return critical_stage_to_pick(world, state, job) if found == NO_STAGE else int(found)


@kernel(DECIDER)
def critical_path_local(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """The source's job first; then other jobs by the longest path, their ready stages first."""
    clock = state.clock[0]
    if clock.source_job != NO_JOB:
        stage = _ready_or_critical(world, state, clock.source_job)
        if stage != NO_STAGE:
            return decision(stage, clock.free)
    found, farthest = NO_STAGE, -1
    for k in range(clock.n_active):
        stage = _ready_or_critical(world, state, state.active[k])
        if stage != NO_STAGE and world.stages[stage].critical_ms > farthest:
            found, farthest = stage, world.stages[stage].critical_ms
    return NOTHING if found == NO_STAGE else decision(found, clock.free)
