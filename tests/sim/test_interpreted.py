"""Under NUMBA_DISABLE_JIT=1 the kernels give the schedules of the compiled ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mirage.sim.cluster import Cluster, Limit, NodeGroup, Partition, Reservation
from mirage.sim.disciplines.discipline_registry import DISCIPLINES
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from tests.support.clusters import random_case

SLURM = SlurmSettings(weight_age=1000, weight_size=100, weight_fairshare=500)
CLUSTERS = {
    "pool": Cluster.pool(7),
    "grouped": Cluster((NodeGroup("a", 3), NodeGroup("b", 4)), (Partition("p0"), Partition("p1", ("b",)))),
    "shared": Cluster(
        (NodeGroup("a", 3, 2, 4), NodeGroup("b", 2, 4, 8)),
        (Partition("p0"), Partition("p1", ("b",))),
        shared_nodes=True,
    ),
    "limited": Cluster(
        (NodeGroup("a", 5, 2, 4), NodeGroup("b", 2, 4, 8)),
        shared_nodes=True,
        qos_factors={"q1": 1.0},
        limits=(Limit(jobs=2), Limit("account", nodes=4, gpus=9), Limit("all", jobs=1, qos=("q1",))),
    ),
}
CLUSTERS["memory"] = replace(CLUSTERS["shared"], groups=(NodeGroup("a", 3, 2, 4, 30), NodeGroup("b", 2, 4, 8)))
CLUSTERS |= {
    "reserved pool": replace(CLUSTERS["pool"], reservations=(Reservation(40, 90, "node", 6),)),
    "shared and reserved": replace(CLUSTERS["shared"], reservations=(Reservation(40, 90, "a", 2, announced_s=20),)),
    "memory and reserved": replace(CLUSTERS["memory"], reservations=(Reservation(40, 90, "a", 2, announced_s=20),)),
}


def schedules() -> dict[str, list[list[int]]]:
    """Segments of every discipline on every kind of cluster, with a branch restored.

    Where there are limits, nodes need time between two jobs as well.
    """
    found = {}
    for name, spec in DISCIPLINES.items():
        for kind, cluster in CLUSTERS.items():
            if (spec.one_pool and kind != "pool") or (cluster.reservations and not spec.reservations):
                continue
            case = random_case(cluster, 40, seed=1, waits=not spec.one_pool)
            settings = replace(SLURM, turnover_s=9 if cluster.limits else 0)
            sim = Simulation(cluster, case.jobs, name, settings)
            sim.advance(60)
            mark = sim.fork()
            sim.run_until_started(sim.inject(nodes=2, limit_s=60))
            sim.restore(mark)
            segments = sim.run().segments
            found[f"{name} on {kind}"] = [segments[field].tolist() for field in ("id", "start_s", "end_s", "why")]
    return found


@pytest.mark.slow
def test_plain_python_gives_the_same_schedules() -> None:
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": path}
    script = "import json; from tests.sim.test_interpreted import schedules; print(json.dumps(schedules()))"
    plain = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert plain.returncode == 0, plain.stderr[-3000:]
    assert json.loads(plain.stdout) == schedules()
