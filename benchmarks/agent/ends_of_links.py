"""Warnings before the end of links on a real slurmctld, from the services' own logs.

    python benchmarks/agent/ends_of_links.py -o ends-of-links.json            # about 35 minutes
    python benchmarks/agent/ends_of_links.py --quick                          # about 6 minutes
    python benchmarks/agent/ends_of_links.py --only '*/2m/*' --only 'what-if/20m/*'

Several chains run at the same time in one private cluster per clock: limits of 2 and 5 min on a clock twice as fast, of
20 min on one 20 times as fast, of 48 h on one 200 times as fast. Every service loads, is ready, calls
``mirage link ready``, and continues to serve after the signal until Slurm ends it. A service of the variant ``leaves``
ends at the signal; one of ``at-once`` is ready from its start. A predecessor is *in time* if the signal reached it at
least its grace before its limit, less the tolerance: 5 s of the cluster's clock or 2 real seconds, whichever is longer.
Graces that are not shorter than half of the limit are left out, and so are graces of 20 s with limits of 20 min and
more, which are shorter than the tolerance there. In chains of the variant ``http``, each job serves requests, and a
client follows the file that ``mirage endpoint`` writes; it repeats a failed request once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster

MIRAGE = (sys.executable, "-m", "mirage")
POLICIES = ("what-if", "holds", "reactive", "average", "lead")
SHORTEST_TOLERANCE_S, REAL_TOLERANCE_S = 5, 2.0
FIRST_PORT = 21_000

SERVICE = """#!/bin/bash
say() {{ echo "$MIRAGE_LINK $1 $EPOCHREALTIME" >> {log}; }}
trap 'say warned; {at_signal}' USR2
trap 'say term; exit 0' TERM
say start
{server}
end=$((SECONDS + {load_s})); while (( SECONDS < end )); do sleep {beat_s} & wait $!; say beat; done
say ready
{ready}while true; do say beat; sleep {beat_s} & wait $!; done
"""

SERVER = """python3 -c '
import http.server, os, re, signal
signal.signal(signal.SIGUSR2, signal.SIG_IGN)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(os.environ["MIRAGE_LINK"].encode())
    def log_message(self, *words): pass
host = "127.0.0." + re.sub("[^0-9]", "", os.environ["SLURMD_NODENAME"])
http.server.ThreadingHTTPServer((host, {port}), Answer).serve_forever()
' &"""


