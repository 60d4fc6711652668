"""Cost of kernels in a new process: import, compile or load, and a tiny simulation.

Run by ``simulator.py`` in a process of its own, with a cache of its own. ``what-if`` stands for the provisioner's
kernels.
"""

from __future__ import annotations

import sys

from mirage.duration import HOUR_S
from mirage.policy.view import ChainView
from mirage.provision.policies.what_if import WhatIf
from mirage.sim.cluster import Cluster
from mirage.sim.simulation import Simulation
from mirage.sim.workload import workload
from mirage.trace.workload.pool_workload import pool_workload


def use(name: str) -> None:
    """Have everything that belongs to a name compiled and run once."""
    cluster = Cluster.pool(16)
    jobs = workload(pool_workload(50, processors=16), cluster)
    if name != "what-if":
        sim = Simulation(cluster, jobs, name)
        sim.fork().restore(sim)
        sim.run()
        return
    sim = Simulation(cluster, jobs, "slurm")
    sim.advance(HOUR_S)
    link = sim.inject(nodes=1, limit_s=HOUR_S)
    submitted_s, started_s = sim.now_s, sim.run_until_started(link)
    assert started_s is not None
    chain = ChainView(1, HOUR_S, link, submitted_s, started_s, started_s + HOUR_S, step_s=600)
    WhatIf(futures=2).decide(sim.view(chain))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        use(name)
