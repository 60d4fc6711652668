"""Compares ``slurm`` of the simulator with real replays of the same workload.

    python benchmarks/simulator/fidelity.py WORKLOAD.csv SLURM_CONF REPLAY.csv [REPLAY.csv …]

The folder of SLURM_CONF also has qos.txt, the output of ``sacctmgr -P show qos``. WORKLOAD has the submissions (id,
submit_s, qos, nodes, gpus_per_node, run_s, limit_min), each REPLAY the result of a real Slurm (id, attempt, submit,
start, end, state). The simulator gets the submit times of each replay, and is compared with that replay; the run-to-run
spread is the same measure between every two replays. Both are measures of ``mirage.calibration.fidelity``.

The time that a job takes in addition to its command on that machine (--launch-s) is no property of Slurm: it is
measured on the replays. Choose --turnover-s, the time that a node needs between two jobs, on other replays than you
report. A simulation is one draw, as a replay is: a job that is submitted a second later may wait for minutes, and so
may all jobs if Slurm's loops run at other seconds. --draws gives the mean of many simulations, each with slightly later
jobs and loops at another time.
"""

from __future__ import annotations

import argparse
import csv
import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from statistics import mean, median

import numpy as np

from mirage.calibration.fidelity.judge_fidelity import judge
from mirage.job_state import JobState
from mirage.sim.simulation import Simulation
from mirage.sim.slurm_conf.cluster_conf import cluster_from_slurm_conf
from mirage.sim.slurm_conf.qos import with_qos
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings, read_options
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

Starts = dict[int, tuple[int, int, int]]
"""Job → submission, first start, last end."""


def read_replay(path: Path) -> Starts:
    """What became of every job."""
    found: Starts = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if not row["start"] or not row["end"]:
                continue
            number, end_s = int(row["id"]), int(row["end"])
            submit_s, start_s, _ = found.get(number, (int(row["submit"]), int(row["start"]), 0))
            found[number] = (min(submit_s, int(row["submit"])), min(start_s, int(row["start"])), end_s)
    return found


def launch_s(workload_path: Path, replays: list[Path]) -> int:
    """Overhead of a job's start and end: the median over jobs that ran once, in full."""
    with workload_path.open(newline="") as file:
        requested = {int(row["id"]): int(row["run_s"]) for row in csv.DictReader(file)}
    extra = []
    for path in replays:
        with path.open(newline="") as file:
            rows = [row for row in csv.DictReader(file) if row["state"] == "COMPLETED" and row["attempt"] == "1"]
        extra += [int(row["end"]) - int(row["start"]) - requested[int(row["id"])] for row in rows]
    return round(median(extra))


def table_of(path: Path, submitted: Starts, launch: int) -> JobTable:
    """The workload with the submission times of the replay."""
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if int(row["id"]) in submitted]
    rows.sort(key=lambda row: (submitted[int(row["id"])][0], int(row["id"])))
    columns = {
        name: np.array([int(row[name]) for row in rows]) for name in ("nodes", "gpus_per_node", "run_s", "limit_min")
    }
    submit_s = np.array([submitted[int(row["id"])][0] for row in rows])
    return JobTable.build(
        job_id=[row["id"] for row in rows],
        submit_s=submit_s,
        start_s=submit_s,
        end_s=submit_s + columns["run_s"] + launch,
        nodes=columns["nodes"],
        gpus=columns["nodes"] * columns["gpus_per_node"],
        cpus=columns["nodes"],
        limit_s=columns["limit_min"] * 60,
        qos=[row["qos"] for row in rows],
        state=[JobState.COMPLETED] * len(rows),
    )


def later(submitted: Starts, late_s: int, seed: int) -> Starts:
    """The workload with each submission up to ``late_s`` later, as in another replay."""
    by_s = np.random.default_rng(seed).integers(0, late_s, len(submitted), endpoint=True)
    return {number: (run[0] + int(by), *run[1:]) for (number, run), by in zip(submitted.items(), by_s)}


def drawn_phase_s(largest_s: int, seed: int) -> int:
    """When the loops come round: a chance, too."""
    return int(np.random.default_rng((seed, 1)).integers(0, largest_s, endpoint=True))


def simulated(path: Path, conf: Path, submitted: Starts, launch: int, turnover_s: int = 0, phase_s: int = 0) -> Starts:
    """Simulates the workload with the submission times of the replay.

    Args:
        phase_s: How much earlier than the workload time begins, from which the rounds of Slurm's loops are counted.
    """
    table = table_of(path, submitted, launch)
    cluster = with_qos(cluster_from_slurm_conf(conf), conf.with_name("qos.txt"))
    if not read_options(conf).get("preempttype", "").endswith("qos"):
        cluster = replace(cluster, qos_preempts={})
    settings = replace(SlurmSettings.from_slurm_conf(conf), turnover_s=turnover_s)
    sim = Simulation(cluster, workload(table, cluster), "slurm", settings, begin_s=-phase_s)
    sim.run()
    found: Starts = {}
    for segment in sim.segments():
        number = int(sim.workload.table.job_id[segment.id])
        submit_s, start_s, end_s = found.get(number, (int(segment.submit_s), int(segment.start_s), 0))
        found[number] = (submit_s, min(start_s, int(segment.start_s)), max(end_s, int(segment.end_s)))
    return found


