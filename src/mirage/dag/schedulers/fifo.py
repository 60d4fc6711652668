"""First come, first served: a job gets all the executors it can use before the next one does (Spark's default)."""

from __future__ import annotations

from mirage.dag.schedulers.serving import serve_by_arrival
from mirage.dag.simulator.arrays import DECIDER, State, World
from mirage.job_state import Floats
from mirage.sim.kernel.compile import kernel


@kernel(DECIDER)
def fifo(world: World, state: State, parameters: Floats) -> int:
    """The source's job keeps its executors; others come by arrival, stages first whose tasks can start at once.

    With 1 for the parameter stages of other jobs go by their number only.
    """
    return serve_by_arrival(world, state, world.settings[0].executors, parameters[0] == 1)
