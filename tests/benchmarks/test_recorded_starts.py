"""The recorded queue shows what was known; forecasts and their figures use nothing later."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from mirage.job_state import MISSING
from mirage.policy.view import View
from mirage.predict.waits.rolling_forecast import LEVELS
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.trace.table import JobTable
from recorded_queue import NEVER_S, RecordedQueue
from recorded_starts import Jobs, blended, corrected, figures, hindsight, pinball_h, rule

HOUR_S = 3600
AGEING = SlurmSettings(weight_age=700.0, max_age_s=7.0 * HOUR_S)


def trace(jobs: int = 300) -> JobTable:
    """Jobs of three users that wait up to an hour; some leave unstarted, the last ones run."""
    random = np.random.default_rng(7)
    submit_s = np.sort(random.integers(0, 30 * HOUR_S, jobs))
    start_s = submit_s + random.integers(0, HOUR_S, jobs)
    end_s = start_s + random.integers(60, 5 * HOUR_S, jobs)
    start_s[::7] = MISSING
    end_s[end_s > 30 * HOUR_S] = MISSING
    return JobTable.build(
        range(jobs), submit_s=submit_s, start_s=start_s, end_s=end_s, limit_s=random.integers(5, 12, jobs) * HOUR_S,
        nodes=random.integers(1, 9, jobs), priority=random.integers(50, 900, jobs),
        user=[f"u{k % 3}" for k in range(jobs)], name=[f"run_{k % 5}" for k in range(jobs)], account=["lab"] * jobs,
    )  # fmt: skip


def known_at(table: JobTable, now_s: int) -> JobTable:
    """The table as it was then: later submissions, starts and ends are missing."""
    known = table[table.submit_s <= now_s]
    hidden = {
        name: np.where(getattr(known, name) > now_s, MISSING, getattr(known, name)) for name in ("start_s", "end_s")
    }
    return known.with_columns(**hidden)


def test_a_view_shows_nothing_later_than_its_job() -> None:
    table = trace()
    queue = RecordedQueue(table, 500, AGEING)
    for row in (3, 60, 150, 290):
        now_s = int(queue.request_s[row])
        then = RecordedQueue(known_at(table, now_s), 500, AGEING)
        assert _columns(queue.at(row)) == _columns(then.at(row))


def _columns(view: View) -> list[object]:
    groups = (view.pending, view.running, view.ended)
    return [view.now_s, view.nodes.free.tolist()] + [
        sorted(zip(*(getattr(jobs, field.name).tolist() for field in fields(jobs)))) for jobs in groups
    ]


def test_a_view_shows_the_recorded_queue() -> None:
    table = JobTable.build(
        ["ended", "running", "cancelled", "waiting", "cancelled later", "own", "later"],
        submit_s=[0, 100, 200, 300, 400, 1000, 1001], start_s=[50, 700, -1, 5000, -1, 1000, 1002],
        end_s=[800, 9000, 900, 6000, 3000, 2000, 3000], limit_s=[HOUR_S] * 7, nodes=[1, 2, 3, 4, 5, 6, 7],
        priority=[10, 20, 30, 40, 90, 60, 70], user=list("abcabca"),
    )  # fmt: skip
    view = RecordedQueue(table, 9, AGEING).at(5)
    assert view.pending.id.tolist() == [4, 5, 3]  # by priority
    assert view.running.id.tolist() == [1]
    assert view.ended.nodes.tolist() == [1]
    assert (view.nodes.capacity[0, 0], view.nodes.free[0, 0]) == (9, 7)
    assert view.pending.priority == pytest.approx([90 + 700 * 600 / 25_200, 60, 40 + 700 * 700 / 25_200])
    assert view.running.priority == pytest.approx([20 + 700 * 600 / 25_200])


def test_as_many_nodes_as_are_in_use() -> None:
    table = JobTable.build(
        range(2), submit_s=[0, 10], start_s=[0, 50], end_s=[90, 99], limit_s=[100, 100], nodes=[7, 1]
    )
    view = RecordedQueue(table, 5, AGEING).at(1)
    assert (view.nodes.capacity[0, 0], view.nodes.free[0, 0]) == (7, 0)


def test_waits_and_when_they_are_known() -> None:
    day_s = 86_400
    table = JobTable.build(
        range(4), submit_s=[0, 10, 20, 30], start_s=[500, -1, 40 * day_s, -1], end_s=[900, 300, 41 * day_s, 20 * day_s],
        limit_s=[HOUR_S] * 4, nodes=[1, 2, 3, 4],
    )  # fmt: skip
    jobs = Jobs.of(RecordedQueue(table, 9, AGEING), np.full(4, True))
    assert jobs.wait_s.tolist() == [500, 290, 14 * day_s, 14 * day_s]
    assert jobs.known_s.tolist() == [500, NEVER_S, 20 + 14 * day_s, 30 + 14 * day_s]


def test_no_forecast_uses_a_later_wait() -> None:
    queue = RecordedQueue(trace(), 500, AGEING)
    jobs = Jobs.of(queue, np.full(300, True))
    random = np.random.default_rng(3)
    waits_s = random.integers(0, HOUR_S, (300, 64))
    parts = [np.sort(random.uniform(0, HOUR_S, (300, len(LEVELS)))) for _ in range(2)]
    now_s = int(jobs.now_s[150])
    unknown = jobs.known_s > now_s
    others = Jobs(
        jobs.rows, jobs.now_s, np.where(jobs.now_s + jobs.wait_s > now_s, jobs.wait_s + 9 * HOUR_S, jobs.wait_s),
        np.where(unknown & (jobs.known_s < NEVER_S), jobs.known_s + 9 * HOUR_S, jobs.known_s), jobs.nodes, jobs.limit_s,
    )  # fmt: skip

    def made(of: Jobs) -> list[np.ndarray]:
        return [rule(of), corrected(of, waits_s), *blended(of, parts).values()]

    for one, other in zip(made(jobs), made(others), strict=True):
        assert np.array_equal(one[:151], other[:151])
        assert not np.array_equal(one, other)
        assert len(np.unique(one[100:151], axis=0)) > 10


def test_only_every_nth_outcome_may_be_known() -> None:
    jobs = Jobs.of(RecordedQueue(trace(), 500, AGEING), np.full(300, True))
    random = np.random.default_rng(5)
    waits_s = random.integers(0, HOUR_S, (300, 64))
    parts = [np.sort(random.uniform(0, HOUR_S, (300, len(LEVELS)))) for _ in range(2)]
    late = np.where(np.arange(300) % 4, 5 * HOUR_S, 0)
    others = Jobs(jobs.rows, jobs.now_s, jobs.wait_s + late, jobs.known_s + late, jobs.nodes, jobs.limit_s)
    for every, equal in ((4, True), (1, False)):
        assert np.array_equal(corrected(jobs, waits_s, every), corrected(others, waits_s, every)) == equal
        pairs = zip(blended(jobs, parts, every).values(), blended(others, parts, every).values(), strict=True)
        assert all(np.array_equal(one, other) == equal for one, other in pairs)


def test_the_rule_uses_the_last_known_waits_of_like_jobs() -> None:
    count = 120
    wait_s = np.where(np.arange(count) % 2, 3000, 60) + np.where(np.arange(count) < 16, 500, 0)
    now_s = np.arange(count) * HOUR_S
    nodes = np.where(np.arange(count) % 2, 8, 1)
    jobs = Jobs(np.arange(count), now_s, wait_s, now_s + wait_s, nodes, np.full(count, 9 * HOUR_S))
    found = rule(jobs)
    assert found[-1].tolist() == [3000.0] * len(LEVELS)
    assert found[-2].tolist() == [60.0] * len(LEVELS)


def test_figures() -> None:
    wait_s = np.array([2 * HOUR_S, 5 * HOUR_S])
    jobs = Jobs(np.arange(2), np.arange(2), wait_s, wait_s, np.ones(2, np.int64), np.full(2, 9 * HOUR_S))
    made_s = np.full((2, len(LEVELS)), 3.0 * HOUR_S)
    assert pinball_h(wait_s, made_s) == pytest.approx([1.0, 2.0])  # of one number it is the absolute error
    found = figures(jobs, made_s + np.where(LEVELS > 0.7, 2.5 * HOUR_S, 0), np.array([True, True]))
    assert found["hand_over_1"] == pytest.approx([1.0, 0.5])
    assert found["hand_over_3"] == pytest.approx([0.0, 2.0])
    assert found["coverage"] == [0.5, 0.5, 0.5]


def test_hindsight_takes_the_best_candidate_of_each_level_on_the_judged_jobs() -> None:
    wait_s = np.array([900, 5000, 9000, 1])
    jobs = Jobs(np.arange(4), np.arange(4), wait_s, wait_s, np.ones(4, np.int64), np.full(4, 9 * HOUR_S))
    exact = np.repeat(wait_s[:, None], len(LEVELS), axis=1).astype(float)
    parts = [0.5 * exact, 1.5 * exact]
    parts[0][3], parts[1][3] = 0.0, 9000.0
    judged = np.array([True, True, True, False])
    found = hindsight(jobs, parts, judged)
    assert found[:3] == pytest.approx(exact[:3])
    assert found[3] == pytest.approx(4500.0)
