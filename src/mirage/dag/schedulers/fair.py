"""Fair shares: an equal number of executors per job, rounded up.

Decima's "dynamic partition".
"""

from __future__ import annotations

from mirage.array_types import Floats
from mirage.dag.schedulers.serving import serve_by_arrival
from mirage.dag.simulator.dag_arrays import DECIDER, DagState, DagWorld
from mirage.kernel.compile import kernel


@kernel(DECIDER)
def fair(world: DagWorld, state: DagState, parameters: Floats) -> int:
    """The source's job retains its executors; others, by arrival, get them up to their share.

    Shares are of the jobs that still want executors; with parameter 1, of all jobs in the system.
    """
    clock = state.clock[0]
    sharing = clock.n_active
    if parameters[0] == 0:
        sharing = 0
        for k in range(clock.n_active):
            sharing += int(state.jobs[state.active[k]].unsaturated > 0)
    executors = world.settings[0].executors
    return serve_by_arrival(world, state, -(-executors // max(1, sharing)), False)
