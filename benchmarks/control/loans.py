"""How fast a controller lends nodes and gives them back, on private real Slurms.

Training jobs fill two nodes, and wait for more. An owner of four other nodes submits services of two to four nodes at
random moments. Planner and executor are those of ``mirage control run --act``, with a shorter poll, in one process.

``lend``: from the command that lends a node to the start of a waiting job there.
``fence``: from the snapshot to the first signal of an eviction; before it, all waiting jobs have left the loans.
``hold``: from the requeue of a job to its release, after which it may start in the next second.
``owner``: from the submission of a service to its start, if lent nodes are needed for it; a breach takes longer than
1.2 polls and the grace.

Reference: from ``sbatch`` to the start of the same job on an idle node, in the same run.

    python benchmarks/control/loans.py --seeds 3 --returns 30 -o results.json
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from mirage.control.adviser import Adviser
from mirage.control.executor_process import read_plan, write_plan
from mirage.control.plan_executor import PlanExecutor
from mirage.control.pools_file import Pools
from mirage.control.restore import restore
from mirage.control.verbs import FENCE, LOAN
from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster
from mirage.slurm.client import SlurmClient
from mirage.slurm.runner import SystemRunner

SCRIPT = """#!/bin/bash
#SBATCH --output=/dev/null --mem=10 --requeue
trap '' USR1
echo "$(date +%s.%N)" >> $1
exec sleep $2
"""

POOLS = Pools(
    path="pools.toml",
    owner_nodes=("n3", "n4", "n5", "n6"),
    owner_partitions=("inference",),
    borrower_nodes=("n1", "n2"),
    borrower_partition="train",
    owner_users=("root",),
    scheduler="aryl",
    comment="mirage-control",
    commands_per_minute=600,
    evictions_per_hour=1000,
    evictions_per_job_hour=1000,
)

WAITING = 6


class Measured:
    """A cluster with a controller, and what was measured on it."""

    def __init__(self, folder: Path, seed: int, poll_s: int, grace_s: int) -> None:
        extra = ("PartitionName=inference Nodes=n[3-6]", "PartitionName=train Nodes=ALL")
        self.cluster = PrivateCluster(LabSpec(folder / "slurm", nodes=6, gpus=4, extra=extra, cred_expire_s=120))
        self.folder, self.dice = folder, random.Random(seed)
        self.pools = replace(POOLS, poll_s=poll_s, grace_s=grace_s)
        self.lend_s: list[float] = []
        self.fence_s: list[float] = []
        self.owner_s: list[float] = []
        self.returns = self.breaches = self.jobs = 0
        (folder / "job.sh").write_text(SCRIPT)

    def begin(self) -> None:
        """Start the cluster, measure the reference, and begin to act."""
        self.cluster.up()
        runner = SystemRunner(self.cluster.environment)
        self.counts, slurm = runner.count, SlurmClient(runner)
        self.reference_s = [self.started_after_s(*self.submit("train", 1, "--gpus=4")) for _ in range(5)]
        self.adviser = Adviser(slurm, self.pools)
        self.executor = PlanExecutor(slurm, self.pools, self.folder / "state", time.time)
        self.executor.begin()
        self.submit("train", 86_400, "-N2", "--gpus-per-node=4", "-t", "60", comment="")
        self.begun_s = time.monotonic()

    def submit(self, partition: str, seconds: int, *words: str, comment: str = "mirage-control") -> tuple[Path, float]:
        """A job; returns the file of its starts, and when it was submitted."""
        self.jobs += 1
        path, at_s = self.folder / f"job-{self.jobs}", time.time()
        argv = ("sbatch", "-t", "10", "-p", partition, f"--comment={comment}", "-J", path.name, *words)
        self.cluster.run(*argv, str(self.folder / "job.sh"), str(path), str(seconds))
        return path, at_s

    @staticmethod
    def started_after_s(path: Path, at_s: float, patience_s: float = 120.0) -> float:
        """Seconds from a time to the first start of a job after it."""
        end_s = time.time() + patience_s
        while time.time() < end_s:
            starts = [float(line) for line in path.read_text().split()] if path.exists() else []
            if later := [start_s - at_s for start_s in starts if start_s > at_s]:
                return later[0]
            time.sleep(0.02)
        return patience_s

    def poll(self) -> None:
        """One poll of a controller: snapshot, plan file, verbs; measures the lends and the fence."""
        at_s = time.time()
        advice = self.adviser.advise(at_s)
        verbs = [verb for step in advice.steps if not step.refused for verb in step.verbs]
        write_plan(self.folder, 1, advice.time_s, verbs)
        before = len(self.rows())
        self.executor.run_plan(read_plan(self.folder)[1])
        rows = self.rows()[before:]
        lent = {row["verb"]["node"]: row["time_s"] for row in rows if row["verb"]["name"] == "lend"}
        names = {job.id: job.name for job in self.executor.slurm.observe().jobs} if lent else {}
        for row in rows:
            verb = row["verb"]
            if verb["name"] == "enter" and verb["node"] in lent:
                path = self.folder / names[verb["job"]]
                self.lend_s.append(self.started_after_s(path, lent[verb["node"]], 20))
        signals = [row["time_s"] for row in rows if row["verb"]["name"] == "signal"]
        self.fence_s += [signals[0] - at_s] if signals else []

    def rows(self) -> list[dict[str, Any]]:
        """The journal of the executor."""
        return [json.loads(line) for line in self.executor.journal.read_text().splitlines()]

    def cycle(self) -> None:
        """A service comes at a random moment between two polls, runs, and ends."""
        for _ in range(WAITING - self.cluster.run("squeue", "-h", "-p", "train", "-t", "PENDING").count("\n")):
            self.submit("train", 86_400, "--gpus=4")
        self.poll()
        next_s = time.monotonic() + self.pools.poll_s
        self.pass_time(time.monotonic() + self.dice.uniform(0, self.pools.poll_s))
        width = self.dice.choice((2, 3, 4))
        lent = self.cluster.run("scontrol", "-o", "show", "reservation").count(LOAN)
        words = (f"-N{width}", "--gpus-per-node=4", f"--reservation={FENCE}")
        seconds = self.dice.choice((3, self.pools.poll_s + 3))  # the longer ones end the loans
        path, at_s = self.submit("inference", seconds, *words, comment="")
        while not path.exists():
            self.pass_time(next_s, path)
            if not path.exists():
                self.poll()
                next_s = time.monotonic() + self.pools.poll_s
        waited_s = self.started_after_s(path, at_s)
        returned = width - (len(self.pools.owner_nodes) - lent)
        if returned > 0:
            self.returns += returned
            self.owner_s.append(waited_s)
            self.breaches += waited_s > 1.2 * self.pools.poll_s + self.pools.grace_s
        self.pass_time(next_s)
        while time.time() < at_s + waited_s + seconds:
            self.poll()
            self.pass_time(time.monotonic() + self.pools.poll_s)

    def pass_time(self, until_s: float, path: Path | None = None) -> None:
        """Let the executor's clock run until a time, or until a job has started."""
        while time.monotonic() < until_s and not (path is not None and path.exists()):
            self.executor.tick()
            time.sleep(0.1)

    def hold_s(self) -> list[float]:
        """Seconds from each requeue to the release of the job."""
        found, requeued = [], {}
        for row in self.rows():
            job = row["verb"]["job"]
            if row["verb"]["name"] == "requeue":
                requeued[job] = row["time_s"]
            elif row["verb"]["name"] == "release" and job in requeued:
                found.append(row["time_s"] - requeued.pop(job))
        return found

    def report(self) -> dict[str, Any]:
        """The figures."""
        minutes = (time.monotonic() - self.begun_s) / 60
        return {
            "returns": self.returns, "breaches": self.breaches, "lend_s": self.lend_s, "fence_s": self.fence_s,
            "owner_s": self.owner_s, "hold_s": self.hold_s(), "reference_s": self.reference_s,
            "minutes": round(minutes, 1),
        }  # fmt: skip


