"""Rows of a plan: every kind of action by hand, and values that cannot be written."""

from math import inf, isnan

import numpy as np
import pytest

from mirage.errors import ContractBroken
from mirage.schedule.engine.plan_rows import plan_rows
from mirage.schedule.scheduler_contract import GpuCancel, GpuLend, GpuPlan, GpuPreempt, GpuResize, GpuReturn, GpuStart


def test_every_action_has_its_row_and_its_places() -> None:
    plan = GpuPlan(
        (
            GpuStart(3, {1: 2, 5: 1}, batch=4, reason="first", estimate_s=5.0),
            GpuStart(np.int64(4), gpus=3),
            GpuResize(6, {7: 1}),
            GpuPreempt(8, "kill", needed_gpus=2),
            GpuCancel(9),
            GpuLend(1, 2, until_s=40, reason="lent"),
            GpuReturn(0),
        )
    )
    rows, places, reasons = plan_rows(plan, first_reason=10)
    # kind, id, how, gpus, batch, first, places, pool, until_s, reason, needed, estimate_s, refused
    assert [row.tolist()[:11] for row in rows] == [
        (0, 3, 0, 0, 4, 0, 2, -1, inf, 10, -1),
        (0, 4, 0, 3, 0, 2, 0, -1, inf, 11, -1),
        (1, 6, 0, 0, 0, 2, 1, -1, inf, 12, -1),
        (2, 8, 2, 0, 0, 0, 0, -1, inf, 13, 2),
        (3, 9, 0, 0, 0, 0, 0, -1, inf, 14, -1),
        (4, 1, 0, 0, 0, 0, 0, 2, 40, 15, -1),
        (5, 0, 0, 0, 0, 0, 0, -1, inf, 16, -1),
    ]
    assert rows[0]["estimate_s"] == 5
    assert all(isnan(row["estimate_s"]) for row in rows[1:])
    assert places.tolist() == [(1, 2), (5, 1), (7, 1)]
    assert reasons == ["first", "", "", "", "", "lent", ""]


def test_what_is_no_action_or_no_whole_number_is_named() -> None:
    with pytest.raises(ContractBroken, match=r"GpuStart\(job=1\.5, .* has a value of the wrong kind"):
        plan_rows(GpuPlan((GpuReturn(0), GpuStart(1.5))), 0)
    with pytest.raises(TypeError, match="'start 3' is not an action"):
        plan_rows(GpuPlan(("start 3",)), 0)
