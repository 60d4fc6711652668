"""The time for which an evicted job is held, on a private real Slurm.

The executor is the process of ``mirage control run --act``; the plans come from this benchmark. Four jobs fill two
nodes of the borrower and two lent ones. Each plan evicts one to four of them; a job needs up to 0.4 s to end. All times
are from the journal of the executor and the log of slurmctld, to a millisecond:

``leave``: from the requeue until the job has left its nodes. Slurm and the job need this time.
``release``: from then until slurmctld has the release. The executor needs this time.
``hold``: the sum of both.
``start``: from the time when the job has left until it may start. Slurm refuses a start in the same second.

Reference: Slurm's own delay of a requeued job, in the same run.

    python benchmarks/control/evictions.py --evictions 60 -o idle.json
    python benchmarks/control/evictions.py --evictions 60 --busy 2 -o busy.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from mirage.control.executor_folder import read_journal
from mirage.control.executor_process import end_executor, start_executor, write_plan
from mirage.control.verbs import LOAN, Verb
from mirage.job_state import JobState
from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster
from mirage.real_time import wait_until
from mirage.slurm.client import SlurmClient
from mirage.slurm.records import QueuedJob
from mirage.slurm.runner import SystemRunner

SCRIPT = """#!/bin/bash
#SBATCH --output=/dev/null --mem=10 --requeue
trap '' USR1
trap 'sleep 0.$((RANDOM % 5)); exit' TERM
sleep 10000 &
while true; do wait; done
"""

POOLS = """
poll = "10s"
[owner]
nodes = ["n[3-4]"]
partitions = ["inference"]
users = ["root"]
[borrower]
nodes = ["n[1-2]"]
partition = "train"
[jobs]
comment = "mirage-control"
grace = "1s"
[rates]
requests_per_minute = 60
commands_per_minute = 600
evictions_per_hour = 1000
evictions_per_job_hour = 60
"""

BUSY = "while True: pass"
LEFT = re.compile(r"^\[(\S+)\] Requeuing JobId=(\d+)")
RELEASED = re.compile(r"^\[(\S+)\] sched: _update_job: setting begin to (\S+) for JobId=(\d+)")
PATIENCE_S = 60.0


class Evicted:
    """A cluster on which an executor evicts jobs, and what was measured on it."""

    def __init__(self, folder: Path, seed: int) -> None:
        extra = ("PartitionName=inference Nodes=n[3-4]", "PartitionName=train Nodes=ALL")
        self.cluster = PrivateCluster(LabSpec(folder / "slurm", nodes=4, gpus=4, extra=extra, cred_expire_s=120))
        self.folder, self.dice, self.plans = folder, random.Random(seed), 0
        self.slurm = SlurmClient(SystemRunner(self.cluster.environment))
        (folder / "job.sh").write_text(SCRIPT)
        (folder / "pools.toml").write_text(POOLS)

    def jobs(self) -> list[QueuedJob]:
        """The jobs of the cluster."""
        return [job for job in self.slurm.observe().jobs if job.partition == "train"]

    def plan(self, verbs: Iterable[Verb]) -> None:
        """Write the next plan for the executor."""
        self.plans += 1
        write_plan(self.folder / "state", self.plans, int(time.time()), list(verbs))

    def begin(self) -> int:
        """Start cluster, executor and jobs; returns the executor's process."""
        self.cluster.up()
        os.environ.update(self.cluster.environment)
        process = start_executor(self.folder / "pools.toml", self.folder / "state")
        assert process is not None
        for _ in range(4):
            words = ("-p", "train", "--gpus=4", "-N1", "-t", "30", "--comment=mirage-control")
            self.cluster.run("sbatch", *words, str(self.folder / "job.sh"))
        self.plan(Verb("lend", node=node, minutes=60) for node in ("n3", "n4"))
        if not wait_until(lambda: self.cluster.run("scontrol", "-o", "show", "reservation").count(LOAN) == 2, 10):
            raise RuntimeError(self.cluster.run("scontrol", "show", "reservation"))
        self.fill()
        return process

    def fill(self) -> None:
        """Wait until all jobs run; those that wait use the lent nodes that are free."""
        sent: dict[int, str] = {}
        sent_s = 0.0

        def runs() -> bool:
            nonlocal sent_s
            jobs = self.jobs()
            if time.monotonic() - sent_s > 3:  # a job may have started elsewhere just before
                sent.clear()
            waiting = [job for job in jobs if job.state is JobState.PENDING and not job.completing]
            used = {job.nodelist for job in jobs if job not in waiting}
            free = [node for node in ("n3", "n4") if node not in used | set(sent.values())]
            soon = [job for job in waiting if job.eligible_s <= time.time() and job.id not in sent]
            own = 2 - len(used & {"n1", "n2"})
            if free and len(soon) > own:
                chosen = dict(zip([job.id for job in soon[own:]], free))
                sent.update(chosen)
                sent_s = time.monotonic()
                submitted = {job.id: job.submit_s for job in soon}
                self.plan(Verb("enter", job, submitted[job], node) for job, node in chosen.items())
            return len(jobs) == 4 and all(job.state is JobState.RUNNING and not job.completing for job in jobs)

        if not wait_until(runs, PATIENCE_S, pause_s=0.3):
            raise RuntimeError(self.cluster.run("squeue"))

    def evict(self) -> int:
        """Evict some jobs by one plan, and wait until all run again; returns their number."""
        time.sleep(self.dice.random())
        jobs = self.dice.sample(self.jobs(), self.dice.choice((1, 1, 2, 3, 4)))
        before = len(self.releases())
        self.plan(Verb("evict", job.id, job.submit_s) for job in jobs)
        if not wait_until(lambda: len(self.releases()) >= before + len(jobs), PATIENCE_S, pause_s=0.3):
            raise RuntimeError(self.cluster.run("squeue"))
        self.fill()
        return len(jobs)

    def reference_s(self) -> float:
        """Slurm's own delay of a job that is requeued without an executor."""
        job = self.jobs()[0]
        self.cluster.run("scontrol", "requeue", str(job.id))
        found: list[QueuedJob] = []

        def left() -> bool:
            found[:] = [one for one in self.jobs() if one.id == job.id and one.state is JobState.PENDING]
            return bool(found)

        if not wait_until(left, PATIENCE_S):
            raise RuntimeError(self.cluster.run("squeue"))
        return float(found[0].eligible_s - found[0].submit_s)

    def log(self) -> list[str]:
        """The lines of slurmctld's log."""
        return (self.cluster.spec.log / "slurmctld.log").read_text(errors="replace").splitlines()

    def releases(self) -> list[re.Match[str]]:
        """The releases in the log."""
        return [match for line in self.log() if (match := RELEASED.match(line))]

    def measured(self) -> dict[str, list[float]]:
        """Seconds of each eviction, by part."""
        rows = read_journal(self.folder / "state" / "journal.jsonl")
        requeues = [(row["time_s"], row["verb"]["job"]) for row in rows if row["verb"]["name"] == "requeue"]
        left = [(seconds(match[1]), int(match[2])) for line in self.log() if (match := LEFT.match(line))]
        released = [(seconds(match[1]), int(match[3]), seconds(match[2])) for match in self.releases()]
        found: dict[str, list[float]] = {"leave": [], "release": [], "hold": [], "start": []}
        for at_s, job in requeues:
            left_s = min(when_s for when_s, other in left if other == job and when_s >= at_s)
            free_s, begin_s = min((when_s, begin_s) for when_s, other, begin_s in released if other == job
                                  if when_s >= left_s)  # fmt: skip
            found["leave"].append(left_s - at_s)
            found["release"].append(free_s - left_s)
            found["hold"].append(free_s - at_s)
            found["start"].append(max(free_s, begin_s) - left_s)
        return found


