"""Schedulers that act on a real Slurm, against Slurm's own preemption and loans.

Each run has a private cluster: two nodes of a borrower, which trains, and four of an owner, which serves; four GPUs
each. All policies get the same jobs at the same times. A training job writes its work into a file when Slurm signals or
ends it, and goes on from there. The controller gives it ten seconds for that, as does Slurm's own loan.

``fifo``, ``aryl``, ``pickyman``: planner and executor of ``mirage control run --act``, in one process, with a shorter
poll. FIFO and PickyMan lend nothing.
``qos``: PreemptType=preempt/qos, PreemptMode=REQUEUE and PreemptExemptTime; no controller. Training may use all nodes.
``slurm-loan``: a fence with MaxStartDelay, and training jobs with ``--signal=R:USR1@LEAD``; no controller.
``slurm``: no loan and no preemption.

The reference is ``qos``: all others are ratios to it, by seed. With ``--supply equal`` there is no owner, and training
has four nodes under every policy: then policies differ in order and preemption only.

    python benchmarks/control/policies.py --seeds 3 -o results.json --record runs
    python benchmarks/control/policies.py --seeds 3 --supply equal --policies aryl,pickyman,slurm -o equal.json
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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mirage.control.adviser import Adviser
from mirage.control.executor_process import read_plan, write_plan
from mirage.control.plan_executor import PlanExecutor
from mirage.control.pools_file import Pools
from mirage.control.restore import restore
from mirage.control.verbs import FENCE
from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster
from mirage.slurm.client import SlurmClient
from mirage.slurm.runner import SystemRunner

TRAINING = """#!/bin/bash
#SBATCH --output=/dev/null --mem=10 --requeue
# $1: file of events; $2: seconds of work; $3: seconds of a restart
event() { echo "$1 $(date +%s.%N)" >> "$file"; }
save() {
    trap '' USR1 TERM
    now=$(date +%s%N)
    did=$(( now > from ? (now - from) / 1000000 : 0 ))
    echo $(( saved + did )) > "$file.saved"
    event save
    exec sleep 1000
}
file=$1
event start
saved=0
from=$(date +%s%N)
if [ -e "$file.saved" ]; then
    saved=$(cat "$file.saved")
    from=$(( from + $3 * 1000000000 ))
fi
trap save USR1 TERM
left=$(( $2 * 1000 - saved ))
until=$(( from + left * 1000000 ))
now=$(date +%s%N)
sleep $(( (until - now) / 1000000000 )).$(printf %09d $(( (until - now) % 1000000000 ))) &
wait $!
while [ "$(date +%s%N)" -lt "$until" ]; do sleep 0.1; done
event end
"""

SERVICE = """#!/bin/bash
#SBATCH --output=/dev/null --mem=10
echo "start $(date +%s.%N)" >> $1
sleep $2
echo "end $(date +%s.%N)" >> $1
"""

CONTROLLED = ("fifo", "sjf", "aryl", "pickyman")
POLICIES = (*CONTROLLED, "qos", "slurm-loan", "slurm")
EVICTIONS_OF_JOB = {"pickyman": 1}
"""The default of the file of pools; evictions for the owner are not limited here."""

PREEMPT = {"qos": "qos", "slurm-loan": "partition_prio"}
"""Without PreemptMode=REQUEUE a fence with MaxStartDelay takes no node back (22.05.8); all partitions have one tier."""

GPUS, OWN, OWNED = 4, ("n1", "n2"), ("n3", "n4", "n5", "n6")
RESTART_S, GRACE_S, EXEMPT_S, LEAD_S = 3, 10, 30, 10


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the workload.

    Attributes:
        at_s: When it is submitted, in seconds after the start of the run.
        width: GPUs of a training job, or nodes of a service.
        minutes: Its time limit.
        service: Whether it is one of the owner.
    """

    name: str
    at_s: float
    width: int
    run_s: int
    minutes: int
    service: bool


