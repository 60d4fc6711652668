"""The requests of a controller to slurmctld, on a private real Slurm of 128 nodes.

``mirage control run --act`` with Aryl and the default rates: 96 nodes train and 32 belong to an owner. Training jobs of
one and of eight nodes come now and then, and twice a service that needs 30 nodes. The requests are those in slurmctld's
own log. The jobs are submitted with ``sbatch``, which sends one request of another kind. With ``--calm`` no job comes
or ends after the first loans.

    python benchmarks/control/slurmctld_requests.py -o requests.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from mirage.control.verbs import FENCE
from mirage.lab.real.lab_spec import LabSpec
from mirage.lab.real.private_cluster import PrivateCluster

SCRIPT = """#!/bin/bash
#SBATCH --output=/dev/null --mem=10 --requeue
trap '' USR1
exec sleep $1
"""

POOLS = """scheduler = "aryl"
[owner]
nodes = ["n[{first}-{last}]"]
partitions = ["inference"]
users = ["root"]
[borrower]
nodes = ["n[1-{own}]"]
partition = "train"
[jobs]
comment = "mirage-control"
grace = "5s"
"""

LINE = re.compile(r"^\[(\S+)\] slurmctld_req: received opcode (\w+) from \S+ uid \d+")
COMMANDS = frozenset(
    {"REQUEST_CREATE_RESERVATION", "REQUEST_UPDATE_RESERVATION", "REQUEST_DELETE_RESERVATION", "REQUEST_UPDATE_JOB",
     "REQUEST_KILL_JOB", "REQUEST_CANCEL_JOB_STEP", "REQUEST_JOB_REQUEUE", "REQUEST_SUSPEND"}
)  # fmt: skip
FORBIDDEN = re.compile("REQUEST_(?:UPDATE_NODE|UPDATE_PARTITION|RECONFIGURE|SHUTDOWN|CREATE_NODE|DELETE_NODE)")


def requests(log: Path, from_s: float, until_s: float) -> list[tuple[float, str]]:
    """The queries and commands in the log of slurmctld: time in seconds since 1970, and kind."""
    found = []
    for line in log.read_text(errors="replace").splitlines():
        if match := LINE.match(line):
            at_s, kind = datetime.fromisoformat(match[1]).timestamp(), match[2]
            if from_s <= at_s < until_s and (
                kind.endswith("_INFO") or "INFO_SINGLE" in kind or kind in COMMANDS or FORBIDDEN.match(kind)
            ):
                found.append((at_s, kind))
    return found


def play(cluster: PrivateCluster, folder: Path, minutes: float, dice: random.Random, calm: bool) -> tuple[float, float]:
    """Run a controller while jobs come; returns its begin and end in seconds since 1970."""

    def submit(name: str, partition: str, nodes: int, seconds: int, *words: str) -> None:
        limit = str(-(-seconds // 60) + 1)
        options = ("-J", name, "-p", partition, f"-N{nodes}", "--gpus-per-node=4", "-t", limit, *words)
        cluster.run("sbatch", *options, str(folder / "job.sh"), str(seconds))

    owned = re.search(r"n\[\d+-\d+\]", (folder / "pools.toml").read_text())
    assert owned is not None
    cluster.run("scontrol", "create", "reservation", f"ReservationName={FENCE}", f"Nodes={owned[0]}", "StartTime=now",
                "Duration=infinite", "Users=root", "Flags=IGNORE_JOBS,OVERLAP")  # fmt: skip
    optin = "--comment=mirage-control"
    for k in range(13):
        submit(f"wide-{k}", "train", 8, 3600 if calm else dice.randrange(200, 900), optin)
    for k in range(0 if calm else 20):
        submit(f"small-{k}", "train", 1, dice.randrange(100, 600), optin)
    time.sleep(5)
    environment = {**os.environ, **cluster.environment, "MIRAGE_HOME": str(folder / "home")}
    with (folder / "controller.log").open("wb") as log:
        words = ("control", "run", "--config", str(folder / "pools.toml"), "--act", "--state", str(folder / "state"))
        controller = subprocess.Popen([sys.executable, "-m", "mirage", *words], env=environment, stdout=log, stderr=log)
        begun_s = time.time()
        services = [] if calm else [0.3 * minutes, 0.65 * minutes]
        try:
            while time.time() < begun_s + 60 * minutes:
                if controller.poll() is not None:
                    raise RuntimeError((folder / "controller.log").read_text())
                if services and time.time() > begun_s + 60 * services[0]:
                    services.pop(0)
                    submit("service", "inference", 30, 60, f"--reservation={FENCE}")
                if not calm and dice.random() < 0.02:
                    submit("later", "train", dice.choice((1, 1, 1, 8)), dice.randrange(60, 300), optin)
                time.sleep(1)
            return begun_s, time.time()
        finally:
            controller.send_signal(signal.SIGTERM)
            controller.wait(60)


def measure(nodes: int, owned: int, minutes: float, seed: int, calm: bool) -> dict[str, Any]:
    """The requests of a run."""
    with tempfile.TemporaryDirectory(prefix="mirage-req-") as name:
        folder, own = Path(name), nodes - owned
        extra = (
            f"PartitionName=inference Nodes=n[{own + 1}-{nodes}]",
            "PartitionName=train Nodes=ALL",
            "DebugFlags=Protocol",
        )
        cluster = PrivateCluster(LabSpec(folder / "slurm", nodes=nodes, gpus=4, extra=extra))
        (folder / "job.sh").write_text(SCRIPT)
        (folder / "pools.toml").write_text(POOLS.format(first=own + 1, last=nodes, own=own))
        try:
            cluster.up(600)
            begun_s, ended_s = play(cluster, folder, minutes, random.Random(seed), calm)
            found = requests(cluster.spec.log / "slurmctld.log", begun_s, ended_s)
            print((folder / "controller.log").read_text()[-4000:], file=sys.stderr)
        finally:
            cluster.purge()
    each = [Counter[str]() for _ in range(int(minutes))]
    for at_s, kind in found:
        if (minute := int((at_s - begun_s) // 60)) < len(each):
            each[minute][kind] += 1
    queries = [sum(n for kind, n in one.items() if kind not in COMMANDS) for one in each]
    commands = [sum(n for kind, n in one.items() if kind in COMMANDS) for one in each]
    return {
        "nodes": nodes, "minutes": minutes, "queries": queries, "commands": commands,
        "forbidden": sum(bool(FORBIDDEN.match(kind)) for _, kind in found),
        "kinds": dict(Counter(kind for _, kind in found)),
    }  # fmt: skip


def main() -> None:
    """Measure, and print the requests of each minute."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--owned", type=int, default=32, help="nodes of the owner")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calm", action="store_true", help="no job comes or ends after the beginning")
    parser.add_argument("-o", "--output", type=Path, help="file for the results (JSON)")
    given = parser.parse_args()
    found = measure(given.nodes, given.owned, given.minutes, given.seed, given.calm)
    for what in ("queries", "commands"):
        print(f"{what} by minute: {found[what]}, mean {statistics.mean(found[what]):.1f}")
    print(json.dumps(found["kinds"]))
    print(f"requests that need an administrator: {found['forbidden']}")
    if given.output:
        given.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
