"""Calibration: how well past promises held, by partition and size, compared with Slurm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mirage.duration import MINUTE_S
from mirage.predict.start.promise import Promise
from mirage.predict.start.quantile_levels import MEDIAN, SHARES, ends


@dataclass(frozen=True, slots=True)
class PromiseCalibration:
    """How well the promises of one group held.

    Attributes:
        group: ``all``, or partition and size.
        settled: Number of promises that have an outcome.
        inside: Share of waits inside each reported range, in order of ``SHARES``. Ranges are reported to the minute, so
            a wait under a minute outside counts as inside: a job that starts at once waits a second for the scheduler.
        error_s: Median absolute difference between the reported median and the wait.
        slurm_settled: Number of these promises for which Slurm gave an estimate.
        slurm_error_s: The same difference for Slurm's estimate; None if it never gave one.
        same_error_s: Our difference on those promises alone, comparable with Slurm's.
    """

    group: str
    settled: int
    inside: tuple[float, ...]
    error_s: float
    slurm_settled: int
    slurm_error_s: float | None
    same_error_s: float | None

    def to_json(self) -> dict[str, Any]:
        """Returns the calibration as plain values."""
        plain = asdict(self)
        return {{"settled": "kept", "slurm_settled": "slurm_kept"}.get(name, name): plain[name] for name in plain}


def calibration(settled: Sequence[Promise]) -> list[PromiseCalibration]:
    """Calibration over all promises and by partition and size; empty if none has an outcome.

    Args:
        settled: Promises that have an outcome.
    """
    if not settled:
        return []
    kinds = sorted({one.kind for one in settled})
    return [
        _calibrated("all", settled),
        *(_calibrated(kind, [one for one in settled if one.kind == kind]) for kind in kinds),
    ]


def _calibrated(group: str, settled: Sequence[Promise]) -> PromiseCalibration:
    reported_s = np.array([one.reported_s for one in settled])
    waits_s = np.array([one.wait_s for one in settled], dtype=np.float64)
    inside = []
    for share in SHARES:
        low, high = ends(share)
        held = (reported_s[:, low] - MINUTE_S < waits_s) & (waits_s < reported_s[:, high] + MINUTE_S)
        inside.append(float(held.mean()))
    errors_s = np.abs(reported_s[:, MEDIAN] - waits_s)
    slurms = [(k, one.slurm_s) for k, one in enumerate(settled) if one.slurm_s is not None]
    both = [(errors_s[k], abs(slurm_s - waits_s[k])) for k, slurm_s in slurms]
    ours_s, slurms_s = np.median(both, axis=0).tolist() if both else (None, None)
    return PromiseCalibration(
        group, len(settled), tuple(inside), float(np.median(errors_s)), len(both), slurms_s, ours_s
    )
