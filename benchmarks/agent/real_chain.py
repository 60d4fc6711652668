"""Chains on a real slurmctld under load, reactive and what-if, from their services' logs.

    python benchmarks/agent/real_chain.py --links 6 --speed 60 -o real-chain.json

Starts a private cluster on loopback with a compressed clock, keeps its queue busy with random jobs, and submits one
chain per policy with ``mirage submit``; one agent runs all of them. Each link is a service that loads, reports
that it is ready, writes a heartbeat, and checkpoints when it is signalled. All results come from the services' own
logs: ``interruption`` is time in which no link of a chain was up and ready, ``overlap`` time in which two of its jobs
held nodes. A promised start is the wait that a decision expected when it released a link.

With other users fair-share weighs ten times as much as age, and the load is theirs in turn (needs root):

    python benchmarks/agent/real_chain.py --users nobody,daemon --policies what-if --links 61 --limit-min 45 \
        --link-nodes 2 -o fair-share.json
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import random
import re
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster

SERVICE = """#!/bin/bash
say() {{ echo "$MIRAGE_LINK $SLURM_JOB_ID $1 $(date +%s)" >> {log}; }}
leave() {{ say checkpoint; sleep 20; say down; exit 0; }}
trap leave USR2
say start
sleep {load_s}; {mirage} link ready && say ready
while true; do say beat; sleep 30 & wait $!; done
"""
LOADER = "import real_chain; real_chain.load_queue({seed}, {nodes}, {until}, {users!r})"
FAIR_SHARE = ("PriorityWeightFairshare=10000", "PriorityWeightAge=1000", "PriorityMaxAge=7-0")

SIZES, WEIGHTS = (1, 1, 1, 2, 2, 4), (4, 4, 4, 2, 2, 1)


def load_queue(seed: int, nodes: int, until_s: float, users: list[str]) -> None:
    """Submit random jobs, slightly above capacity, until a time; runs on the cluster's clock.

    The jobs are of the users in turn, or of this one where there are none.
    """
    dice = random.Random(seed)
    rate = 1.0 / 1.02
    while time.time() < until_s:
        size = min(dice.choices(SIZES, WEIGHTS)[0], nodes)
        run_s = min(max(dice.lognormvariate(7.6, 0.9), 120), 4 * 3600)
        limit_min = int(run_s * dice.choice((1.1, 1.5, 2, 3)) / 60) + 1
        owner = pwd.getpwnam(dice.choice(users)) if users else None
        ids: dict[str, Any] = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []} if owner else {}
        subprocess.run(
            ["sbatch", "-N", str(size), "--exclusive", "-t", str(limit_min), "-o", "/dev/null", "-J", "load", "-D", "/",
             "--wrap", f"sleep {run_s:.0f}"],
            check=False, capture_output=True, **ids,
        )  # fmt: skip
        time.sleep(dice.expovariate(1.0) * rate * size * run_s / nodes)


def service_log(path: Path) -> list[tuple[int, int, str, int]]:
    """Link, job, word and time of every line a service wrote."""
    found = [re.fullmatch(r"(\d+) (\d+) (\w+) (\d+)", line) for line in path.read_text().splitlines()]
    return [(int(line[1]), int(line[2]), line[3], int(line[4])) for line in found if line]


def spans(lines: list[tuple[int, int, str, int]], began: str) -> dict[int, tuple[int, int]]:
    """Link → from the word until its last sign of life."""
    found: dict[int, tuple[int, int]] = {}
    for link, _, word, at_s in lines:
        if word == began:
            found[link] = (at_s, at_s)
        elif link in found:
            found[link] = (found[link][0], max(found[link][1], at_s))
    return found


def gaps(found: dict[int, tuple[int, int]]) -> list[int]:
    """Time from the end of one link to the begin of the next, s; negative for an overlap."""
    order = sorted(found)
    return [found[b][0] - found[a][1] for a, b in pairwise(order)]


def measure(cluster: PrivateCluster, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run the chains to their end; returns figures from their logs."""
    environment = {**os.environ, **cluster.environment, "MIRAGE_HOME": str(folder / "home")}
    mirage = f"{sys.executable} -m mirage"

    def run(*words: str) -> str:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=folder)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stderr}")
        print(done.stdout.strip(), done.stderr.strip(), file=sys.stderr)
        return done.stdout

    now_s = int(run("date", "+%s"))
    loader = LOADER.format(seed=options.seed, nodes=options.nodes, until=now_s + 90 * 3600, users=options.users)
    for user in options.users:
        run("sacctmgr", "-i", "add", "user", user, "account=research")
    loader_environment = {**environment, "PYTHONPATH": str(Path(__file__).parent)}
    load = subprocess.Popen([sys.executable, "-c", loader], env=loader_environment, cwd=folder)
    try:
        time.sleep(options.warm_up_h * 3600 / options.speed)
        for policy in options.policies.split(","):
            script = folder / f"{policy}.sh"
            log = folder / f"{policy}.log"
            script.write_text(SERVICE.format(log=log, mirage=mirage, load_s=options.load_s))
            ready = f'grep -q "$MIRAGE_JOB ready" {log}'
            run(*mirage.split(), "submit", "--chain", policy, "--policy", policy, "--links", str(options.links),
                "--interruption-cost", str(options.interruption_cost), "--ready-command", ready, "--grace", "60s",
                "--no-agent", "-N", str(options.link_nodes), "--exclusive", "-t", str(options.limit_min),
                "-o", "/dev/null", str(script))  # fmt: skip
        agent = subprocess.Popen(
            [*mirage.split(), "agent", "run", "--command-timeout", "30m"],
            env=environment,
            cwd=folder,
            stderr=(folder / "agent.log").open("w"),
        )
        try:
            _await_end(run, mirage, options)
        finally:
            agent.terminate()
            agent.wait(60)
    finally:
        load.terminate()
        load.wait()
    return {policy: _figures(folder, policy, run, mirage) for policy in options.policies.split(",")}


