"""Recorded and simulated histories of a few jobs, by hours since a Monday at midnight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mirage.duration import DAY_S, HOUR_S
from mirage.job_state import MISSING
from mirage.trace.table import JobTable

MONDAY_S = 19_359 * DAY_S
"""2023-01-02 00:00 UTC."""


def history(submit_h: Sequence[float], wait_h: Sequence[float], **columns: Any) -> JobTable:
    """Jobs 0, 1, … by submission and wait; a negative wait is a job that never started.

    Each runs an hour, on one node and with a limit of two hours unless ``columns`` says otherwise.
    """
    n = len(submit_h)
    submit_s = MONDAY_S + np.round(np.array(submit_h) * HOUR_S).astype(np.int64)
    waits = np.array(wait_h, dtype=float)
    start_s = np.where(waits >= 0, submit_s + np.round(waits * HOUR_S).astype(np.int64), MISSING)
    defaults = {
        "job_id": np.arange(n).astype(str),
        "nodes": [1] * n,
        "limit_s": [2 * HOUR_S] * n,
        "submit_s": submit_s,
        "start_s": start_s,
        "end_s": np.where(start_s >= 0, start_s + HOUR_S, MISSING),
    }
    return JobTable.build(**{**defaults, **columns})
