"""The picture of a trace, read with its axes: busy nodes, their weekly means, and waits."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.report.axes import scaled_waits
from mirage.report.charts.trace_chart import trace_chart
from mirage.report.picture import Picture
from mirage.trace.statistics.summary import describe
from mirage.trace.table import JobTable
from tests.support.picture_reading import bars, label, readings, strokes, texts_of

DAY0 = 19_723 * DAY_S  # 2024-01-01, a Monday


def table(**changes: object) -> JobTable:
    """Eleven days: 3 nodes from day 1, 2 more on days 3 and 4, 40 on day 10; waits up to 6 h."""
    start_s = DAY0 + np.array([1, 3, 10, 11]) * DAY_S
    values = {
        "submit_s": start_s - np.array([0, 1, 1, 6]) * HOUR_S, "start_s": start_s,
        "end_s": DAY0 + np.array([11, 5, 11, 12]) * DAY_S, "nodes": np.array([3, 2, 40, 1]),
    }  # fmt: skip
    return JobTable.build(np.arange(4), **values | changes)


def drawn(jobs: JobTable) -> Picture:
    return trace_chart(jobs, describe(jobs))


def test_busy_nodes_are_steps_under_their_weekly_means_and_the_capacity() -> None:
    picture = drawn(table())
    busy, _ = readings(picture, 2024)
    assert busy.names == ["0", "10", "20", "30", "40"]
    assert busy.below == [f"Jan {day}" for day in range(2, 12)]
    assert texts_of(picture)[:6] == [
        "Busy nodes and waits", "4 jobs", "busy nodes", "busy", "weekly mean", "inferred capacity, 43",
    ]  # fmt: skip
    (steps,) = busy.curves("edge fine")
    days = np.array([(at_s - DAY0) / DAY_S for at_s, _ in steps])
    nodes = np.array([value for _, value in steps])
    assert (days[0], days[-1]) == pytest.approx((1.0, 10.75), abs=0.01), "to the last submission"
    for first, last, held in ((1.0, 2.9, 3), (3.1, 4.9, 5), (5.1, 9.9, 3), (10.1, 10.75, 43)):
        within = (days >= first - 0.01) & (days <= last)
        assert nodes[within] == pytest.approx(held, abs=0.01)
    samples = [bar.style for bar in bars(picture, "area")] + [
        style for style in ("queue", "limit") if [one for one in strokes(picture, style) if one[0][1] < busy.top]
    ]
    assert samples == ["area", "queue", "limit"], "the key has a sample of each"
    (means,) = busy.curves("queue")
    corners = [((at_s - DAY0) / DAY_S, value) for at_s, value in means]
    mean = [((3 * 6 + 2 * 2) / 6, 1.0, 7.0), ((3 * 3.75 + 40 * 0.75) / 3.75, 7.0, 10.75)]
    for (value, first, last), (left, right) in zip(mean, (corners[:2], corners[2:])):
        assert (*left, *right) == pytest.approx((first, value, last, value), abs=0.01)
    assert busy.levels("limit") == pytest.approx([43], abs=0.01)
    assert busy.at_y(busy.top) == pytest.approx(1.05 * 43, abs=0.01)


def test_waits_are_steps_from_the_shortest_to_the_longest() -> None:
    picture = drawn(table())
    _, waits = readings(picture)
    assert (waits.names, waits.below) == (["0 %", "50 %", "100 %"], ["0", "1 min", "10 min", "1 h", "6 h"])
    assert texts_of(picture)[-1] == "wait"
    assert waits.at_y(waits.top) == pytest.approx(102, abs=0.01)
    (steps,) = strokes(picture, "median")
    shares = [(x, waits.at_y(y)) for x, y in steps]
    hour_px = label(picture, "1 h").x
    assert shares[0] == pytest.approx((waits.left, 0))
    assert shares[2] == pytest.approx((waits.left, 25))
    assert max(share for x, share in shares if x < hour_px - 0.1) == pytest.approx(25)
    assert max(share for x, share in shares if x < waits.right - 0.1) == pytest.approx(75)
    assert shares[-1] == pytest.approx((waits.right, 100))
    share_of_axis = (hour_px - waits.left) / (waits.right - waits.left)
    assert share_of_axis == pytest.approx(np.log10(61) / np.log10(361)), "logarithmic above a minute"


def test_the_axis_of_waits_has_an_hour_where_all_are_shorter() -> None:
    start_s = table().start_s
    picture = drawn(table(submit_s=start_s - 30))
    _, waits = readings(picture)
    assert waits.below == ["0", "1 min", "10 min", "1 h"]
    (steps,) = strokes(picture, "median")
    assert [x for x, _ in steps[2:6]] == pytest.approx([waits.left + np.log10(1.5) / np.log10(61) * 880] * 4)
    assert steps[-1] == pytest.approx((waits.right, steps[-2][1]))
    assert scaled_waits([60.0]).tolist() == pytest.approx([np.log10(2)])


def test_what_a_trace_lacks_is_reported() -> None:
    unknown = np.full(4, -1)
    words = texts_of(drawn(table(start_s=unknown, end_s=unknown)))
    assert words == [
        "Busy nodes and waits", "4 jobs", "busy nodes", "no starts recorded: busy nodes are not known",
        "share of jobs that waited no longer", "no waits recorded",
    ]  # fmt: skip
    words = texts_of(drawn(table(submit_s=unknown)))
    assert "no waits recorded" in words
    assert "inferred capacity, 43" in words