def _await_end(run: Any, mirage: str, options: argparse.Namespace) -> None:
    until = time.monotonic() + options.patience_min * 60
    while time.monotonic() < until:
        chains = json.loads(run(*mirage.split(), "chain", "list", "--json"))
        if all(chain["state"] == "done" for chain in chains):
            return
        time.sleep(10)
    print("out of patience: what follows is of the links that ran", file=sys.stderr)


def _figures(folder: Path, policy: str, run: Any, mirage: str) -> dict[str, Any]:
    lines = service_log(folder / f"{policy}.log")
    held, served = spans(lines, "start"), spans(lines, "ready")
    links = sorted(held)
    return {
        "links": len(links),
        "interruption_s": [max(gap, 0) for gap in gaps(served)],
        "overlap_s": [max(-gap, 0) for gap in gaps(held)],
        "checkpointed_on_signal": sorted({link for link, _, word, _ in lines if word == "checkpoint"}),
        "left_before_next_was_ready": [
            a for a, b in pairwise(links)
            if b in served and any(w == "checkpoint" and n == a and t < served[b][0] for n, _, w, t in lines)
        ],
        "promises": _promises(json.loads(run(*mirage.split(), "chain", "explain", policy, "-n9999", "--json")), held),
        "agent": json.loads(run(*mirage.split(), "chain", "show", policy, "--json")),
    }  # fmt: skip


def _promises(decisions: list[dict[str, Any]], held: dict[int, tuple[int, int]]) -> list[dict[str, Any]]:
    """What was expected when a link was let into the queue, and when it started."""
    found = []
    for decision in decisions:
        if decision["submits"] and decision["link"] + 1 in held:
            wait_s = held[decision["link"] + 1][0] - decision["time_s"]
            found.append({"link": decision["link"] + 1, "policy": decision["policy"], "reason": decision["reason"],
                          "wait_s": wait_s, "expected": decision["estimate"]})  # fmt: skip
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, default=6)
    parser.add_argument("--limit-min", type=int, default=120, help="time limit of a link, cluster minutes")
    parser.add_argument("--load-s", type=int, default=120, help="how long a service loads before it is ready")
    parser.add_argument("--speed", type=int, default=60, help="cluster seconds per second")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--link-nodes", type=int, default=1)
    parser.add_argument("--users", default="", help="owners of the load; fair-share then counts above age")
    parser.add_argument("--warm-up-h", type=float, default=3.0, help="cluster hours of load before the chains begin")
    parser.add_argument("--policies", default="reactive,what-if")
    parser.add_argument("--interruption-cost", type=float, default=3.0)
    parser.add_argument("--patience-min", type=float, default=40.0, help="give up after so many real minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="work in this folder and leave the logs there")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    options.users = [user for user in options.users.split(",") if user]
    with tempfile.TemporaryDirectory(prefix="mirage-real-chain-") as name:
        folder = options.keep or Path(name)
        folder.mkdir(exist_ok=True)
        extra = FAIR_SHARE if options.users else ()
        cluster = PrivateCluster(
            LabSpec(directory=folder / "lab", nodes=options.nodes, speed=options.speed, accounting=True, extra=extra)
        )
        for above in (folder / "lab", folder):  # the other users read slurm.conf
            above.mkdir(exist_ok=True)
            above.chmod(0o755)
        cluster.up()
        try:
            found = measure(cluster, folder, options)
        finally:
            cluster.purge()
    for policy, figures in found.items():
        gap, over = figures["interruption_s"], figures["overlap_s"]
        print(
            f"{policy:10s} {figures['links']} links: interruption {sum(gap) / 60:.0f} min {gap}, "
            f"overlap {sum(over) / 60:.0f} min {over}"
        )
    if options.output:
        options.output.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
