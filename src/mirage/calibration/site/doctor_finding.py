"""Findings of ``mirage doctor`` on the calibration of its cluster, and on policies."""

from __future__ import annotations

from datetime import UTC, datetime

from mirage.calibration.site.calibration_files import CalibrationFiles
from mirage.calibration.site.stored_calibration import StoredCalibration, attempt_words, read_stored_calibration
from mirage.calibration.site.stored_choices import read_choices
from mirage.duration import format_duration
from mirage.errors import ConfigurationError, quantity
from mirage.policy.auto_parameters import AUTO
from mirage.slurm.survey import OK, WARN, Finding

WHAT = "calibration"
_MAKE = "mirage calibrate --site makes one; the agent does so once a week"


def calibration_finding(files: CalibrationFiles, now_s: float) -> Finding:
    """Returns the known fidelity of the simulator on a cluster as a finding.

    Args:
        files: Location of its calibration.
        now_s: The cluster's time.
    """
    tried = attempt_words(files.attempt(), now_s)
    try:
        stored = read_stored_calibration(files)
    except ConfigurationError as error:
        return Finding(WARN, WHAT, "cannot be read", str(error))
    if stored is None:
        return Finding(WARN, WHAT, "none", tried or f"how faithful the simulator is here is unknown: {_MAKE}")
    advice = [stored.meaning, *stored.remarks, *([tried] if tried else [])]
    if stored.is_stale(now_s):
        advice.insert(0, f"stale: {_MAKE}")
    good = stored.is_faithful and not stored.is_stale(now_s)
    return Finding(
        OK if good else WARN, WHAT, f"{stored.age(now_s)} old; {stored.figures}; {_slice(stored)}", "; ".join(advice)
    )


def choice_findings(files: CalibrationFiles) -> list[Finding]:
    """Returns a finding for each kind of link that ``auto`` has a policy for.

    Args:
        files: Location of the calibration.
    """
    try:
        choices = read_choices(files)
    except ConfigurationError as error:
        return [Finding(WARN, AUTO, "cannot be read", str(error))]
    found = []
    for one in choices:
        cost = "overlap free" if one.cost_ratio is None else f"costs {one.cost_ratio:g} : 1"
        link = (
            f"{quantity(one.nodes, 'node')}, {format_duration(one.limit_s)}, {cost}" + ", age gathered" * one.bank_age
        )
        found.append(Finding(OK, AUTO, f"{one.policy} for {link}", one.reason))
    return found


def _slice(stored: StoredCalibration) -> str:
    first, last = (datetime.fromtimestamp(at_s, UTC) for at_s in (stored.from_s, stored.until_s - 1))
    return f"judged on {stored.jobs:,} jobs of {first:%Y-%m-%d} to {last:%Y-%m-%d}"
