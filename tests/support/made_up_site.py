"""Jobs for tests of calibration, in hours."""

from __future__ import annotations

import numpy as np

from mirage.duration import HOUR_S
from mirage.trace.table import JobTable

Row = tuple[str, float, float, float, int]
"""User, submission, start and run time in hours, nodes."""


def table(*rows: Row, limit_h: float = 24.0, **columns: object) -> JobTable:
    """Jobs called j0, j1, …"""
    user, submit, start, run, nodes = zip(*rows)
    submit_s, start_s, run_s = (np.round(np.array(hours) * HOUR_S).astype(int) for hours in (submit, start, run))
    names = [f"j{k}" for k in range(len(rows))]
    given = {
        "submit_s": submit_s,
        "start_s": start_s,
        "end_s": start_s + run_s,
        "limit_s": np.full(len(rows), int(limit_h * HOUR_S)),
        "nodes": nodes,
        "user": user,
    }
    return JobTable.build(names, **(given | columns))
