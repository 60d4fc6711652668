"""The steady part of a trace leaves out ramps, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.duration import DAY_S, WEEK_S
from mirage.trace.read_trace import read_trace
from mirage.trace.table import JobTable
from mirage.trace.workload.steady_part import steady_part

FIRST_S = 1_700_000_000


def weeks(*nodes: float, partial_days: int = 7) -> JobTable:
    """Four jobs a day, of three nodes, that occupy as many nodes in each week.

    Run times are the load.
    """
    days = 7 * len(nodes) - (7 - partial_days)
    submit_s = FIRST_S + np.arange(4 * days) * (DAY_S // 4)
    level = np.array(nodes)[(submit_s - FIRST_S) // WEEK_S]
    run_s = (level * DAY_S / 4 / 3).astype(np.int64)
    return JobTable.build(
        np.arange(len(submit_s)), submit_s=submit_s, elapsed_s=run_s, limit_s=2 * run_s + 60, nodes=[3] * len(submit_s)
    )


def test_a_rising_load_is_left_out() -> None:
    part = steady_part(weeks(2, 9, 14, 40, 45, 38, 50, 47))
    assert part is not None
    assert (part.from_s, len(part.before), len(part.after)) == (FIRST_S + 3 * WEEK_S, 3, 0)
    assert (len(part.jobs), part.of_jobs) == (5 * 28, 8 * 28)
    assert part.usual == pytest.approx(39, rel=0.01)
    assert part.before == pytest.approx([2, 9, 14], rel=0.01)
    assert part.in_words == (
        "its steady part from 2023-12-05 to 2024-01-09, 140 of 224 jobs: in the 3 weeks before it, jobs need 8.33 "
        "nodes on average; in the median week, 39"
    )


def test_a_falling_load_is_left_out_too() -> None:
    part = steady_part(weeks(45, 38, 50, 47, 41, 12, 3))
    assert part is not None
    assert (part.from_s, part.until_s, len(part.after)) == (FIRST_S, FIRST_S + 5 * WEEK_S, 2)
    assert "in the 2 weeks after it, jobs need 7.5 nodes on average" in part.in_words


@pytest.mark.parametrize(
    "levels",
    [
        (40, 45, 38, 50, 47),
        (12, 45, 38, 50, 47),  # a single quiet week
        (40, 9, 9, 9, 45, 38, 47, 50),  # a dip is no ramp
        (2, 9, 40, 45, 38),  # too little remains
    ],
)
def test_other_traces_are_fitted_as_a_whole(levels: tuple[float, ...]) -> None:
    assert steady_part(weeks(*levels)) is None


def test_a_partial_week_counts_by_its_length() -> None:
    assert steady_part(weeks(45, 38, 50, 47, 41, 12, 44, partial_days=4)) is None
    part = steady_part(weeks(45, 38, 50, 47, 41, 12, 44, partial_days=3))  # too short to tell
    assert part is None


@pytest.mark.parametrize("table", [JobTable.build([]), JobTable.build(["1"], submit_s=[5])])
def test_a_trace_without_work_has_no_steady_part(table: JobTable) -> None:
    assert steady_part(table) is None


def test_lonestar6_is_steady_from_december_on(shared_data) -> None:  # type: ignore[no-untyped-def]
    part = steady_part(read_trace(shared_data / "mirage-ls6" / "ls6-a100.log.gz", timezone="America/Chicago").table)
    assert part is not None
    assert np.datetime64(part.from_s, "s").astype("datetime64[D]") == np.datetime64("2022-12-07")
    assert len(part.before) == 9