def seconds(text: str) -> float:
    """Seconds since 1970 of a time in a log."""
    return datetime.fromisoformat(text).timestamp()


def cpu_ticks() -> tuple[int, int]:
    """Busy and all ticks of the machine's processors."""
    cells = [int(cell) for cell in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return sum(cells) - cells[3] - cells[4], sum(cells)


def measure(evictions: int, seed: int, busy: int) -> dict[str, Any]:
    """The figures of a run."""
    with tempfile.TemporaryDirectory(prefix="mirage-evict-") as name:
        evicted, processes, process = Evicted(Path(name), seed), [], None
        (Path(name) / "state").mkdir()
        try:
            process = evicted.begin()
            processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
            before, done = cpu_ticks(), 0
            while done < evictions:
                done += evicted.evict()
            after = cpu_ticks()
            found = evicted.measured()
            load = {
                "processors": os.cpu_count(),
                "load": os.getloadavg()[0],
                "busy_share": (after[0] - before[0]) / (after[1] - before[1]),
            }
            return {"evictions": done, "busy": busy, **load, "reference_s": evicted.reference_s(), **found}
        finally:
            for one in processes:
                one.kill()
                one.wait()
            if process is not None:
                end_executor(process)
            evicted.cluster.purge()


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--evictions", type=int, default=60, help="evictions, at least")
    parser.add_argument("--busy", type=int, default=0, help="processes that use a processor each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, help="file for the results (JSON)")
    given = parser.parse_args()
    found = measure(given.evictions, given.seed, given.busy)
    print(
        f"{found['evictions']} evictions beside {given.busy} busy processes; processors {found['busy_share']:.0%} "
        f"busy, load {found['load']:.1f} on {found['processors']}"
    )
    for part in ("leave", "release", "hold", "start"):
        values = found[part]
        print(
            f"{part}: median {statistics.median(values):.2f} s, largest {max(values):.2f} s "
            f"({max(values) / found['reference_s']:.3f} × Slurm's own delay, {found['reference_s']:.0f} s)"
        )
    if given.output:
        given.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
