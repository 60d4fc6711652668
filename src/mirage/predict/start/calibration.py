"""Calibration: how well past promises held, by partition and size, compared with Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirage.duration import MINUTE_S
from mirage.predict.start.levels import MEDIAN, SHARES, ends
from mirage.predict.start.promise import Promise


@dataclass(frozen=True, slots=True)
class Calibration:
    """How well the promises of one group held.

    Attributes:
        group: ``all``, or partition and size.
        kept: Number of promises that have an outcome.
        inside: Share of waits inside each reported range, in order of ``SHARES``. Ranges are reported to the minute, so
            a wait under a minute outside counts as inside: a job that starts at once waits a second for the scheduler.
        error_s: Median absolute difference between the reported median and the wait.
        slurm_kept: Number of these promises for which Slurm gave an estimate.
        slurm_error_s: The same difference for Slurm's estimate; None if it never gave one.
        same_error_s: Our difference on those promises alone, comparable with Slurm's.
    """

    group: str
    kept: int
    inside: tuple[float, ...]
    error_s: float
    slurm_kept: int
    slurm_error_s: float | None
    same_error_s: float | None


def calibration(kept: Sequence[Promise]) -> list[Calibration]:
    """Calibration over all promises and by partition and size; empty if none has an outcome.

    Args:
        kept: Promises that have an outcome.
    """
    if not kept:
        return []
    kinds = sorted({one.kind for one in kept})
    return [
        _calibrated("all", kept),
        *(_calibrated(kind, [one for one in kept if one.kind == kind]) for kind in kinds),
    ]


def _calibrated(group: str, kept: Sequence[Promise]) -> Calibration:
    told = np.array([one.told_s for one in kept])
    waits_s = np.array([one.wait_s for one in kept], dtype=np.float64)
    inside = []
    for share in SHARES:
        low, high = ends(share)
        held = (told[:, low] - MINUTE_S < waits_s) & (waits_s < told[:, high] + MINUTE_S)
        inside.append(float(held.mean()))
    errors_s = np.abs(told[:, MEDIAN] - waits_s)
    slurms = [(k, one.slurm_s) for k, one in enumerate(kept) if one.slurm_s is not None]
    both = [(errors_s[k], abs(slurm_s - waits_s[k])) for k, slurm_s in slurms]
    ours_s, slurms_s = np.median(both, axis=0).tolist() if both else (None, None)
    return Calibration(group, len(kept), tuple(inside), float(np.median(errors_s)), len(both), slurms_s, ours_s)