@dataclass(frozen=True)
class Case:
    """One chain: policy, limit and grace in cluster seconds, and its services' reaction."""

    policy: str
    limit_s: int
    grace_s: int
    links: int
    variant: str = "serves"

    @property
    def name(self) -> str:
        """As ``--only`` selects it."""
        return f"{self.policy}/{short(self.limit_s)}/{short(self.grace_s)}/{self.variant}"

    @property
    def chain(self) -> str:
        """The name of its chain."""
        return self.name.replace("/", "-")

    @property
    def load_s(self) -> int:
        """Time a service loads before it is ready."""
        if self.variant == "at-once":
            return 0
        return min(max(self.limit_s // 24, 5), 600)

    @property
    def policy_word(self) -> str:
        """The policy as ``--policy`` takes it: a constant lead is a fourth of the limit."""
        return f"lead:{self.limit_s / 4 / 3600:.4f}" if self.policy == "lead" else self.policy


@dataclass(frozen=True)
class Lab:
    """A private cluster, and the chains that run in it."""

    name: str
    speed: int
    patience_s: float
    cases: list[Case] = field(default_factory=list)

    @property
    def tolerance_s(self) -> float:
        """Cluster seconds within which times are taken for equal."""
        return max(SHORTEST_TOLERANCE_S, REAL_TOLERANCE_S * self.speed)


def short(seconds: int) -> str:
    """A duration in its largest whole unit."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def labs(options: argparse.Namespace) -> list[Lab]:
    """The clusters of this run, with the chains that are selected."""
    five = POLICIES
    brief = [Case(policy, 120, 20, 6) for policy in five] + [Case(policy, 300, 120, 3) for policy in five]
    brief += [Case(policy, 300, 20, 3) for policy in five if not options.quick]
    brief += [Case("what-if", 120, 20, 6, "leaves"), Case("lead", 300, 120, 3, "leaves")]
    brief += [Case(policy, 120, 20, 6, "http") for policy in ("what-if", "lead")]
    brief += [Case("what-if", 120, 20, 6, "at-once"), Case("what-if", 300, 120, 3, "at-once")]
    found = [Lab("x2", 2, 240 if options.quick else 330, brief)]
    if not options.quick:
        middle = [Case(policy, 1200, grace_s, 5) for grace_s in (120, 480) for policy in five]
        middle.append(Case("what-if", 1200, 480, 5, "at-once"))
        long = [Case(policy, 48 * 3600, grace_s, 2) for grace_s in (480, 3600) for policy in five]
        found += [Lab("x20", 20, 320, middle), Lab("x200", 200, 1080, long)]
    if options.only:
        found = [replace(lab, cases=[case for case in lab.cases if is_chosen(case, options.only)]) for lab in found]
    return [lab for lab in found if lab.cases]


def is_chosen(case: Case, patterns: Sequence[str]) -> bool:
    """Whether a pattern of ``--only`` matches the name of a chain."""
    return any(fnmatch(case.name, pattern) for pattern in patterns)


def service_log(path: Path) -> dict[int, dict[str, list[float]]]:
    """Link → word → the times at which its service wrote it."""
    found: dict[int, dict[str, list[float]]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        if words := re.fullmatch(r"(\d+) (\w+) (\d+\.\d+)", line):
            found.setdefault(int(words[1]), {}).setdefault(words[2], []).append(float(words[3]))
    return {link: words for link, words in found.items() if "start" in words}


def hand_overs(log: dict[int, dict[str, list[float]]], case: Case, lab: Lab, ended: set[int]) -> list[dict[str, Any]]:
    """The end of each predecessor that had ended when the chains stopped; cluster seconds."""
    found = []
    for a, b in pairwise(sorted(log)):
        if a not in ended:
            continue
        first, second = log[a], log[b]
        limit_s = first["start"][0] + case.limit_s
        last_s = max(max(times) for times in first.values())
        ready_s = second.get("ready", [None])[0]
        warned_s = first.get("warned", [None])[0]
        before_s = None if warned_s is None else limit_s - warned_s
        if warned_s is None:
            cause = "never"
        else:
            cause = "next ready" if ready_s is not None and ready_s <= warned_s + lab.tolerance_s else "last call"
        found.append({
            "link": a, "warned": warned_s is not None, "cause": cause,
            "warned_before_limit_s": None if before_s is None else round(before_s, 1),
            "in_time": before_s is not None and before_s >= case.grace_s - lab.tolerance_s,
            "served_after_warning_s": None if warned_s is None else round(last_s - warned_s, 1),
            "ended_before_limit_s": round(limit_s - last_s, 1),
            "interruption_s": None if ready_s is None else round(max(ready_s - last_s, 0), 1),
            "overlap_s": round(max(last_s - second["start"][0], 0), 1),
        })  # fmt: skip
    return found


class Client:
    """A client of one chain that follows the file of ``mirage endpoint`` until it is stopped."""

    def __init__(self, case: Case, port: int, folder: Path, environment: dict[str, str], speed: int) -> None:
        self.file = folder / f"{case.chain}.yml"
        self.counts: Counter[str] = Counter()
        words = ["endpoint", case.chain, "--port", str(port), "--kind", "traefik", "-o", str(self.file), "--watch",
                 "--every", str(speed)]  # fmt: skip
        self.watcher = subprocess.Popen(
            [*MIRAGE, *words], env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def stop(self) -> dict[str, int]:
        """End it; returns the counts of requests answered, lost at a target, and without one."""
        self.over.set()
        self.thread.join(10)
        self.watcher.terminate()
        self.watcher.wait(10)
        return {key: self.counts[key] for key in ("answered", "repeated", "lost", "without_target")}

    def _work(self) -> None:
        while not self.over.wait(0.2):
            outcome = self._request()
            if outcome != "answered" and not self.over.wait(0.3):
                self.counts["repeated"] += 1
                outcome = self._request()
            if self.counts["answered"] or outcome == "answered":
                self.counts[outcome] += 1

    def _request(self) -> str:
        target = re.search(r'"http://n(\d+):(\d+)"', self.file.read_text() if self.file.exists() else "")
        if target is None:
            return "without_target"
        try:
            with urllib.request.urlopen(f"http://127.0.0.{target[1]}:{target[2]}/", timeout=2) as answer:
                return "answered" if answer.status == 200 else "lost"
        except (OSError, urllib.error.URLError):
            return "lost"


class Run:
    """The chains of one lab, from their submission to their accounts."""

    def __init__(self, cluster: PrivateCluster, folder: Path, lab: Lab) -> None:
        self.lab, self.folder = lab, folder
        self.environment = {**os.environ, **cluster.user_environment}
        self.clients: dict[str, Client] = {}
        self.agent: subprocess.Popen[bytes]
        self.agent_ends: list[int] = []

    def mirage(self, *words: str) -> str:
        """Run a command of Mirage; its output.

        On a fast clock a command gives up waiting for the store within some real milliseconds, so it is repeated.
        """
        for _ in range(5):
            done = subprocess.run(
                [*MIRAGE, *words], env=self.environment, cwd=self.folder, capture_output=True, text=True
            )
            if not done.returncode:
                return done.stdout
            if "database is locked" not in done.stderr:
                break
            time.sleep(1)
        raise SystemExit(f"mirage {' '.join(words)}: {done.stderr}")

    def measure(self) -> dict[str, Any]:
        """Run the chains to their end, or until patience is over; returns figures from their logs."""
        self._start_agent()
        try:
            for k, case in enumerate(self.lab.cases):
                self._submit(case, FIRST_PORT + k)
            ended = self._await_end()
            lost = {name: client.stop() for name, client in self.clients.items()}
            for case in self.lab.cases:
                self._stop(case)
            time.sleep(6)
            self._revive_agent()
            shown = {c.name: json.loads(self.mirage("chain", "show", c.chain, "--json")) for c in self.lab.cases}
            events = {case.name: self._events(case) for case in self.lab.cases}
        finally:
            for client in self.clients.values():
                if client.watcher.poll() is None:
                    client.watcher.kill()
            self.agent.terminate()
            self.agent.wait(60)
        return {
            case.name: self._figures(case, ended[case.name], shown[case.name], events[case.name])
            | ({"requests": lost[case.name]} if case.name in lost else {})
            for case in self.lab.cases
        }

    def _start_agent(self) -> None:
        words = ["agent", "run", "--command-timeout", f"{self.lab.speed}m", "--calibrate-every", "0"]
        with (self.folder / "agent.log").open("a") as log:
            self.agent = subprocess.Popen([*MIRAGE, *words], env=self.environment, cwd=self.folder, stderr=log)

    def _revive_agent(self) -> None:
        """Restart the agent where it has ended: the figures need a running one."""
        if self.agent.poll() is not None:
            self.agent_ends.append(self.agent.returncode)
            print(f"{self.lab.name}: the agent ended with status {self.agent.returncode}", file=sys.stderr)
            self._start_agent()

    def _submit(self, case: Case, port: int) -> None:
        script = self.folder / f"{case.chain}.sh"
        script.write_text(
            SERVICE.format(
                log=self.folder / f"{case.chain}.log", load_s=case.load_s, beat_s=self.lab.speed,
                ready="" if case.variant == "at-once" else f"{' '.join(MIRAGE)} link ready > /dev/null 2>&1\n",
                at_signal="exit 0" if case.variant == "leaves" else ":",
                server=SERVER.format(port=port) if case.variant == "http" else "",
            )
        )  # fmt: skip
        readiness = ["--warmup", f"{case.load_s}s", *([] if case.variant == "at-once" else ["--ready-by-job"])]
        self.mirage(
            "submit", "--chain", case.chain, "--request-id", case.chain, "--policy", case.policy_word, *readiness,
            "--links", str(case.links), "--grace", f"{case.grace_s}s", "--no-agent", "-N1", "--exclusive",
            "-t", str(case.limit_s // 60), "-o", "/dev/null", str(script),
        )  # fmt: skip
        if case.variant == "http":
            self.clients[case.name] = Client(case, port, self.folder, self.environment, self.lab.speed)

    def _stop(self, case: Case) -> None:
        """Stop a chain, unless its last link has ended already."""
        try:
            self.mirage("chain", "stop", case.chain)
        except SystemExit:
            if json.loads(self.mirage("chain", "show", case.chain, "--json"))["state"] != "done":
                raise

    def _await_end(self) -> dict[str, set[int]]:
        """The ended links of each chain when all were at their last link, or patience was over."""
        until_s = time.monotonic() + self.lab.patience_s
        last_s: dict[str, float] = {}
        while True:
            time.sleep(5)
            self._revive_agent()
            rows = {row["chain"]: row for row in json.loads(self.mirage("chain", "list", "--json"))}
            for case in self.lab.cases:  # after the last hand-over a client has nothing to count
                if rows[case.chain]["link"] == case.links:
                    last_s.setdefault(case.name, time.monotonic())
                    over_s = last_s[case.name] + (case.grace_s + 20) / self.lab.speed
                    if case.name in self.clients and time.monotonic() > over_s:
                        self.clients[case.name].over.set()
            at_end = [rows[c.chain]["state"] == "done" or rows[c.chain]["link"] == c.links for c in self.lab.cases]
            print(f"{self.lab.name}: {sum(at_end)} of {len(at_end)} chains at their last link", file=sys.stderr)
            if time.monotonic() < until_s and not all(at_end):
                continue
            if all(at_end):  # the last predecessors end, within their grace
                longest_s = max(case.grace_s for case in self.lab.cases) / self.lab.speed
                time.sleep(min(longest_s + 5, max(until_s - time.monotonic(), 0)))
            found = {}
            for case in self.lab.cases:
                links = json.loads(self.mirage("chain", "show", case.chain, "--json"))["links"]
                found[case.name] = {link["number"] for link in links if link["state"] == "ended"}
            return found

    def _events(self, case: Case) -> dict[str, int]:
        lines = self.mirage("chain", "log", case.chain, "--json").splitlines()
        return dict(Counter(json.loads(line)["kind"] for line in lines))

    def _figures(self, case: Case, ended: set[int], row: dict[str, Any], events: dict[str, int]) -> dict[str, Any]:
        log = service_log(self.folder / f"{case.chain}.log")
        by_log = {"interrupted": 0.0, "overlap": 0.0}
        for a, b in pairwise(sorted(log)):
            last_s = max(max(times) for times in log[a].values())
            end_s = max(max(times) for times in log[b].values())
            by_log["interrupted"] += max(log[b].get("ready", [end_s])[0] - last_s, 0)
            by_log["overlap"] += max(last_s - log[b]["start"][0], 0)
        return {
            "policy": case.policy_word, "limit_s": case.limit_s, "grace_s": case.grace_s, "variant": case.variant,
            "load_s": case.load_s, "links": len(log), "hand_overs": hand_overs(log, case, self.lab, ended),
            "by_log": {key: round(value) for key, value in by_log.items()},
            "by_agent": {key: row[key] for key in ("interrupted", "overlap")}, "events": events,
        }  # fmt: skip


def run_lab(lab: Lab, folder: Path) -> dict[str, Any]:
    """A cluster made for its chains, and removed after them."""
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{lab.name}: {len(lab.cases)} chains, tolerance {lab.tolerance_s:g} s", file=sys.stderr)
    begun_s = time.monotonic()
    spec = LabSpec(directory=folder / "lab", nodes=2 * len(lab.cases) + 2, gpus=0, speed=lab.speed)
    spec = replace(spec, min_job_age_s=300 * lab.speed)
    if lab.speed >= 50:  # loops that turn every second of the cluster's clock would do nothing else
        often = f"bf_interval={lab.speed},bf_resolution={lab.speed},sched_interval={2 * lab.speed},bf_continue"
        spec = replace(spec, scheduler_parameters=often)
    cluster = PrivateCluster(spec)
    cluster.up()
    try:
        run = Run(cluster, folder, lab)
        chains = run.measure()
    finally:
        cluster.purge()
    return {
        "speed": lab.speed,
        "tolerance_s": lab.tolerance_s,
        "took_s": round(time.monotonic() - begun_s),
        "agent_ends": run.agent_ends,
        "chains": chains,
    }


def figures(found: dict[str, Any]) -> dict[str, Any]:
    """Totals over all labs."""
    every = [one for lab in found.values() for chain in lab["chains"].values() for one in chain["hand_overs"]]
    margins = [
        (one["warned_before_limit_s"] if one["warned"] else 0) - chain["grace_s"]
        for lab in found.values() for chain in lab["chains"].values() for one in chain["hand_overs"]
    ]  # fmt: skip
    differences = {
        key: {
            name: chain["by_agent"][key] - chain["by_log"][key]
            for lab in found.values() for name, chain in lab["chains"].items()
        }
        for key in ("interrupted", "overlap")
    }  # fmt: skip
    chains = [(lab["tolerance_s"], name, chain) for lab in found.values() for name, chain in lab["chains"].items()]
    equal = sum(
        all(abs(differences[key][name]) <= tolerance_s * max(len(chain["hand_overs"]), 1) for key in differences)
        for tolerance_s, name, chain in chains
    )
    requests: Counter[str] = Counter()
    for lab in found.values():
        for chain in lab["chains"].values():
            requests.update(chain.get("requests", {}))
    return {
        "hand_overs": len(every), "warned": sum(one["warned"] for one in every),
        "in_time": sum(one["in_time"] for one in every), "worst_margin_s": min(margins, default=None),
        "chains": len(chains), "equal_accounts": equal, "account_differences_s": differences,
        "requests": dict(requests),
    }  # fmt: skip


def table(found: dict[str, Any]) -> list[str]:
    """A line per policy, limit and grace."""
    heads = ("chain", "hand-overs", "warned", "in time", "USR2 before the limit, s: least / median",
             "interrupted, s: log / agent", "overlap, s: log / agent")  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for lab in found.values():
        for name, chain in lab["chains"].items():
            made = chain["hand_overs"]
            before = [one["warned_before_limit_s"] for one in made if one["warned"]]
            shown = f"{min(before):.0f} / {median(before):.0f}" if before else "never"
            log, agent = chain["by_log"], chain["by_agent"]
            counts = [len(made), *(sum(one[key] for one in made) for key in ("warned", "in_time"))]
            cells = [name, *counts, shown, *(f"{log[key]} / {agent[key]}" for key in ("interrupted", "overlap"))]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="limits of 2 and 5 min alone, about 6 minutes")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="chains: POLICY/LIMIT/GRACE/VARIANT")
    parser.add_argument("--work", type=Path, help="work in this folder and leave the logs there")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args(argv)
    chosen = labs(options)
    if not chosen:
        parser.error(f"no chain matches {options.only}; they are named like what-if/2m/20s/serves")
    subprocess.run([*MIRAGE, "compile", "--processes", "1", "what-if", "slurm"], check=True, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="mirage-ends-") as name:
        folder = (options.work or Path(name)).resolve()
        for lab in chosen:
            found[lab.name] = run_lab(lab, folder / lab.name)
            if options.output:
                options.output.write_text(json.dumps({"labs": found, "figures": figures(found)}, indent=2))
    totals = figures(found)
    print("\n".join(table(found)))
    print("tolerance: " + ", ".join(f"{lab} {found[lab]['tolerance_s']:g} s of its clock" for lab in found))
    print(
        f"{totals['in_time']} of {totals['hand_overs']} predecessors in time, {totals['warned']} warned at all; "
        f"the worst {totals['worst_margin_s']} s against its grace (never warned counts as at its limit)"
    )
    for name, lab in found.items():
        if lab["agent_ends"]:
            print(f"{name}: the agent ended and was started again, statuses {lab['agent_ends']}")
    for key, by_chain in totals["account_differences_s"].items():
        worst = max(by_chain, key=lambda name: abs(by_chain[name]))
        print(f"{key}, agent minus log: sum {sum(by_chain.values())} s, the most {by_chain[worst]} s ({worst})")
    print(f"accounts of {totals['equal_accounts']} of {totals['chains']} chains within the tolerance a hand-over")
    if totals["requests"]:
        print(f"requests: {totals['requests']}")


if __name__ == "__main__":
    main()
