"""Lateness of signals with many chains on a real slurmctld, and the cost of the agent.

    python benchmarks/agent/late_signals.py --chains 500 --pending 3000 -o late-signals.json     # about 15 minutes

Every chain has a constant lead, so its next link is released a few minutes after the first one's start; a link serves
from its start. *Late* is the time from the start of the next link, by its own log, to the arrival of the signal at the
previous one, by its own log. Other jobs wait for a node of another partition. Processor time is read from /proc, RPCs
from ``sdiag``, and commands are counted by a wrapper of each program on the agent's PATH. At the end the cost of one
``scancel --signal`` is measured alone, with one job and with many.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster
from mirage.lab.real.slurm_packages import PATH

MIRAGE = (sys.executable, "-m", "mirage")
PROGRAMS = ("sbatch", "scancel", "scontrol", "sacct", "sinfo", "squeue", "sacctmgr", "sdiag")
SCHEDULER = (
    "bf_interval=10,bf_resolution=10,bf_continue,bf_window=1440,bf_max_job_test=1000,default_queue_depth=2000,"
    "partition_job_depth=1000,sched_interval=2,batch_sched_delay=0"
)

SUBMITTER = "import late_signals; late_signals.submit_chains({words!r}, {chains}, {over_s})"

SERVICE = """#!/bin/bash
say() {{ echo "$MIRAGE_CHAIN $MIRAGE_LINK $1 $EPOCHREALTIME" >> {log}; }}
trap 'say warned' USR2
say start
while true; do sleep 100000 & wait $!; done
"""


def submit_chains(words: list[str], chains: int, over_s: float) -> None:
    """Run ``mirage submit`` once a chain, evenly over a time; runs in a process of its own."""
    from mirage.cli import main as command_line

    begun_s = time.monotonic()
    for number in range(chains):
        time.sleep(max(begun_s + over_s * number / chains - time.monotonic(), 0))
        if status := command_line(["submit", "--chain", f"c{number + 1}", *words]):
            raise SystemExit(status)


def cpu_s(pid: int) -> tuple[float, float]:
    """Processor seconds of a process alone, and of it with every descendant, ended or alive."""
    ticks = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    used: dict[int, tuple[int, int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            cells = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        number = int(folder.name)
        parents[number] = int(cells[1])
        used[number] = int(cells[11]) + int(cells[12]), int(cells[13]) + int(cells[14])
    family, grown = {pid}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in family} - family
        family |= more
        grown = bool(more)
    return used[pid][0] / ticks, sum(sum(used[number]) for number in family & used.keys()) / ticks


def rpcs(cluster: PrivateCluster) -> dict[str, tuple[int, float]]:
    """RPC → count in slurmctld, and the milliseconds that they took."""
    text = cluster.run("sdiag")
    by_type = text.partition("statistics by message type")[2].partition("statistics by user")[0]
    rows = re.findall(r"^\s*(\S+)\s*\(\s*\d+\)\s*count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", by_type, re.MULTILINE)
    return {name: (int(count), int(micro_s) / 1000) for name, count, micro_s in rows}


def rpcs_by_user(cluster: PrivateCluster) -> dict[str, int]:
    """User → number of RPCs in slurmctld."""
    text = cluster.run("sdiag").partition("statistics by user")[2].partition("Pending RPC")[0]
    return {user: int(count) for user, count in re.findall(r"^\s*(\S+)\s*\(\s*\d+\)\s*count:(\d+)", text, re.MULTILINE)}


def more(before: dict[str, tuple[int, float]], after: dict[str, tuple[int, float]]) -> dict[str, dict[str, float]]:
    """RPCs between two samples, the most frequent first."""
    found = {
        name: {"count": count - before.get(name, (0, 0))[0], "ms": round(ms - before.get(name, (0, 0.0))[1], 1)}
        for name, (count, ms) in after.items()
    }
    return dict(sorted(((n, one) for n, one in found.items() if one["count"]), key=lambda item: -item[1]["count"]))


def wrappers(folder: Path, counts: Path) -> str:
    """A PATH with Slurm programs that write a line to a file before they run."""
    folder.mkdir()
    for name in PROGRAMS:
        real = subprocess.run(["which", name], env={"PATH": PATH}, capture_output=True, text=True).stdout.strip()
        if real:
            (folder / name).write_text(f'#!/bin/sh\necho {name} >> {counts}\nexec {real} "$@"\n')
            (folder / name).chmod(0o755)
    return f"{folder}:{PATH}"


def service_log(path: Path) -> dict[str, dict[int, dict[str, float]]]:
    """Chain → link → word → when it was written first."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if words := re.fullmatch(r"(\S+) (\d+) (\w+) (\d+\.\d+)", line):
            found.setdefault(words[1], {}).setdefault(int(words[2]), {}).setdefault(words[3], float(words[4]))
    return found