def measure(seed: int, returns: int, poll_s: int, grace_s: int) -> dict[str, Any]:
    """The figures of one seed."""
    with tempfile.TemporaryDirectory(prefix="mirage-loans-") as name:
        measured = Measured(Path(name), seed, poll_s, grace_s)
        try:
            measured.begin()
            while measured.returns < returns:
                measured.cycle()
                print(f"seed {seed}: {measured.returns} returns", file=sys.stderr, flush=True)
            refused = restore(measured.executor)
            return {**measured.report(), "not_restored": refused}
        finally:
            measured.cluster.purge()


def main() -> None:
    """Measure all seeds at once, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3, help="seeds, each on a cluster of its own, at the same time")
    parser.add_argument("--seed", type=int, help="one seed only; prints its figures as JSON")
    parser.add_argument("--returns", type=int, default=30, help="returns of each seed, at least")
    parser.add_argument("--poll", type=int, default=20, help="seconds between two snapshots")
    parser.add_argument("--grace", type=int, default=2, help="seconds between signal and requeue")
    parser.add_argument("-o", "--output", type=Path, help="file for the results (JSON)")
    given = parser.parse_args()
    if given.seed is not None:
        print(json.dumps(measure(given.seed, given.returns, given.poll, given.grace)))
        return
    words = ("--returns", str(given.returns), "--poll", str(given.poll), "--grace", str(given.grace))
    running = [
        subprocess.Popen([sys.executable, __file__, "--seed", str(seed), *words], stdout=subprocess.PIPE)
        for seed in range(given.seeds)
    ]
    seeds = [json.loads(process.communicate()[0]) for process in running]
    reference_s = statistics.median(value for seed in seeds for value in seed["reference_s"])
    for name in ("lend_s", "fence_s", "owner_s", "hold_s"):
        values = sorted(value for seed in seeds for value in seed[name])
        middle = statistics.median(values)
        print(f"{name}: {len(values)}, median {middle:.2f} s ({middle / reference_s:.1f} × the start of a job on an "
              f"idle node, {reference_s:.2f} s), largest {values[-1]:.2f} s")  # fmt: skip
    print(f"returns: {[seed['returns'] for seed in seeds]}, breaches: {[seed['breaches'] for seed in seeds]}")
    if given.output:
        given.output.write_text(json.dumps({"poll_s": given.poll, "grace_s": given.grace, "seeds": seeds}, indent=1))


if __name__ == "__main__":
    main()
