"""The stage first from which its job's end is farthest, whichever job it is of: list scheduling by critical path."""

from __future__ import annotations

from mirage.dag.schedulers.serving import critical_stage_to_pick
from mirage.dag.simulator.arrays import DECIDER, NOBODY, State, World
from mirage.dag.simulator.decision import NOTHING, decision, takes_more
from mirage.job_state import Floats
from mirage.sim.kernel.compile import kernel


@kernel(DECIDER)
def critical_path(world: World, state: State, parameters: Floats) -> int:
    """All free executors to the stage with the longest way to go; it takes as many as it has tasks for."""
    found, farthest = NOBODY, -1
    for k in range(state.clock[0].n_active):
        job = state.active[k]
        if state.jobs[job].open > 0 and takes_more(world, state, job):
            stage = critical_stage_to_pick(world, state, job)
            if stage != NOBODY and world.stages[stage].critical_ms > farthest:
                found, farthest = stage, world.stages[stage].critical_ms
    return NOTHING if found == NOBODY else decision(found, state.clock[0].free)
