"""Ranges of a wait, and their correction by promises of the past that were kept or missed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirage.duration import MINUTE_S
from mirage.job_state import Floats
from mirage.predict.start.predictor import LEVELS, SHARES

LEAST_KEPT = 60
"""So many promises with their outcomes correct a range: the least that leave a 95 % range two misses to learn from."""

MOST_KEPT = 500
"""Older promises are forgotten: queues change."""

MEDIAN = len(LEVELS) // 2


@dataclass(frozen=True, slots=True)
class Kept:
    """A promise with its outcome.

    Attributes:
        partition: Name of the partition.
        size: Class of sizes, as ``size_class`` names it.
        raw_s: Shape (levels,), quantiles of the wait as forecast.
        told_s: The same as told, corrected where there was a correction.
        wait_s: How long the job waited.
        slurm_s: What Slurm expected; None where it said nothing.
    """

    partition: str
    size: str
    raw_s: tuple[float, ...]
    told_s: tuple[float, ...]
    wait_s: float
    slurm_s: float | None = None


def size_class(nodes: int) -> str:
    """The class of a job's size, in words."""
    return "1 node" if nodes == 1 else "2-7 nodes" if nodes < 8 else "8-63 nodes" if nodes < 64 else "64+ nodes"


def ends(share: float) -> tuple[int, int]:
    """Which of ``LEVELS`` are the ends of the range that holds a share."""
    low = SHARES[::-1].index(share)
    return low, len(LEVELS) - 1 - low


def relevant(kept: Sequence[Kept], partition: str, size: str) -> list[Kept]:
    """The latest promises that speak for a new one: of its partition and size where they suffice, else all.

    Args:
        kept: In order of their making.
    """
    alike = [one for one in kept if (one.partition, one.size) == (partition, size)]
    return list(alike if len(alike) >= LEAST_KEPT else kept)[-MOST_KEPT:]


def corrected(quantiles_s: Floats, kept: Sequence[Kept]) -> Floats:
    """Quantiles whose ranges hold as often as they say, as far as the past tells.

    Each range is moved outwards, or inwards, by the order statistic of how far past waits lay outside of theirs (split
    conformal prediction for quantiles: Romano, Patterson, Candès, NeurIPS 2019, section 3), on the scale of the
    logarithm of the wait. The median stays; ranges stay one inside the other.

    Args:
        quantiles_s: Shape (levels,).
        kept: Promises that speak for this one; below ``LEAST_KEPT`` of them nothing is changed.
    """
    if len(kept) < LEAST_KEPT:
        return quantiles_s
    raw = _scale(np.array([one.raw_s for one in kept]))
    waits = _scale(np.array([one.wait_s for one in kept]))
    made = _scale(quantiles_s.copy())
    for share in SHARES:
        low, high = ends(share)
        outside = np.sort(np.maximum(raw[:, low] - waits, waits - raw[:, high]))
        rank = min(math.ceil((len(outside) + 1) * share), len(outside))
        made[low] = min(made[low] - outside[rank - 1], made[low + 1] if share != SHARES[0] else made[MEDIAN])
        made[high] = max(made[high] + outside[rank - 1], made[high - 1] if share != SHARES[0] else made[MEDIAN])
    for k in range(MEDIAN - 1, -1, -1):
        made[k], made[-1 - k] = min(made[k], made[k + 1]), max(made[-1 - k], made[-2 - k])
    waits_s: Floats = np.maximum(np.expm1(made) * MINUTE_S, 0.0)
    return waits_s


def _scale(seconds: Floats) -> Floats:
    scaled: Floats = np.log1p(np.maximum(seconds, 0.0) / MINUTE_S)
    return scaled


@dataclass(frozen=True, slots=True)
class Calibration:
    """How promises of one group held.

    Attributes:
        group: ``all``, or partition and size class.
        kept: How many promises have an outcome.
        inside: Share of waits inside each told range, in order of ``SHARES``; ranges are told to the minute, so that
            one less than a minute from an end is inside: a job that starts at once waits a second for the scheduler.
        error_s: Median absolute difference between the told median and the wait.
        slurm_kept: For how many of them Slurm said something.
        slurm_error_s: The same difference for Slurm; None where it never said anything.
        same_error_s: Ours on those promises alone, to be compared with Slurm's.
    """

    group: str
    kept: int
    inside: tuple[float, ...]
    error_s: float
    slurm_kept: int
    slurm_error_s: float | None
    same_error_s: float | None


def calibration(kept: Sequence[Kept]) -> list[Calibration]:
    """How promises held, over all and by partition and size class; empty where none has an outcome."""
    if not kept:
        return []
    groups = sorted({(one.partition, one.size) for one in kept})
    of_group = [
        _calibrated(f"{partition}, {size}", [one for one in kept if (one.partition, one.size) == (partition, size)])
        for partition, size in groups
    ]
    return [_calibrated("all", kept), *of_group]


def _calibrated(group: str, kept: Sequence[Kept]) -> Calibration:
    told = np.array([one.told_s for one in kept])
    waits_s = np.array([one.wait_s for one in kept])
    inside = []
    for share in SHARES:
        low, high = ends(share)
        held = (told[:, low] - MINUTE_S < waits_s) & (waits_s < told[:, high] + MINUTE_S)
        inside.append(float(held.mean()))
    errors_s = np.abs(told[:, MEDIAN] - waits_s)
    both = [(error_s, abs(one.slurm_s - one.wait_s)) for error_s, one in zip(errors_s, kept) if one.slurm_s is not None]
    ours_s, slurms_s = np.median(both, axis=0).tolist() if both else (None, None)
    return Calibration(group, len(kept), tuple(inside), float(np.median(errors_s)), len(both), slurms_s, ours_s)
