"""Waits, losses and bounds of schedulers that weigh the cost of preemption.

    python benchmarks/schedule/preemption_costs_weighed.py [--seeds 11,12,13] [--groups "NAME;NAME"] [-o FILE.json]

Every group of rows is played on generated workloads of 1,000 gangs on 128 GPUs, one for each seed. The reference of a
group is its first preemptive scheduler, ``srtf`` with saves. The parameters of ``pickyman-plus`` were chosen on seeds 1
to 3.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mirage.schedule.compare.gpu_trial import GpuSetting, play, read
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.gpu_cluster import gpu_cluster
from mirage.schedule.speeds.profiles import no_profiles
from mirage.schedule.workload.generate_gangs import generate_gangs

JOBS = 1000
CLUSTER = gpu_cluster("pool128")
HOUR_S = 3600

REFERENCE = "srtf:preempt=save"
RARE = "pickyman-plus:width_power=0.75:loss_weight=45"
BASELINES = (
    "fifo", "easy", REFERENCE, "srtf:preempt=boundary", "srtf:preempt=kill", "tiresias:preempt=save", "fitgpp", "kueue",
    "slurm-preempt", "slurm-preempt:first=smallest",
)  # fmt: skip
SIMPLE = ("pickyman-plus:margin=0:loss_weight=0:min_run_s=0", "pickyman-plus:width_power=0")
"""The order of ``pickyman-plus`` without its weighing, and its weighing without its order."""

OURS = (
    "pickyman", "pickyman:width_power=0.5", "pickyman-plus", *SIMPLE, "pickyman-plus:width_power=0.75:loss_weight=15",
    RARE,
)  # fmt: skip
SRTF = BASELINES[2:5]


class Group(NamedTuple):
    """Rows that are compared with each other."""

    name: str
    schedulers: tuple[str, ...]
    load: float = 1.0
    epochs: int = 40
    prediction_error: float = 0.0
    save_succeeds: float = 1.0
    epochs_known: bool = True


GROUPS = (
    Group("load 1.0", BASELINES + OURS),
    Group("load 0.7", BASELINES + OURS, load=0.7),
    Group("load 1.2", BASELINES + OURS, load=1.2),
    Group("5 epochs", (*SRTF, "pickyman", "pickyman-plus"), epochs=5),
    Group("sigma 1", (REFERENCE, "pickyman", "pickyman-plus"), prediction_error=1.0),
    Group("sigma 1, 5 epochs", (REFERENCE, "pickyman", "pickyman-plus"), epochs=5, prediction_error=1.0),
    Group(
        "sigma 1, epochs unknown",
        (REFERENCE, "pickyman", "pickyman-plus"),
        prediction_error=1.0,
        epochs_known=False,
    ),
    Group("p 0.9", (REFERENCE, "pickyman", "pickyman-plus"), save_succeeds=0.9),
    Group("p 0.5", (REFERENCE, "pickyman", "pickyman-plus"), save_succeeds=0.5),
    Group("p 0", (REFERENCE, "pickyman", "pickyman-plus"), save_succeeds=0.0),
)


def figures(group: Group, scheduler: str, path: str) -> dict[str, float]:
    """Measures of one scheduler on one workload."""
    setting = GpuSetting(CLUSTER, prediction_error=group.prediction_error, save_succeeds=group.save_succeeds)
    workload = read(setting, path, no_profiles(CLUSTER))
    outcome, log = play(setting, workload, SchedulerText.of(scheduler))
    row, jobs = outcome.row, log.rows
    slowdown = (jobs.due_s - jobs.submit_s) / log.jobs.run_s
    victims = slowdown[jobs.preemptions > 0]
    return {
        "mean_wait_s": row.mean_wait_s,
        "mean_jct_s": row.mean_jct_s,
        "makespan_h": row.makespan_s / HOUR_S,
        "preemptions_per_job": row.preemptions / JOBS,
        "lost_gpu_h": row.lost_gpu_h,
        "overhead_gpu_h": row.overhead_gpu_h,
        "most_preemptions": float(jobs.preemptions.max()),
        "p99_slowdown": float(np.percentile(slowdown, 99)),
        "p99_slowdown_of_victims": float(np.percentile(victims, 99)) if len(victims) else 0.0,
    }


def without_epochs(text: str) -> str:
    """A workload without its numbers of epochs; checkpoints stay where they are."""
    table = list(csv.DictReader(io.StringIO(text)))
    written = io.StringIO()
    columns = [name for name in table[0] if name != "epochs"]
    writer = csv.DictWriter(written, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return written.getvalue()


def rows_of(group: Group, seeds: list[int], folder: Path) -> dict[str, dict[str, float]]:
    """Means over the seeds, by scheduler."""
    paths = []
    for seed in seeds:
        table = generate_gangs(CLUSTER.gpus, seed=seed, jobs=JOBS, load=group.load, epochs=group.epochs)
        paths.append(folder / f"{group.name}-seed-{seed}.csv")
        paths[-1].write_text(table.to_csv() if group.epochs_known else without_epochs(table.to_csv()))
    found: dict[str, dict[str, float]] = {}
    for scheduler in group.schedulers:
        each = [figures(group, scheduler, str(path)) for path in paths]
        mean: dict[str, Any] = {name: float(np.mean([one[name] for one in each])) for name in each[0]}
        mean["most_preemptions"] = max(one["most_preemptions"] for one in each)
        found[scheduler] = mean
        reference = found.get(REFERENCE)
        ratio = f"{mean['mean_wait_s'] / reference['mean_wait_s']:6.3f}" if reference else "     –"
        print(
            f"{group.name:23} {scheduler:38} wait {mean['mean_wait_s']:7,.0f} s, {ratio} of srtf with saves; JCT "
            f"{mean['mean_jct_s']:7,.0f} s; makespan {mean['makespan_h']:6.1f} h; {mean['preemptions_per_job']:5.3f} "
            f"preemptions a job, at most {mean['most_preemptions']:.0f}; {mean['lost_gpu_h']:7,.1f} GPU-h lost, "
            f"{mean['overhead_gpu_h']:5.1f} overhead; p99 slowdown {mean['p99_slowdown']:7,.1f}, of victims "
            f"{mean['p99_slowdown_of_victims']:7,.1f}",
            flush=True,
        )
    return found


def main() -> None:
    """Play, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="11,12,13")
    parser.add_argument("--groups", default=";".join(group.name for group in GROUPS))
    parser.add_argument("-o", "--out", type=Path, default=Path("benchmarks/results/preemption_costs_weighed.json"))
    options = parser.parse_args()
    seeds = [int(seed) for seed in options.seeds.split(",")]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for group in GROUPS:
            if group.name in options.groups.split(";"):
                found[group.name] = rows_of(group, seeds, Path(folder))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
