"""First come, first served: a job gets all the executors it can use before the next one does (Spark's default)."""

from __future__ import annotations

from mirage.dag.schedulers.serving import serve_by_arrival
from mirage.dag.simulator.arrays import DECIDER, State, World
from mirage.job_state import Floats
from mirage.sim.kernel.compile import kernel


@kernel(DECIDER)
def fifo(world: World, state: State, parameters: Floats) -> int:
    """The source's job keeps its executors; others come by arrival, their stages by number as in Spark's own scheduler.

    With 1 for the parameter stages come first whose tasks can start at once.
    """
    return serve_by_arrival(world, state, world.settings[0].executors, parameters[0] == 0)
