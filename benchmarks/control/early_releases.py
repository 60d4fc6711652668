"""Requeued jobs that are released in the second in which they leave, or a second later.

Jobs of one and two nodes on a private real Slurm. Each is requeued at a random moment; when it has left its nodes,
Slurm's delay of its start is replaced. A node refuses all credentials from before the end of the last attempt: a job
that starts too early fails.

    python benchmarks/control/early_releases.py --jobs 25
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from mirage.job_state import JobState
from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster
from mirage.real_time import wait_until
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import QueuedJob
from mirage.slurm.runner import SystemRunner

SCRIPT = "#!/bin/bash\n#SBATCH --output=/dev/null --requeue --mem=10\nexec sleep 1000\n"


class Released:
    """A cluster on which jobs are requeued one after the other."""

    def __init__(self, folder: Path) -> None:
        self.cluster = PrivateCluster(LabSpec(folder / "slurm", nodes=2, gpus=4, cred_expire_s=120))
        self.script, self.dice = folder / "job.sh", random.Random(1)
        self.script.write_text(SCRIPT)
        self.slurm = SlurmClient(SystemRunner(self.cluster.environment))

    def job(self, number: int) -> QueuedJob:
        """The job as Slurm reports it."""
        return next(job for job in self.slurm.observe().jobs if job.id == number)

    def until(self, number: int, condition: Callable[[QueuedJob], bool]) -> None:
        """Wait for a state of a job."""
        if not wait_until(lambda: condition(self.job(number)), 60, pause_s=0.02):
            raise RuntimeError(self.cluster.run("scontrol", "show", "job", str(number)))

    def measure(self, nodes: int, later_s: int) -> tuple[bool, float]:
        """Requeue and release a job: whether it failed, and seconds until its start."""
        run = self.cluster.run
        number = int(run("sbatch", "--parsable", "-t", "10", "-N", str(nodes), str(self.script)))
        self.until(number, lambda job: job.state is JobState.RUNNING)
        time.sleep(self.dice.random())
        run("scontrol", "requeue", str(number))
        self.until(number, lambda job: job.state is JobState.PENDING and not job.completing)
        begun_s = time.monotonic()
        run("scontrol", "update", f"JobId={number}", f"StartTime=uts{self.job(number).submit_s + later_s}")
        self.until(number, lambda job: job.state is not JobState.PENDING)
        waited_s = time.monotonic() - begun_s
        time.sleep(0.3)
        failed = self.job(number).state is not JobState.RUNNING
        run("scancel", str(number))
        self.until(number, lambda job: job.state is not JobState.RUNNING)
        return failed, waited_s


def main() -> None:
    """Measure, and print the number of jobs that failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=25, help="jobs of each kind")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mirage-early-") as name:
        released = Released(Path(name))
        try:
            released.cluster.up()
            for later_s in (0, 1):
                found = [released.measure(1 + k % 2, later_s) for k in range(given.jobs)]
                waits_s = [waited_s for _, waited_s in found]
                lost, median_s = sum(failed for failed, _ in found), statistics.median(waits_s)
                print(f"{later_s} s later: {lost} of {len(found)} failed")
                print(f"from the release to the start: {median_s:.2f} s in the median, {max(waits_s):.2f} s at most")
        finally:
            released.cluster.purge()


if __name__ == "__main__":
    main()
