"""Generator of gang workloads: wide jobs, heavy-tailed run times, epochs.

The shape is a hypothesis (H), not a trace: widths from 1 to 64 with a mean of 5.5, 47 % of the GPU time in gangs of 16
to 64, and log-normal run times. The restart costs are published: those of six models, measured with Sia (SOSP'23).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.duration import DAY_S
from mirage.errors import ConfigurationError

WIDTHS: Mapping[int, float] = {1: 0.44, 2: 0.08, 4: 0.18, 8: 0.20, 16: 0.06, 32: 0.03, 64: 0.01}
"""Share of jobs by number of GPUs (H): mean 5.5, and 47 % of the GPU time in 16 GPUs or more."""

WIDE_GPUS = 16

MEDIAN_S = 700.0 * 1.944
"""Median run time (H)."""

SPREAD = 2.36
"""Standard deviation of the logarithm of run times (H): capped at ``CAP_S``, their mean is 13,250 s."""

CAP_S = 3.0 * DAY_S
"""Longest run time, unless another cap is given."""

RESTART_S: Mapping[str, float] = {
    "ncf": 15.0, "deepspeech2": 25.0, "cifar10": 50.0, "yolov3": 80.0, "bert": 120.0, "imagenet": 250.0
}  # fmt: skip
"""Seconds of a restart by model, as published with Sia."""

SAVE_SHARE = 0.2
"""A save takes this share of a restart (H), as it writes the model and reads no training data."""

DEFAULT_EPOCHS = 40
MOST: Mapping[str, float] = {"jobs": 10_000_000, "days": 36_500, "load": 100}
LEAST_LOAD = 0.001


@dataclass(frozen=True, slots=True)
class GangTable:
    """Jobs of a gang workload in order of submission, all times in whole milliseconds.

    Attributes:
        offered_load: GPU-seconds of all jobs, over those of the cluster during the span of submissions.
    """

    submit_s: Floats
    run_s: Floats
    gpus: Ints
    model: tuple[str, ...]
    epochs: int
    offered_load: float

    @property
    def wide_share(self) -> float:
        """Share of the GPU time in jobs of ``WIDE_GPUS`` GPUs or more."""
        gpu_s = self.gpus * self.run_s
        return float(gpu_s[self.gpus >= WIDE_GPUS].sum() / gpu_s.sum())

    def __len__(self) -> int:
        return len(self.submit_s)

    def to_csv(self) -> str:
        """The workload as ``read_gang_csv`` reads it."""
        lines = ["job_id,submit_s,run_s,gpus,model,epochs,checkpoint_every_s,save_s,restart_s"]
        for k, model in enumerate(self.model):
            restart_s, run_s = RESTART_S[model], float(self.run_s[k])
            costs = f"{run_s / self.epochs:.6f},{restart_s * SAVE_SHARE:g},{restart_s:g}"
            lines.append(f"{k},{self.submit_s[k]:.3f},{run_s:.3f},{self.gpus[k]},{model},{self.epochs},{costs}")
        return "\n".join([*lines, ""])


def generate_gangs(
    gpus: int,
    *,
    seed: int,
    jobs: int | None = None,
    days: float | None = None,
    load: float | None = None,
    epochs: int = DEFAULT_EPOCHS,
    cap_s: float = CAP_S,
) -> GangTable:
    """Draws a gang workload; two of ``jobs``, ``days`` and ``load`` determine the third.

    Submissions are uniform over the span, as in a Poisson process with a given number of jobs. The offered load is then
    exact for a number of jobs, and approximate for a number of days.

    Args:
        gpus: GPUs of the cluster; no job is wider.
        seed: The same seed and arguments give the same jobs.
        jobs: Number of jobs.
        days: Span of submissions.
        load: Offered load; 1 keeps all GPUs busy.
        epochs: Epochs of a job, each ending with a checkpoint.
        cap_s: Longest run time.

    Raises:
        ConfigurationError: Not exactly two of the three are given, or a number cannot be used.
    """
    _check(jobs, days, load, epochs, cap_s)
    random = np.random.default_rng(seed)
    widths = np.array([width for width in WIDTHS if width <= gpus], dtype=np.int64)
    shares = np.array([WIDTHS[width] for width in widths.tolist()])
    shares /= shares.sum()
    if jobs is None:
        mean_gpu_s = float(shares @ widths) * mean_run_s(cap_s)
        jobs = max(round((load or 0.0) * gpus * (days or 0.0) * DAY_S / mean_gpu_s), 1)
    width = random.choice(widths, jobs, p=shares)
    run_s = np.minimum(MEDIAN_S * np.exp(SPREAD * random.standard_normal(jobs)), cap_s)
    run_s = np.maximum(np.round(run_s, 3), 1.0)
    model = random.choice(list(RESTART_S), jobs)
    gpu_s = float(width @ run_s)
    span_s = gpu_s / (gpus * load) if days is None and load is not None else (days or 0.0) * DAY_S
    submit_s = np.round(np.sort(random.random(jobs)) * span_s, 3)
    return GangTable(submit_s, run_s, width, tuple(map(str, model)), epochs, gpu_s / (gpus * span_s))


def mean_run_s(cap_s: float = CAP_S) -> float:
    """Expected run time with a cap: the mean of a log-normal variable, limited from above."""

    def normal_cdf(z: float) -> float:
        return 0.5 * math.erfc(-z / math.sqrt(2.0))

    z = math.log(cap_s / MEDIAN_S) / SPREAD
    below = MEDIAN_S * math.exp(SPREAD**2 / 2) * normal_cdf(z - SPREAD)
    return below + cap_s * normal_cdf(-z)


def _check(jobs: int | None, days: float | None, load: float | None, epochs: int, cap_s: float) -> None:
    amounts: Mapping[str, float | None] = {"jobs": jobs, "days": days, "load": load}
    given = [name for name, amount in amounts.items() if amount is not None]
    if len(given) != 2:
        raise ConfigurationError(
            f"of jobs, days and load {len(given)} are given; give two, which determine the third: with jobs and load, "
            "submissions span the time in which the cluster does that much work"
        )
    for name, amount in {**amounts, "epochs": epochs, "the longest run time (--cap-days)": cap_s / DAY_S}.items():
        if amount is not None and not 0 < amount < math.inf:
            raise ConfigurationError(f"{name} is {amount:g}; give a number above 0")
    for name, most in MOST.items():
        if (amount := amounts[name]) is not None and amount > most:
            raise ConfigurationError(f"{name} is {amount:g}; give at most {most:,}")
    if load is not None and load < LEAST_LOAD:
        raise ConfigurationError(f"load is {load:g}; give at least {LEAST_LOAD:g}")
