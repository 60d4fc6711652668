"""Schedules: stretches of running put together into jobs, and the figures of them."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.kernel.record_arrays import records
from mirage.sim.kernel.arrays import SEGMENT
from mirage.sim.schedule import Schedule
from mirage.trace.table import JobTable


def table(*submit_s: int) -> JobTable:
    return JobTable.build(range(1, len(submit_s) + 1), submit_s=submit_s)


def schedule(submit_s: tuple[int, ...], *stretches: tuple[int, int, int, int], nodes: int = 4) -> Schedule:
    """Of stretches (job, start, end, nodes)."""
    segments = records(SEGMENT, len(stretches))
    for row, (job, start_s, end_s, width) in enumerate(stretches):
        segments.id[row], segments.start_s[row], segments.end_s[row], segments.width[row] = job, start_s, end_s, width
    return Schedule.of(table(*submit_s), segments, nodes)


def test_a_job_starts_with_its_first_stretch_and_ends_with_its_last() -> None:
    made = schedule((0, 0, 5), (0, 10, 20, 1), (1, 0, 30, 1), (0, 40, 60, 2), (0, 25, 35, 1))
    assert made.start_s.tolist() == [10, 0, -1]
    assert made.end_s.tolist() == [60, 30, -1]
    assert made.wait_s.tolist() == [10, 0]


def test_injected_jobs_use_nodes_but_are_no_jobs_of_the_trace() -> None:
    made = schedule((0,), (1, 0, 50, 3), (0, 50, 60, 4))
    assert (made.start_s.tolist(), made.end_s.tolist()) == ([50], [60])
    assert made.metrics()["utilisation"] == (3 * 50 + 4 * 10) / (4 * 60)
    assert made.metrics()["jobs"] == 1


@pytest.mark.parametrize(
    ("stretches", "times", "levels"),
    [
        ((), [], []),
        (((0, 0, 10, 2),), [0, 10], [2, 0]),
        (((0, 0, 10, 2), (1, 10, 20, 3)), [0, 10, 20], [2, 3, 0]),
        (((0, 0, 10, 2), (1, 5, 15, 1)), [0, 5, 10, 15], [2, 3, 1, 0]),
        (((0, 5, 5, 4), (1, 0, 10, 1)), [0, 5, 10], [1, 1, 0]),
    ],
)
def test_nodes_in_use(stretches: tuple[tuple[int, int, int, int], ...], times: list[int], levels: list[int]) -> None:
    made_times, made_levels = schedule((0, 0), *stretches).busy_nodes()
    assert (made_times.tolist(), made_levels.tolist()) == (times, levels)


@pytest.mark.parametrize(
    ("wait_s", "run_s", "floor_s", "slowdown"),
    [(0, 100, 10, 1.0), (100, 100, 10, 2.0), (0, 1, 10, 1.0), (19, 1, 10, 2.0), (9, 1, 1, 10.0), (30, 0, 10, 3.0)],
)
def test_the_slowdown_of_a_short_job_is_bounded(wait_s: int, run_s: int, floor_s: int, slowdown: float) -> None:
    made = schedule((0, 0), (0, wait_s, wait_s + run_s, 1))
    assert made.bounded_slowdown(floor_s).tolist() == [slowdown]


def test_the_figures_of_three_jobs() -> None:
    made = schedule((100, 100, 110, 120), (0, 100, 120, 2), (1, 105, 115, 2), (2, 150, 200, 4))
    assert made.metrics() == {
        "jobs": 3,
        "never_started": 1,
        "mean_wait_s": 15.0,
        "median_wait_s": 5.0,
        "p95_wait_s": pytest.approx(36.5),
        "max_wait_s": 40,
        "mean_bounded_slowdown": pytest.approx((1 + 15 / 10 + 90 / 50) / 3),
        "makespan_s": 100,
        "utilisation": (2 * 20 + 2 * 10 + 4 * 50) / (4 * 100),
    }


def test_where_nothing_ran_there_is_nothing_to_divide_by() -> None:
    nothing = {"jobs": 0, "mean_wait_s": 0.0, "max_wait_s": 0, "makespan_s": 0, "utilisation": 0.0}
    assert schedule((5, 6)).metrics() == nothing | {"never_started": 2}
    assert schedule(()).metrics() == nothing | {"never_started": 0}
    at_once = schedule((5,), (0, 5, 5, 1)).metrics()
    assert (at_once["jobs"], at_once["makespan_s"], at_once["utilisation"]) == (1, 0, 0.0)
    assert np.isfinite(list(at_once.values())).all()