def workload(seed: int, jobs: int, supply: str) -> list[Job]:
    """The jobs of a seed, by the time of their submission.

    Services come one after the other with pauses. They use half of the owner's nodes on average.
    """
    dice = random.Random(seed)
    made, at_s = [], 0.0
    for k in range(jobs):
        run_s = int(dice.choice((30, 60, 90, 150, 240)) * dice.uniform(0.8, 1.2))
        minutes = -(-int(run_s * dice.uniform(1.2, 1.8)) // 60) + 1
        made.append(Job(f"train-{k}", at_s, dice.choice((1, 1, 2, 2, 4)), run_s, minutes, False))
        at_s += dice.expovariate(jobs / 300.0)
    at_s = dice.uniform(20, 50)
    while supply == "raw" and at_s < 480:
        run_s = dice.randrange(50, 120)
        made.append(Job(f"service-{len(made)}", at_s, dice.choice((2, 3, 4)), run_s, 4, True))
        at_s += run_s + dice.uniform(30, 90)
    return sorted(made, key=lambda job: job.at_s)


class Run:
    """A policy on a private cluster."""

    def __init__(self, folder: Path, policy: str, supply: str, given: argparse.Namespace) -> None:
        self.folder, self.policy, self.supply, self.poll_s = folder, policy, supply, given.poll
        self.cluster = PrivateCluster(self._spec(given.builtin))
        self.record: Path | None = given.record
        self.controller: tuple[Adviser, PlanExecutor] | None = None
        self.polls = self.commands = 0
        (folder / "train.sh").write_text(TRAINING)
        (folder / "service.sh").write_text(SERVICE)
        (folder / "jobs").mkdir()

    def _spec(self, builtin: bool) -> LabSpec:
        owned = f"n[3-{6 if self.supply == 'raw' else 4}]"
        train = f"n[1-{len(OWN)}]" if self.supply == "raw" and self.policy == "slurm" else "ALL"
        extra = [f"PartitionName=inference Nodes={owned}", f"PartitionName=train Nodes={train}"]
        if builtin:
            extra += ["SchedulerType=sched/builtin", "PriorityWeightJobSize=0"]
        if self.policy == "qos":
            extra += [f"PreemptExemptTime=0:{EXEMPT_S}"]
        return LabSpec(
            self.folder / "slurm", nodes=6 if self.supply == "raw" else 4, gpus=GPUS, extra=tuple(extra),
            accounting=self.policy == "qos", preempt=PREEMPT.get(self.policy, "none"),
        )  # fmt: skip

    def begin(self) -> None:
        """Start the cluster, its fence, and the controller."""
        self.cluster.up()
        owned = ",".join(OWNED)
        fenced = self.supply == "raw" and self.policy not in ("qos", "slurm")
        if fenced:
            delay = ("MaxStartDelay=1",) if self.policy == "slurm-loan" else ()
            self.cluster.run(
                "scontrol", "create", "reservation", f"ReservationName={FENCE}", f"Nodes={owned}", "StartTime=now",
                "Duration=infinite", "Users=root", "Flags=IGNORE_JOBS,OVERLAP", *delay,
            )  # fmt: skip
        if self.policy in CONTROLLED:
            own = OWN if self.supply == "raw" else ("n1", "n2", "n3")
            pools = Pools(
                path="pools.toml", owner_nodes=OWNED if self.supply == "raw" else ("n4",),
                owner_partitions=("inference",), borrower_nodes=own, borrower_partition="train", owner_users=("root",),
                scheduler=self.policy, poll_s=self.poll_s, comment="mirage-control", grace_s=GRACE_S,
                commands_per_minute=600, evictions_per_hour=1000,
                evictions_per_job_hour=EVICTIONS_OF_JOB.get(self.policy, 1000),
                restart_s=RESTART_S, save_s=GRACE_S,
            )  # fmt: skip
            if self.supply == "equal":
                pools = replace(pools, borrower_nodes=("n1", "n2", "n3", "n4"), owner_nodes=())
            slurm = SlurmClient(SystemRunner(self.cluster.environment))
            if self.record is not None:
                self.record.mkdir(parents=True, exist_ok=True)
            self.controller = (
                Adviser(slurm, pools, self.record),
                PlanExecutor(slurm, pools, self.folder / "state", time.time),
            )
            if self.supply == "raw":
                self.controller[1].begin()

    def submit(self, job: Job) -> None:
        """Submit a job of the workload."""
        words = ["sbatch", "-J", job.name, "-t", str(job.minutes)]
        if job.service:
            words += ["-p", "inference", f"-N{job.width}", f"--gpus-per-node={GPUS}"]
            words += ["--qos=high"] if self.policy == "qos" else [f"--reservation={FENCE}"]
            if self.policy == "slurm":
                words.pop()
        else:
            words += ["-p", "train", "-N1", f"--gpus={job.width}", "--comment=mirage-control"]
            words += ["--qos=low"] if self.policy == "qos" else []
            words += [f"--signal=R:USR1@{LEAD_S}"] if self.policy == "slurm-loan" else []
        script = self.folder / ("service.sh" if job.service else "train.sh")
        self.cluster.run(*words, str(script), str(self.folder / "jobs" / job.name), str(job.run_s), str(RESTART_S))

    def poll(self) -> None:
        """One poll of the controller: snapshot, plan file, verbs."""
        if self.controller is None:
            return
        adviser, executor = self.controller
        advice = adviser.advise(time.time())
        verbs = [verb for step in advice.steps if not step.refused for verb in step.verbs]
        write_plan(self.folder, 1, advice.time_s, verbs)
        executor.run_plan(read_plan(self.folder)[1])
        self.polls += 1

    def play(self, jobs: Sequence[Job]) -> None:
        """Submit all jobs at their times, and wait until they have ended."""
        coming = list(jobs)
        self.begun_s = time.time()
        next_s = self.begun_s
        files = [self.folder / "jobs" / job.name for job in jobs]
        while coming or not all(path.exists() and "end" in path.read_text() for path in files):
            now_s = time.time()
            if now_s > self.begun_s + 3000:
                raise RuntimeError(self.cluster.run("squeue", "-a"))
            while coming and coming[0].at_s <= now_s - self.begun_s:
                job = coming.pop(0)
                self.at_s[job.name] = time.time()
                self.submit(job)
            if now_s >= next_s:
                self.poll()
                next_s += self.poll_s
            if self.controller is not None:
                self.controller[1].tick()
            time.sleep(0.2)
        end_s = time.time() + 60
        while self.controller is not None and time.time() < end_s and self.cluster.run("squeue", "-h"):
            self.controller[1].tick()
            time.sleep(0.5)
        self.poll()  # the record then has the end of the last job

    at_s: dict[str, float]

    def figures(self, jobs: Sequence[Job]) -> dict[str, Any]:
        """Means of the run, from what the jobs have written."""
        rows = []
        for job in jobs:
            events = [line.split() for line in (self.folder / "jobs" / job.name).read_text().splitlines()]
            times = [(word, float(at)) for word, at in events]
            starts = [at for word, at in times if word == "start"]
            end_s = [at for word, at in times if word == "end"][-1]
            rows.append((job, starts, end_s, sum(word == "save" for word, _ in times)))
        train = [row for row in rows if not row[0].service]
        services = [row for row in rows if row[0].service]
        jct_s = [end_s - self.at_s[job.name] for job, _, end_s, _ in train]
        evictions = sum(len(starts) - 1 for _, starts, _, _ in train)
        waits_s = [starts[0] - self.at_s[job.name] for job, starts, _, _ in services]
        return {
            "mean_jct_s": statistics.mean(jct_s),
            "mean_wait_s": statistics.mean(
                seconds - job.run_s - RESTART_S * saves for seconds, (job, _, _, saves) in zip(jct_s, train)
            ),
            "makespan_s": max(end_s for _, _, end_s, _ in train) - self.begun_s,
            "evictions": evictions,
            "without_save": evictions - sum(saves for *_, saves in train),
            "owner_wait_s": statistics.mean(waits_s) if waits_s else None,
            "owner_longest_wait_s": max(waits_s, default=None),
            "polls": self.polls,
            "train_jobs": len(train),
            "services": len(services),
        }


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """The figures of one policy and seed."""
    jobs = workload(given.seed, given.jobs, given.supply)
    with tempfile.TemporaryDirectory(prefix="mirage-pol-") as name:
        run = Run(Path(name), given.policy, given.supply, given)
        run.at_s = {}
        try:
            run.begin()
            run.play(jobs)
            if run.controller is not None and given.supply == "raw":
                restore(run.controller[1])
            return {"policy": given.policy, "seed": given.seed, **run.figures(jobs)}
        finally:
            run.cluster.purge()


def main() -> None:
    """Run all policies and seeds, some at the same time, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--policies", default="aryl,pickyman,qos,slurm-loan", help=f"of {', '.join(POLICIES)}")
    parser.add_argument("--supply", choices=("raw", "equal"), default="raw")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=1, help="runs of each policy and seed")
    parser.add_argument("--jobs", type=int, default=24, help="training jobs of a run")
    parser.add_argument("--poll", type=int, default=15, help="seconds between two snapshots")
    parser.add_argument("--at-once", type=int, default=6, help="clusters at the same time")
    parser.add_argument("--builtin", action="store_true", help="SchedulerType=sched/builtin: Slurm does not backfill")
    parser.add_argument("--record", type=Path, help="folder for the recorded views and jobs of each run")
    parser.add_argument("-o", "--output", type=Path, help="file for the results (JSON)")
    parser.add_argument("--policy", choices=POLICIES, help="one run only, with --seed; prints its figures as JSON")
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    if given.policy is not None:
        print(json.dumps(measure(given)))
        return
    runs = _all_runs(given)
    _print_table(runs)
    if given.output:
        declared = {"supply": given.supply, "jobs": given.jobs, "poll_s": given.poll, "builtin": given.builtin}
        given.output.write_text(json.dumps({**declared, "runs": runs}, indent=1))


def _all_runs(given: argparse.Namespace) -> list[dict[str, Any]]:
    waiting = [
        (policy, seed, repeat)
        for repeat in range(given.repeats) for seed in range(given.seeds) for policy in given.policies.split(",")
    ]  # fmt: skip
    running: list[subprocess.Popen[str]] = []
    runs = []
    while waiting or running:
        while waiting and len(running) < given.at_once:
            policy, seed, repeat = waiting.pop(0)
            words = [sys.executable, __file__, "--policy", policy, "--seed", str(seed), "--supply", given.supply,
                     "--jobs", str(given.jobs), "--poll", str(given.poll)]  # fmt: skip
            words += ["--builtin"] if given.builtin else []
            words += ["--record", str(given.record / f"{policy}-{seed}-{repeat}")] if given.record else []
            running.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        time.sleep(1)
        for process in [one for one in running if one.poll() is not None]:
            running.remove(process)
            printed = process.communicate()[0]
            if process.returncode == 0:
                runs.append(json.loads(printed))
                print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
            else:
                print(f"failed: {process.args}", file=sys.stderr, flush=True)
    return runs


def _print_table(runs: list[dict[str, Any]]) -> None:
    by_seed = {(run["policy"], run["seed"]): run for run in runs}
    reference = "qos" if any(run["policy"] == "qos" for run in runs) else "slurm"
    names = ("mean_jct_s", "mean_wait_s", "makespan_s", "evictions", "without_save", "owner_wait_s",
             "owner_longest_wait_s")  # fmt: skip
    print("| policy | " + " | ".join(names) + f" | mean JCT to {reference}, by seed |")
    for policy in dict.fromkeys(run["policy"] for run in runs):
        mine = [run for run in runs if run["policy"] == policy]
        cells = []
        for name in names:
            values = [run[name] for run in mine if run[name] is not None]
            cells.append(f"{statistics.mean(values):.1f}" if values else "–")
        ratios = [
            f"{run['mean_jct_s'] / by_seed[reference, run['seed']]['mean_jct_s']:.2f}"
            for run in sorted(mine, key=lambda run: run["seed"]) if (reference, run["seed"]) in by_seed
        ]  # fmt: skip
        print(f"| {policy} | {' | '.join(cells)} | {', '.join(ratios)} |")


if __name__ == "__main__":
    main()
