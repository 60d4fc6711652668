"""Replays a workload on a private real Slurm and records the course of every job.

    python benchmarks/simulator/replay_slurm.py w1.csv w1.1.csv --preempt qos --kept w1
    python benchmarks/simulator/replay_slurm.py w60.csv w60.1.csv --speed 60 --scheduler bf_interval=30,bf_continue,\
bf_max_job_test=500,bf_window=2880 --cred-expire 120 --kill-wait 30 --kept w60

The workload has the submissions (id, submit_s, qos, nodes, gpus_per_node, run_s, limit_min); the result has a row for
every attempt to run a job (id, attempt, qos, state, submit, start, end, nodes), seconds since the beginning, from
accounting. ``--kept`` writes slurm.conf and qos.txt, for ``fidelity.py``, which compares the simulator with replays and
replays with each other.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mirage.lab.real.lab_spec import QUICK_SCHEDULER, LabSpec
from mirage.lab.real.private_cluster import PrivateCluster

CHILD = "import replay_slurm; replay_slurm.submit_all({workload!r})"
ACCOUNTS = "sacct -a -X -D -n -P -S now-7days -o JobName,QOS,State,NodeList,Submit,Start,End"


def submit_all(workload: str) -> None:
    """Submits every job at its time, waits for all, and prints the second of the beginning.

    Runs on the cluster's clock.
    """
    begun_s = time.time()
    with Path(workload).open(newline="") as file:
        for row in csv.DictReader(file):
            time.sleep(max(begun_s + int(row["submit_s"]) - time.time(), 0))
            options = ["-J", f"w{row['id']}", "-q", row["qos"], "-N", row["nodes"], "-t", row["limit_min"]]
            shape = ["--ntasks-per-node=1", f"--gpus-per-node={row['gpus_per_node']}", "-o", "/dev/null"]
            subprocess.run(["sbatch", "--parsable", *options, *shape, "--wrap", f"sleep {row['run_s']}"],
                           check=True, capture_output=True)  # fmt: skip
    while subprocess.run(["squeue", "-h", "-t", "PD,R,CG,S"], check=True, capture_output=True).stdout.strip():
        time.sleep(10)
    time.sleep(20)  # until the last records have reached accounting
    print(int(begun_s))


def attempts(accounts: str, begun_s: int) -> list[dict[str, object]]:
    """A row for every attempt to run a job, in order of job and submission."""
    rows: list[dict[str, object]] = []
    for line in accounts.splitlines():
        name, qos, state, nodes, *times = line.split("|")
        if name.startswith("w"):
            submit, start, end = (int(at) - begun_s if at.isdigit() else "" for at in times)
            row = {"id": int(name[1:]), "qos": qos, "state": state.split()[0]}
            rows.append({**row, "submit": submit, "start": start, "end": end, "nodes": nodes})
    rows.sort(key=lambda row: (row["id"], row["submit"], str(row["start"])))
    counts: dict[object, int] = {}
    for row in rows:
        counts[row["id"]] = row["attempt"] = counts.get(row["id"], 0) + 1
    return rows


def main() -> None:
    """Replay and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--speed", type=int, default=1)
    parser.add_argument("--preempt", default="none", choices=["none", "qos"])
    parser.add_argument("--scheduler", default=f"{QUICK_SCHEDULER},preempt_youngest_first")
    parser.add_argument("--cred-expire", type=int, default=5)
    parser.add_argument("--kill-wait", type=int, default=2)
    parser.add_argument("--kept", type=Path, help="folder for slurm.conf and qos.txt")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mirage-replay-") as folder:
        spec = LabSpec(
            directory=Path(folder) / "lab", nodes=options.nodes, accounting=True, speed=options.speed,
            preempt=options.preempt, scheduler_parameters=options.scheduler, cred_expire_s=options.cred_expire,
            kill_wait_s=options.kill_wait, min_job_age_s=3600 * options.speed,
        )  # fmt: skip
        cluster = PrivateCluster(spec)
        try:
            cluster.up()
            child = CHILD.format(workload=str(options.workload.resolve()))
            path = f"PYTHONPATH={Path(__file__).resolve().parent}"
            print(f"submitting to {spec.nodes} nodes; this takes as long as the workload", file=sys.stderr)
            begun_s = int(cluster.run("env", path, sys.executable, "-c", child, timeout_s=24 * 3600.0).split()[-1])
            accounts = cluster.run("env", "SLURM_TIME_FORMAT=%s", *ACCOUNTS.split())
            if options.kept:
                options.kept.mkdir(parents=True, exist_ok=True)
                shutil.copy(cluster.spec.etc / "slurm.conf", options.kept)
                qos = cluster.run("sacctmgr", "-P", "show", "qos")
                (options.kept / "qos.txt").write_text(qos, encoding="utf-8")
        finally:
            cluster.purge()
    rows = attempts(accounts, begun_s)
    with options.output.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "attempt", "qos", "state", "submit", "start", "end", "nodes"])
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len({row['id'] for row in rows})} jobs, {len(rows)} attempts in {options.output}")


if __name__ == "__main__":
    main()
