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


def test_what_an_action_may_leave_out_and_what_it_may_give() -> None:
    plan = GpuPlan(
        (
            GpuResize(1, gpus=2, batch=8, estimate_s=1.0),
            GpuPreempt(2, "boundary", needed_gpus=0, estimate_s=2.0),
            GpuPreempt(3, "save"),
            GpuCancel(4, reason="over", estimate_s=4.0),
            GpuReturn(5, reason="back"),
            GpuLend(6, 0),
        )
    )
    rows, places, reasons = plan_rows(plan, first_reason=0)
    assert rows[["kind", "id", "how", "gpus", "batch", "needed"]].tolist() == [
        (1, 1, 0, 2, 8, -1), (2, 2, 0, 0, 0, 0), (2, 3, 1, 0, 0, -1), (3, 4, 0, 0, 0, -1), (5, 5, 0, 0, 0, -1),
        (4, 6, 0, 0, 0, -1),
    ]  # fmt: skip
    np.testing.assert_array_equal(rows["estimate_s"], [1, 2, np.nan, 4, np.nan, np.nan])
    assert (rows["until_s"].tolist(), rows["pool"].tolist()) == ([inf] * 6, [-1] * 5 + [0])
    assert (rows["refused"].tolist(), rows["reason"].tolist()) == ([0] * 6, list(range(6)))
    assert (len(places), reasons) == (0, ["", "", "", "over", "back", ""])


@pytest.mark.parametrize(
    "action",
    [
        GpuStart(0, {0: 0.5}), GpuStart(0, {"a": 1}), GpuStart(0, batch=1.5), GpuResize(0, gpus="all"),
        GpuPreempt(0, needed_gpus=1.5), GpuCancel("job"), GpuLend(0, 1, until_s="noon"), GpuReturn(None),
    ],
)  # fmt: skip
def test_an_action_with_a_value_of_the_wrong_kind_is_named(action) -> None:
    with pytest.raises(ContractBroken, match=rf"^{type(action).__name__}\(.* has a value of the wrong kind: "):
        plan_rows(GpuPlan((GpuCancel(0), action)), 0)


def test_what_is_no_action_or_no_whole_number_is_named() -> None:
    with pytest.raises(ContractBroken, match=r"GpuStart\(job=1\.5, .* has a value of the wrong kind"):
        plan_rows(GpuPlan((GpuReturn(0), GpuStart(1.5))), 0)
    actions = "GpuStart, GpuResize, GpuPreempt, GpuCancel, GpuLend and GpuReturn"
    with pytest.raises(TypeError, match=f"^'start 3' is not an action; a plan takes {actions}$"):
        plan_rows(GpuPlan(("start 3",)), 0)
