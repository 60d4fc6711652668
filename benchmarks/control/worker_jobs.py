"""The time that a change of size by worker jobs takes, on a private real Slurm.

The executor is the process of ``mirage control run --act``; the plans come from this benchmark. Each plan sets another
number of workers, from 0 to 3 of two GPUs each. A change ends when that number of workers runs, and the others have
left their nodes: their batch scripts have begun, or ``squeue`` no longer shows them on a node.

Reference: the same changes of a job that is requeued for each of them, in the same run. It has nothing to save.

    python benchmarks/control/worker_jobs.py --changes 60 -o idle.json
    python benchmarks/control/worker_jobs.py --changes 60 --busy 2 -o busy.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirage.control.executor_process import end_executor, start_executor, write_plan
from mirage.control.verbs import Verb
from mirage.job_state import JobState
from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster
from mirage.real_time import wait_until
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import QueuedJob
from mirage.slurm.runner import SystemRunner

SCRIPT = """#!/bin/bash
#SBATCH -p train -t 60 --output=/dev/null --mem=10 --requeue
echo $SLURM_JOB_ID $SLURM_RESTART_COUNT $SLURM_GPUS_ON_NODE >> begun
exec sleep 10000
"""

POOLS = """
[owner]
nodes = ["n3"]
partitions = ["inference"]
users = ["root"]
[borrower]
nodes = ["n[1-2]"]
partition = "train"
[jobs]
comment = "mirage-control"
most_gpus = 8
[rates]
requests_per_minute = 60
commands_per_minute = 600
resizes_per_hour = 1000
resizes_per_job_hour = 60
"""

BUSY = "while True: pass"
PATIENCE_S = 60.0
WORKERS, EACH = 3, 2


class Elastic:
    """A cluster with an executor, a job, and its workers."""

    def __init__(self, folder: Path) -> None:
        extra = ("PartitionName=inference Nodes=n3", "PartitionName=train Nodes=ALL")
        self.cluster = PrivateCluster(LabSpec(folder / "slurm", nodes=3, gpus=4, extra=extra, cred_expire_s=120))
        self.folder, self.plans = folder, 0
        self.slurm = SlurmClient(SystemRunner(self.cluster.environment))
        (folder / "job.sh").write_text(SCRIPT)
        (folder / "pools.toml").write_text(POOLS)
        (folder / "state").mkdir()

    def begin(self) -> int:
        """Start the cluster and the executor; returns the process of the executor."""
        self.cluster.up()
        os.environ.update(self.cluster.environment)
        process = start_executor(self.folder / "pools.toml", self.folder / "state")
        assert process is not None
        return process

    def submit(self, comment: str, *words: str) -> int:
        """A job of two GPUs that takes part."""
        comment = f"--comment=mirage-control {comment}"
        argv = ("sbatch", "--parsable", "-D", str(self.folder), f"--gpus={EACH}", comment, *words)
        return int(self.cluster.run(*argv, str(self.folder / "job.sh")))

    def jobs(self) -> dict[int, QueuedJob]:
        """The jobs on nodes, by id."""
        return {job.id: job for job in self.slurm.observe().jobs if job.state is JobState.RUNNING or job.completing}

    def begun(self) -> list[tuple[int, ...]]:
        """Id, restarts and GPUs of each attempt with a batch script that has begun."""
        path = self.folder / "begun"
        rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [tuple(map(int, row)) for row in rows]

    def resize(self, job: int, gpus: int, done: Callable[[], bool]) -> float:
        """Seconds from the plan until a condition holds."""
        (submit_s,) = [one.submit_s for one in self.slurm.observe().jobs if one.id == job]
        self.plans += 1
        begun_s = time.monotonic()
        verb = Verb("resize", job, submit_s, gpus=gpus, warns=False)
        write_plan(self.folder / "state", self.plans, int(time.time()), [verb])
        if not wait_until(done, PATIENCE_S, pause_s=0.03):
            raise RuntimeError(self.cluster.run("squeue"))
        return time.monotonic() - begun_s


def by_workers(elastic: Elastic, changes: int, dice: random.Random) -> dict[str, list[float]]:
    """Seconds of changes of the number of workers: more of them, and fewer."""
    main = elastic.submit("")
    workers = [elastic.submit(f"worker-of={main}", "--hold") for _ in range(WORKERS)]
    wait_until(lambda: main in elastic.jobs(), PATIENCE_S)
    present, found = 0, {"more": [], "fewer": []}  # type: tuple[int, dict[str, list[float]]]
    for _ in range(changes):
        time.sleep(1 + dice.random())
        wanted = dice.choice([count for count in range(WORKERS + 1) if count != present])
        before = len(elastic.begun())

        def done(wanted: int = wanted, starts: int = before + max(wanted - present, 0)) -> bool:
            return len(elastic.begun()) == starts and len(set(workers) & set(elastic.jobs())) == wanted

        found["more" if wanted > present else "fewer"].append(elastic.resize(main, EACH * (1 + wanted), done))
        present = wanted
    assert len([row for row in elastic.begun() if row[0] == main]) == 1, "the job itself was restarted"
    elastic.cluster.run("scancel", *map(str, (main, *workers)))
    wait_until(lambda: not elastic.jobs(), PATIENCE_S)
    return found


def by_requeue(elastic: Elastic, changes: int, dice: random.Random) -> list[float]:
    """Seconds of changes of the size of a job that is requeued."""
    job, present, found = elastic.submit(f"gpus={EACH}-8"), EACH, []
    wait_until(lambda: job in elastic.jobs(), PATIENCE_S)
    for _ in range(changes):
        time.sleep(1 + dice.random())
        present = dice.choice([gpus for gpus in (2, 4, 6, 8) if gpus != present])
        before = len(elastic.begun())
        found.append(elastic.resize(job, present, lambda before=before: len(elastic.begun()) > before))
    elastic.cluster.run("scancel", str(job))
    return found


def measure(changes: int, seed: int, busy: int) -> dict[str, Any]:
    """The figures of a run."""
    with tempfile.TemporaryDirectory(prefix="mirage-workers-") as name:
        elastic, processes, process, dice = Elastic(Path(name)), [], None, random.Random(seed)
        try:
            process = elastic.begin()
            processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
            found = by_workers(elastic, changes, dice)
            requeued = by_requeue(elastic, max(changes // 4, 1), dice)
            return {"busy": busy, "load": os.getloadavg()[0], **found, "requeue": requeued}
        finally:
            for one in processes:
                one.kill()
                one.wait()
            if process is not None:
                end_executor(process)
            elastic.cluster.purge()


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--changes", type=int, default=60, help="changes of size by workers, at most 60")
    parser.add_argument("--busy", type=int, default=0, help="processes that use a processor each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help="file for the results (JSON)")
    given = parser.parse_args()
    found = measure(given.changes, given.seed, given.busy)
    reference_s = statistics.median(found["requeue"])
    print(f"beside {given.busy} busy processes; load {found['load']:.1f} on {os.cpu_count()} processors")
    for part in ("more", "fewer", "requeue"):
        values = found[part]
        print(
            f"{part}: {len(values)} changes, median {statistics.median(values):.2f} s, largest {max(values):.2f} s "
            f"({statistics.median(values) / reference_s:.2f} × the median of a requeue)"
        )
    if given.output:
        given.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
