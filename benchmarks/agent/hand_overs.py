"""Hand-overs on a real slurmctld with a compressed clock, from the services' own logs.

    python benchmarks/agent/hand_overs.py --chains 6 --links 11 -o hand-overs.json

Every service loads for a while, reports that it is ready, and leaves at the signal. Reported are the hand-overs, the
number of predecessors signalled, the gaps between the end of one service and the readiness of the next, and how far the
agent's account of a chain is from that of its service's log. ``interrupted`` and ``overlap`` have one definition, in
``mirage.provision.chain_record``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster

MIRAGE = (sys.executable, "-m", "mirage")

SERVICE = """#!/bin/bash
say() {{ echo "$MIRAGE_LINK $1 $(date +%s)" >> {log}; }}
trap 'say signalled; say down; exit 0' USR2
say start
sleep {load_s} & wait $!
say ready; {mirage} link ready
while true; do sleep 20 & wait $!; say beat; done
"""


class Log:
    """The log of one chain's services.

    Attributes:
        reported: Link and word → time of the first report.
        last_s: Link → its last sign of life.
    """

    def __init__(self, path: Path) -> None:
        self.reported: dict[tuple[int, str], int] = {}
        self.last_s: dict[int, int] = {}
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) < 3:  # the signal has ended the command that was to tell the time
                continue
            link, word, at_s = int(words[0]), words[1], int(words[2])
            self.reported.setdefault((link, word), at_s)
            self.last_s[link] = at_s

    def hand_overs(self, load_s: int, limit_s: int) -> list[dict[str, Any]]:
        """Each hand-over: whether the first was signalled, the gap, and a timely second start."""
        found = []
        for a, b in pairwise(sorted(self.last_s)):
            ready_s = self.reported.get((b, "ready"), self.last_s[b])
            in_time = self.reported[b, "start"] + load_s <= self.reported[a, "start"] + limit_s
            gap_s = max(ready_s - self.last_s[a], 0)
            overlap_s = max(self.last_s[a] - self.reported[b, "start"], 0)
            signalled = (a, "signalled") in self.reported
            found.append(
                {"link": a, "signalled": signalled, "gap_s": gap_s, "overlap_s": overlap_s, "in_time": in_time}
            )
        return found


def run(environment: dict[str, str], folder: Path, *words: str) -> str:
    """Run a command; what it printed."""
    done = subprocess.run([*MIRAGE, *words], env=environment, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"mirage {' '.join(words)}: {done.stderr}")
    return done.stdout


def measure(cluster: PrivateCluster, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run the chains to their end; returns figures from their services' logs."""
    environment = {**os.environ, **cluster.user_environment}
    names = [f"c{k}" for k in range(options.chains)]
    for name in names:
        script = folder / f"{name}.sh"
        mirage = " ".join(MIRAGE)
        script.write_text(SERVICE.format(log=folder / f"{name}.log", mirage=mirage, load_s=options.load_s))
        run(environment, folder, "submit", "--chain", name, "--policy", options.policy, "--links", str(options.links),
            "--ready-by-job", "--warmup", f"{options.load_s}s", "--grace", "2m", "--no-agent", "-N1", "--exclusive",
            "-t", str(options.limit_min), "-o", "/dev/null", str(script))  # fmt: skip
    with (folder / "agent.log").open("w") as log:
        agent = subprocess.Popen([*MIRAGE, "agent", "run", "--command-timeout", "30m"], env=environment, stderr=log)
    try:
        until = time.monotonic() + options.patience_min * 60
        while time.monotonic() < until:
            rows = json.loads(run(environment, folder, "chain", "list", "--json"))
            print({row["chain"]: row["link"] for row in rows}, file=sys.stderr)
            if all(row["link"] == options.links and row["next"] is None for row in rows):
                break
            time.sleep(10)
        for name in names:
            run(environment, folder, "chain", "stop", name)
        time.sleep(3)
        rows = json.loads(run(environment, folder, "chain", "list", "--json"))
    finally:
        agent.terminate()
        agent.wait(60)
    row_of = {row["chain"]: row for row in rows}
    return {name: _figures(Log(folder / f"{name}.log"), row_of[name], options) for name in names}


def _figures(log: Log, row: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    found = log.hand_overs(options.load_s, options.limit_min * 60)
    by_log = {key: sum(one[key] for one in found) for key in ("gap_s", "overlap_s")}
    return {"hand_overs": found, "by_log": by_log, "by_agent": {k: row[k] for k in ("interrupted", "overlap")}}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=6)
    parser.add_argument("--links", type=int, default=11)
    parser.add_argument("--limit-min", type=int, default=60, help="time limit of a link, cluster minutes")
    parser.add_argument("--load-s", type=int, default=120, help="how long a service loads before it is ready")
    parser.add_argument("--policy", default="lead:0.25")
    parser.add_argument("--speed", type=int, default=60, help="cluster seconds per second")
    parser.add_argument("--patience-min", type=float, default=20.0, help="give up after so many real minutes")
    parser.add_argument("--keep", type=Path, help="work in this folder and leave the logs there")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mirage-hand-overs-") as name:
        folder = (options.keep or Path(name)).resolve()
        folder.mkdir(exist_ok=True)
        nodes = 2 * options.chains + 2
        spec = LabSpec(directory=folder / "lab", nodes=nodes, speed=options.speed, min_job_age_s=300 * options.speed)
        cluster = PrivateCluster(spec)
        cluster.up()
        try:
            found = measure(cluster, folder, options)
        finally:
            cluster.purge()
    every = [one for chain in found.values() for one in chain["hand_overs"]]
    late = [one for one in every if not one["in_time"]]
    gaps = sorted((one["gap_s"] for one in every if one["in_time"]), reverse=True)
    print(
        f"{len(every)} hand-overs, {sum(one['signalled'] for one in every)} predecessors signalled, "
        f"{len(late)} started too late"
    )
    print(f"gaps where the next had started in time: {sum(gap > 0 for gap in gaps)}, the longest {gaps[:1]} s")
    for chain, one in found.items():
        log, agent = one["by_log"], one["by_agent"]
        print(f"{chain}: interrupted {log['gap_s']} s by its log, {agent['interrupted']} s by the agent; "
              f"held twice {log['overlap_s']} and {agent['overlap']} s")  # fmt: skip
    if options.output:
        options.output.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
