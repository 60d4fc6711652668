"""A private real cluster of two pools, for the controller."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirage.control.adviser import Adviser
from mirage.control.pools_file import Pools, read_pools
from mirage.control.verbs import FENCE
from mirage.job_state import JobState
from mirage.slurm.records import QueuedJob
from tests.support import control_cluster
from tests.support.user_shell import Shell
from tests.support.waiting import until

POOLS = """
scheduler = "aryl"
[owner]
nodes = ["n[3-4]"]
partitions = ["inference"]
[borrower]
nodes = ["n[1-2]"]
partition = "train"
[jobs]
comment = "mirage-control"
"""

JOB = "#!/bin/bash\n#SBATCH --output=/dev/null\ntrap 'touch $1.saved' USR1\nwhile true; do sleep 600 & wait $!; done\n"


@pytest.fixture(scope="module", autouse=True)
def kernels_are_compiled() -> None:
    """Compile the kernels before a process must answer in time: a busy machine needs minutes."""
    jobs = [control_cluster.running(5, "t1"), control_cluster.pending(7)]
    cluster = control_cluster.ControlCluster(jobs=jobs, reservations=[control_cluster.loan("i2")])
    adviser = Adviser(cluster.slurm, replace(control_cluster.POOLS, scheduler="aryl"))
    assert not adviser.advise(control_cluster.NOW_S).problem


class Site:
    """A private cluster: two nodes of the borrower, two or more of the owner, and a fence."""

    def __init__(self, private_cluster: Any, folder: Path, nodes: int = 4, **wanted: Any) -> None:
        owned = f"n[3-{nodes}]"
        partitions = (f"PartitionName=inference Nodes={owned}", "PartitionName=train Nodes=ALL")
        self.cluster = private_cluster(nodes=nodes, gpus=4, extra=(*partitions, "DebugFlags=Protocol"), **wanted)
        self.shell, self.folder = Shell(self.cluster, folder), folder
        self.shell.script("job.sh", JOB)
        (folder / "pools.toml").write_text(POOLS.replace("n[3-4]", owned))
        words = (f"Nodes={owned}", "StartTime=now", "Duration=infinite", "Users=root", "Flags=IGNORE_JOBS,OVERLAP")
        self.run("scontrol", "create", "reservation", f"ReservationName={FENCE}", *words)

    def run(self, *argv: str) -> str:
        return self.cluster.run(*argv)  # type: ignore[no-any-return]

    def submit(self, *words: str, partition: str = "train", comment: str = "mirage-control") -> int:
        """A job that saves on USR1 and never ends."""
        name = str(time.monotonic_ns())
        argv = ("sbatch", "--parsable", "-p", partition, f"--comment={comment}", "--mem=10", "-J", name, *words)
        return int(self.run(*argv, str(self.folder / "job.sh"), str(self.folder / name)))

    def job(self, number: int) -> QueuedJob:
        return next(job for job in self.shell.slurm.observe().jobs if job.id == number)

    def until_running(self, number: int, usual_s: float = 10) -> float:
        begun_s = time.monotonic()
        until(lambda: self.job(number).state is JobState.RUNNING, usual_s, lambda: self.run("squeue"))
        return time.monotonic() - begun_s

    def reservations(self) -> list[str]:
        """The lines of scontrol, without times, which differ by a second."""
        lines = self.run("scontrol", "--oneliner", "show", "reservation").splitlines()
        return sorted(re.sub(r"(Start|End)Time=\S+ ", "", line) for line in lines if "mirage-" in line)

    def pools(self) -> Pools:
        return read_pools(self.folder / "pools.toml")

    def advise(self, adviser: Adviser) -> dict[str, Any]:
        """The steps of now, by verb and subject."""
        return {f"{step.kind} {step.subject}": step for step in adviser.advise(time.time()).steps}
