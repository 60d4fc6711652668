"""Measures of one run besides completion times: fairness, evictions, and cluster use."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from mirage.duration import HOUR_S
from mirage.errors import quantity
from mirage.report.html_page import section, table
from mirage.schedule.engine.measures import SIZES, Measures


def measures_json(found: Measures) -> dict[str, Any]:
    """Returns all measures as JSON values: null without data, sizes as strings."""
    values: dict[str, Any] = {name: _number(value) for name, value in asdict(found).items()}
    values["jwtd_s"] = {str(size): [_number(v) for v in waits] for size, waits in found.jwtd_s.items()}
    values["jtted"] = [_number(v) for v in found.jtted]
    return values


def measures_section(found: Measures) -> str:
    """Returns the section of a page."""
    explained = (
        "Unfairness above 1: later than on an equal share. Shares are of the time from first submission to last end."
    )
    cells = [[name, value, note] for name, value, note in _entries(found)]
    return section("Fairness and use", explained, table(("measure", "value", "of what"), cells, cards=True))


def _entries(found: Measures) -> list[tuple[str, str, str]]:
    low, middle, high = found.jtted
    loans = [
        ("server-hours lent", f"{found.lent_server_h:,.0f}", "to other pools"),
        ("breaches of loans", f"{found.breaches:,}", "not returned in time"),
        ("unmet inference demand", f"{found.unmet_server_h:,.2f}", "server-hours"),
    ]
    waits = [
        (f"JWTD, {_sizes(size)}", f"{_hours(median_s)} / {_hours(high_s)}", "wait, 50 % / 95 %")
        for size, (median_s, high_s) in found.jwtd_s.items()
    ]
    return [
        ("finish-time unfairness, mean", f"{found.mean_unfairness:.2f}", "jobs with known run times"),
        ("finish-time unfairness, worst", f"{found.worst_unfairness:.2f}", "jobs with known run times"),
        ("GPUs evicted beyond those needed", f"{found.excess_gpus:,}", "where the scheduler reports its need"),
        ("GAR", f"{found.gar:.1%}", "GPUs held, median over time"),
        ("SOR", f"{found.sor:.1%}", "GPU-hours held"),
        ("GFR", f"{found.gfr:.1%}", "servers held in part, mean over time"),
        *(loans if found.lent_server_h > 0 else []),
        ("JTTED", f"{low:.2f} / {middle:.2f} / {high:.2f}", "servers used over the fewest, 5 / 50 / 95 % of GPU-hours"),
        *waits,
    ]


def _sizes(least: int) -> str:
    """Formats the sizes of jobs from one of ``SIZES`` up to the next."""
    most = next((size - 1 for size in SIZES if size > least), None)
    if most is None:
        return f"{quantity(least, 'GPU')} and more"
    return quantity(least, "GPU") if most == least else f"{least} to {most} GPUs"


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR_S:.2f} h"


def _number(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