def as_table(run: Starts) -> JobTable:
    """Submissions, starts and ends, as the judge of fidelity reads them."""
    submit_s, start_s, end_s = zip(*run.values())
    return JobTable.build(list(run), submit_s=submit_s, start_s=start_s, end_s=end_s)


def compared(ours: Starts, theirs: Starts) -> dict[str, float]:
    """How far two schedules of one workload are apart; waits and makespan as ratios."""
    found = judge(as_table(theirs), as_table(ours), resamples=0)
    both = ours.keys() & theirs.keys()
    span = [max(run[k][2] for k in both) - min(run[k][0] for k in both) for run in (ours, theirs)]
    return {
        "jobs": found.counts.compared,
        "mean_absolute_error_s": round(found.starts.mean_absolute_s, 1),
        "within_60_s": round(found.starts.within_60_s, 3),
        "mean_wait_ratio": round(found.mean_wait_ratio.value or float("nan"), 3),
        "rank_correlation": round(found.rank_correlation.value or float("nan"), 3),
        "makespan_ratio": round(span[0] / span[1], 4),
    }


def mean_of(rows: list[dict[str, float]]) -> dict[str, float]:
    """The mean of every figure."""
    return {key: round(mean(row[key] for row in rows), 4) for key in rows[0]}


def ratio_between(ours: list[float], real: dict[tuple[int, int], float]) -> tuple[float, float]:
    """Interval of the ratio of our error to the spread of replays in 95 % of 2,000 draws.

    Args:
        ours: Our error beside each replay.
        real: Error between every two, by their places.
    """
    dice, ratios = np.random.default_rng(0), []
    while len(ratios) < 2000:
        drawn = sorted(dice.integers(0, len(ours), len(ours)).tolist())
        pairs = [real[pair] for pair in combinations(drawn, 2) if pair[0] != pair[1]]
        if pairs:
            ratios.append(mean(ours[k] for k in drawn) / mean(pairs))
    return float(np.quantile(ratios, 0.025)), float(np.quantile(ratios, 0.975))


def main() -> None:
    """Compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", type=Path)
    parser.add_argument("conf", type=Path)
    parser.add_argument("replays", type=Path, nargs="+")
    parser.add_argument("--launch-s", type=int, help="by default measured on the replays")
    parser.add_argument("--turnover-s", type=int, default=0, help="what a node needs between two jobs there")
    parser.add_argument("--draws", type=int, default=1, help="simulations of each replay; figures are their means")
    parser.add_argument("--late-s", type=int, default=0, help="in each, jobs are submitted up to so many seconds later")
    parser.add_argument("--phase-s", type=int, default=0, help="and the loops come round up to so many seconds later")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    replays = {path.name: read_replay(path) for path in options.replays}
    launch = launch_s(options.workload, options.replays) if options.launch_s is None else options.launch_s
    print(f"a job takes {launch} s longer than its command")
    rows = {}
    for name, run in replays.items():
        ours = [
            simulated(
                options.workload, options.conf, later(run, options.late_s, seed), launch, options.turnover_s,
                drawn_phase_s(options.phase_s, seed),
            )
            for seed in range(options.draws)
        ]  # fmt: skip
        rows[f"simulator / {name}"] = mean_of([compared(one, run) for one in ours])
    rows |= {f"{a} / {b}": compared(replays[a], replays[b]) for a, b in combinations(replays, 2)}
    for name, row in rows.items():
        print(f"{name:60s} " + "  ".join(f"{key} {value:g}" for key, value in row.items()))
    error = "mean_absolute_error_s"
    ours = [row[error] for name, row in rows.items() if name.startswith("simulator")]
    places = combinations(range(len(replays)), 2)
    real = dict(zip(places, (row[error] for name, row in rows.items() if not name.startswith("simulator"))))
    if real:
        ratio, (low, high) = mean(ours) / mean(real.values()), ratio_between(ours, real)
        print(f"our error {mean(ours):.1f} s, run-to-run spread {mean(real.values()):.1f} s, ratio {ratio:.2f}")
        print(f"in 95 % of draws of these replays the ratio lies between {low:.2f} and {high:.2f}")
    if options.output:
        options.output.write_text(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