def percentile(values: list[float], share: float) -> float:
    """The smallest value that is not below this share of them."""
    return sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]


class Run:
    """The chains on one cluster.

    Attributes:
        agent: Its process.
        phases: Name → real seconds and processor seconds at its end.
    """

    def __init__(self, cluster: PrivateCluster, folder: Path, options: argparse.Namespace) -> None:
        self.cluster, self.folder, self.options = cluster, folder, options
        self.log, self.counts = folder / "services.log", folder / "commands"
        self.environment = {**os.environ, **cluster.user_environment}
        self.phases: dict[str, tuple[float, float, float]] = {}
        self.agent: subprocess.Popen[bytes]

    def measure(self) -> dict[str, Any]:
        """Run until every chain has handed over once; the figures."""
        self._fill_queue()
        path = wrappers(self.folder / "bin", self.counts)
        before, users_before = rpcs(self.cluster), rpcs_by_user(self.cluster)
        with (self.folder / "agent.log").open("w") as log:
            self.agent = subprocess.Popen(
                [*MIRAGE, "agent", "run", "--calibrate-every", "0"], env={**self.environment, "PATH": path},
                cwd=self.folder, stderr=log,
            )  # fmt: skip
            try:
                self._mark("begin")
                self._submit_all()
                self._mark("submitted")
                self._await("first signalled", lambda warned, _: warned > 0)
                self._await("handed over", lambda warned, chains: warned >= chains)
                after, users_after = rpcs(self.cluster), rpcs_by_user(self.cluster)
            finally:
                self.agent.terminate()
                self.agent.wait(60)
        users = {user: count - users_before.get(user, 0) for user, count in users_after.items()}
        commands = Counter(self.counts.read_text().split()) if self.counts.exists() else Counter()
        served = more(before, after)
        if not commands["sbatch"]:  # it is run with the PATH of the user who submitted
            commands["sbatch"] = int(served["REQUEST_SUBMIT_BATCH_JOB"]["count"]) - self.options.chains
        return {
            "chains": self.options.chains, "pending": self.options.pending, **self._lateness(),
            "cpu": self._cpu(), "commands": dict(commands.most_common()), "rpcs_by_user": users,
            "rpcs": served, "one_signal": self._cost_of_signals(),
        }  # fmt: skip

    def _fill_queue(self) -> None:
        """Jobs of another partition, of which one runs and all others wait for its node."""
        words = [
            "sbatch",
            "--parsable",
            "-p",
            "other",
            "-N1",
            "--exclusive",
            "-t",
            "1-0",
            "-o",
            "/dev/null",
            "--wrap",
            "sleep 90000",
        ]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: self.cluster.run(*words), range(self.options.pending + 1)))

    def _submit_all(self) -> None:
        """Submit the chains from one process, by repeated command lines, paced over some minutes."""
        options = self.options
        script = self.folder / "service.sh"
        script.write_text(SERVICE.format(log=self.log))
        lead_h = (options.limit_min - options.released_after_min) / 60
        words = ["--policy", f"lead:{lead_h:.4f}", "--links", "9", "--no-agent", "--grace", f"{options.grace_s}s",
                 "-p", "chains", "-n1", "--mem=1", "-t", str(options.limit_min), "-o", "/dev/null",
                 str(script)]  # fmt: skip
        child = SUBMITTER.format(words=words, chains=options.chains, over_s=60 * options.spread_min)
        environment = {**self.environment, "PYTHONPATH": f"{Path(__file__).parent}:{os.environ.get('PYTHONPATH', '')}"}
        errors = self.folder / "submit.log"
        with errors.open("w") as log:
            done = subprocess.run(
                [sys.executable, "-c", child], env=environment, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=log
            )
        if done.returncode:
            raise SystemExit(f"the chains were not submitted, status {done.returncode}: {errors.read_text()[-2000:]}")

    def _await(self, phase: str, is_over: Any) -> None:
        """Wait until the services' logs show that a phase is over, or patience is."""
        until_s = time.monotonic() + self.options.patience_min * 60
        while time.monotonic() < until_s:
            if self.agent.poll() is not None:
                raise SystemExit(f"the agent ended with status {self.agent.returncode}; see {self.folder}/agent.log")
            logs = service_log(self.log).values()
            if is_over(sum("warned" in links.get(1, {}) for links in logs), self.options.chains):
                break
            time.sleep(2)
        self._mark(phase)

    def _mark(self, phase: str) -> None:
        self.phases[phase] = (time.monotonic(), *cpu_s(self.agent.pid))
        print(f"{phase}: agent {self.phases[phase][1]:.1f} CPU-s", file=sys.stderr)

    def _cpu(self) -> dict[str, dict[str, float]]:
        """Phase → real seconds, CPU seconds of the agent without and with children, per hour."""
        marks = list(self.phases.items())
        spans = [(name, a, b) for (_, a), (name, b) in pairwise(marks)] + [("all", marks[0][1], marks[-1][1])]
        found = {}
        for name, a, b in spans:
            real_s, alone_s, family_s = (y - x for x, y in zip(a, b))
            hours = max(real_s, 1) / 3600
            found[name] = {
                "real_s": round(real_s, 1), "agent_s": round(alone_s, 1), "with_children_s": round(family_s, 1),
                "agent_s_an_hour": round(alone_s / hours), "with_children_s_an_hour": round(family_s / hours),
            }  # fmt: skip
        return found

    def _lateness(self) -> dict[str, Any]:
        logs = service_log(self.log)
        late = [
            links[1]["warned"] - links[2]["start"]
            for links in logs.values()
            if "warned" in links.get(1, {}) and "start" in links.get(2, {})
        ]
        starts = sorted(links[2]["start"] for links in logs.values() if "start" in links.get(2, {}))
        facts = {"started_chains": len(logs), "successors": len(starts), "signalled": len(late)}
        if not late:
            return facts
        return facts | {
            "successors_started_over_s": round(starts[-1] - starts[0], 1), "late_median_s": round(median(late), 1),
            "late_p95_s": round(percentile(late, 0.95), 1), "late_max_s": round(max(late), 1),
            "late_s": [round(value, 1) for value in sorted(late)],
        }  # fmt: skip

    def _cost_of_signals(self) -> dict[str, Any]:
        """What ``scancel --signal`` costs: one job, then many in one command."""
        running = self.cluster.run("squeue", "-h", "-t", "R", "-p", "chains", "-o", "%i").split()
        found = {}
        for jobs in (running[:1], running[:50]):
            for form in (("--full",), ("--full", "--state=RUNNING"), ("--batch",)):
                before, took_ms = rpcs(self.cluster), []
                for _ in range(5):
                    begun_s = time.monotonic()
                    self.cluster.run("scancel", "--signal=USR2", *form, *jobs)
                    took_ms.append((time.monotonic() - begun_s) * 1000)
                cost = more(before, rpcs(self.cluster))
                each = {name: one["count"] / 5 for name, one in cost.items() if "STATS" not in name}
                found[f"{' '.join(form)}, {len(jobs)} jobs"] = {"ms": round(median(took_ms), 1), "rpcs": each}
        return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=500)
    parser.add_argument("--pending", type=int, default=3000, help="jobs of others that wait")
    parser.add_argument("--limit-min", type=int, default=60, help="time limit of a link, minutes")
    parser.add_argument("--released-after-min", type=float, default=5.0, help="when the next link is released")
    parser.add_argument("--spread-min", type=float, default=4.0, help="over which the chains are submitted, minutes")
    parser.add_argument("--grace-s", type=int, default=30)
    parser.add_argument("--nodes", type=int, default=4, help="slurmd processes on which the chains run")
    parser.add_argument("--patience-min", type=float, default=10.0, help="for each phase, minutes")
    parser.add_argument("--work", type=Path, help="work in this folder and leave the logs there")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mirage-late-") as name:
        folder = (options.work or Path(name)).resolve()
        folder.mkdir(exist_ok=True)
        chains_on = f"n[1-{options.nodes}]"
        others = (
            f"PartitionName=chains Nodes={chains_on} MaxTime=INFINITE State=UP",
            f"PartitionName=other Nodes=n{options.nodes + 1} MaxTime=INFINITE State=UP",
        )
        cpus = 2 * math.ceil(options.chains / options.nodes) + 16
        spec = LabSpec(directory=folder / "lab", nodes=options.nodes + 1, gpus=0, cpus=cpus,
                       scheduler_parameters=SCHEDULER, extra=others)  # fmt: skip
        cluster = PrivateCluster(spec)
        cluster.up()
        try:
            found = Run(cluster, folder, options).measure()
        finally:
            cluster.purge()
    if options.output:
        options.output.write_text(json.dumps(found, indent=2))
    late = (found.get(f"late_{key}_s") for key in ("median", "p95", "max"))
    print(
        f"{found['chains']} chains, {found['pending']} jobs that wait; {found['signalled']} signalled, late by "
        f"{list(late)} s (median, 95 %, most); the next links started over {found.get('successors_started_over_s')} s"
    )
    for phase, one in found["cpu"].items():
        print(f"{phase}: {one}")
    print(f"commands: {found['commands']}\nRPCs by user: {found['rpcs_by_user']}")
    for name, one in found["rpcs"].items():
        print(f"  {name}: {one}")
    for form, cost in found["one_signal"].items():
        print(f"scancel --signal=USR2 {form}: {cost['ms']} ms, {cost['rpcs']}")


if __name__ == "__main__":
    main()
