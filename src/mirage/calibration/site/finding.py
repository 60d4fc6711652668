"""Finding of ``mirage doctor`` on the calibration of its cluster."""

from __future__ import annotations

from datetime import UTC, datetime

from mirage.calibration.site.kept import KeptCalibration, attempt_words, read_kept
from mirage.calibration.site.place import SitePlace
from mirage.errors import ConfigurationError
from mirage.slurm.survey import OK, WARN, Finding

WHAT = "calibration"
_MAKE = "mirage calibrate --site makes one; the agent does so once a week"


def calibration_finding(place: SitePlace, now_s: float) -> Finding:
    """Returns the known fidelity of the simulator on a cluster as a finding.

    Args:
        place: Location of its calibration.
        now_s: The cluster's time.
    """
    tried = attempt_words(place.attempt(), now_s)
    try:
        kept = read_kept(place)
    except ConfigurationError as error:
        return Finding(WARN, WHAT, "cannot be read", str(error))
    if kept is None:
        return Finding(WARN, WHAT, "none", tried or f"how faithful the simulator is here is unknown: {_MAKE}")
    advice = [kept.meaning, *kept.remarks, *([tried] if tried else [])]
    if kept.is_stale(now_s):
        advice.insert(0, f"stale: {_MAKE}")
    good = kept.is_faithful and not kept.is_stale(now_s)
    return Finding(
        OK if good else WARN, WHAT, f"{kept.age(now_s)} old; {kept.figures}; {_slice(kept)}", "; ".join(advice)
    )


def _slice(kept: KeptCalibration) -> str:
    first, last = (datetime.fromtimestamp(at_s, UTC) for at_s in (kept.from_s, kept.until_s - 1))
    return f"judged on {kept.jobs:,} jobs of {first:%Y-%m-%d} to {last:%Y-%m-%d}"
