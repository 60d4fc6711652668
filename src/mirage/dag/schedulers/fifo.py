"""First come, first served: a job gets all it can use, then the next (Spark's default)."""

from __future__ import annotations

from mirage.array_types import Floats
from mirage.dag.schedulers.serving import serve_by_arrival
from mirage.dag.simulator.dag_arrays import DECIDER, DagState, DagWorld
from mirage.kernel.compile import kernel


@kernel(DECIDER)
def fifo(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """The source's job retains its executors; others follow by arrival, ready stages first.

    With parameter 1, stages of other jobs go by their number only.
    """
    return serve_by_arrival(world, state, world.settings[0].executors, parameters[0] == 1)
