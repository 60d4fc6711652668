"""A cluster of four nodes with weeks of history under a simulated Slurm, and its commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mirage.duration import DAY_S
from mirage.errors import RequestNotSent, SlurmUnreachable
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.sim.cluster import Cluster, NodeGroup, Partition
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.slurm.runner import Completed
from mirage.trace.table import JobTable
from tests.support.two_worlds import CommandLines

BEGIN_S = 1_790_000_000
POOL = Cluster((NodeGroup("a", 4),), (Partition("main"),))
USER = "ada"
DAEMON = "PrivateData = none\nSlurmDBD configuration:\nDbdHost = db\nPrivateData            = {}\nStorageType = x\n"
"""What ``sacctmgr show configuration`` prints, in short."""


def site_slurm(
    days: float = 45, jobs: int = 600, users: int = 6, cluster: Cluster = POOL, partitions: Sequence[str] = ("main",)
) -> VirtualSlurm:
    """The cluster some days after its first job; with one user all jobs are ada's."""
    dice = np.random.default_rng(2)
    run_s = np.clip(dice.lognormal(8.7, 1.0, jobs), 60, DAY_S).astype(int)
    table = JobTable.build(
        range(1, jobs + 1),
        submit_s=BEGIN_S + np.sort(dice.integers(0, int(days * DAY_S), jobs)),
        elapsed_s=run_s,
        limit_s=np.minimum(2 * run_s, 2 * DAY_S),
        nodes=dice.choice([1, 2, 4], jobs, p=[0.7, 0.2, 0.1]),
        user=[USER if k == 0 else f"u{k}" for k in dice.integers(0, users, jobs)],
        partition=[partitions[k] for k in dice.integers(0, len(partitions), jobs)],
    )
    settings = SlurmSettings(weight_age=1000.0)
    slurm = VirtualSlurm(Simulation(cluster, workload(table, cluster), "slurm", settings), user=USER)
    slurm.sleep(BEGIN_S + int(days * DAY_S) - slurm.clock())
    return slurm


@dataclass
class SiteCommandLines(CommandLines):
    """Command lines without processes.

    Attributes:
        private: What slurmdbd's PrivateData says; None where sacctmgr is not there.
        qos: What sacctmgr tells of the QOS; empty for nothing.
        associations: What it tells of users and accounts.
        longest_s: Accounting does not answer for longer stretches than this.
        queries: The command lines of sacct.
    """

    private: str | None = "none"
    longest_s: int = 1000 * DAY_S
    qos: str = "Name|Priority|Preempt|MaxJobsPU\nnormal|0||3\n"
    associations: str = ""
    queries: list[Sequence[str]] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float | None = None,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> Completed:
        if argv[0] == "sacctmgr":
            if self.private is None:
                raise RequestNotSent("cannot run sacctmgr")
            if argv[3] in ("qos", "assoc"):
                config = self.qos if argv[3] == "qos" else self.associations
                return Completed(0, config, "") if config else Completed(1, "", "sacctmgr: error: nothing found")
            return Completed(0, DAEMON.format(self.private), "")
        if argv[0] == "sacct":
            self.queries.append(argv)
            if self.stretch_s(argv) > self.longest_s:
                raise SlurmUnreachable("sacct did not answer within 60 s")
        return super().run(argv, timeout_s=timeout_s, environment=environment, directory=directory)

    @staticmethod
    def stretch_s(argv: Sequence[str]) -> float:
        """Length in seconds of the period that a command line of sacct covers."""
        first, last = (
            next(int(word.partition("=uts")[2]) for word in argv if word.startswith(option))
            for option in ("--starttime", "--endtime")
        )
        return float(last - first)
