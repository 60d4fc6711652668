"""The last 24 hours of the queue, rebuilt from one view."""

from __future__ import annotations

import numpy as np

from mirage.learn.features.queue_history import queue_history
from mirage.learn.hand_overs import HISTORY, QUEUE_COLUMNS
from tests.support.made_up_views import ended, jobs, view

NOW_S = 100_000
MIN = 60


def at(minutes_ago: int) -> int:
    return NOW_S - minutes_ago * MIN


def test_every_job_is_where_it_was_at_each_snapshot() -> None:
    snapshot = view(
        NOW_S,
        8,
        0,
        pending=jobs({"nodes": 3, "limit_s": 7200, "submit_s": at(15)}),
        running=jobs({"nodes": 2, "width": 2, "limit_s": 3600, "submit_s": at(35), "start_s": at(15)}),
        history=ended((1, 4, 600, at(35), at(25), at(5))),
    )
    rows = queue_history(snapshot)
    assert rows.shape == (HISTORY, QUEUE_COLUMNS)
    pending, running = rows[-5:, :2].tolist(), rows[-5:, 17:19].tolist()
    assert pending == [[0, 0], [2, 6], [1, 2], [1, 3], [1, 3]]
    assert running == [[0, 0], [0, 0], [1, 4], [2, 6], [1, 2]]
    assert not rows[:-4].any()
    assert rows[-4, 2:7].tolist() == [10, 22.5, 35, 47.5, 60]  # limits of 10 and 60 min
    assert rows[-4, 7:12].tolist() == [300] * 5
    assert rows[-1, 7:12].tolist() == [900] * 5
    assert rows[-2, 19:24].tolist() == [10, 22.5, 35, 47.5, 60]
    assert rows[-2, 24:29].tolist() == [600, 750, 900, 1050, 1200]
    assert rows[-2, 29:34].tolist() == [300, 450, 600, 750, 900]
    assert not rows[:, 12:17].any()


def test_what_happens_in_the_second_of_a_snapshot_has_not_happened_yet() -> None:
    snapshot = view(NOW_S, 8, 0, history=ended((1, 4, 600, at(40), at(30), at(20))))
    rows = queue_history(snapshot)[-5:]
    assert rows[:, 0].tolist() == [0, 1, 0, 0, 0]
    assert rows[:, 17].tolist() == [0, 0, 1, 0, 0]


def test_a_held_job_is_counted_nowhere() -> None:
    snapshot = view(NOW_S, 8, 8, held=jobs({"submit_s": at(600)}))
    assert not queue_history(snapshot).any()


def test_what_a_view_shows_is_there_now_even_if_it_came_this_second() -> None:
    snapshot = view(
        NOW_S,
        8,
        0,
        pending=jobs({"submit_s": NOW_S, "nodes": 3}),
        running=jobs({"submit_s": at(5), "start_s": NOW_S, "width": 2}),
        history=ended((1, 4, 600, at(5), at(5), NOW_S)),
    )
    assert queue_history(snapshot)[-1, [0, 1, 17, 18]].tolist() == [1, 3, 1, 2]


def test_a_part_of_the_history_is_the_end_of_all_of_it() -> None:
    rng = np.random.default_rng(0)
    submit_s = np.sort(NOW_S - rng.integers(0, 30 * 3600, 300))
    start_s = submit_s + rng.integers(0, 9000, 300)
    end_s = start_s + rng.integers(0, 20_000, 300)
    order = np.argsort(end_s)
    past = [(1, int(rng.integers(1, 5)), 3600, int(submit_s[k]), int(start_s[k]), int(end_s[k])) for k in order]
    snapshot = view(NOW_S, 8, 0, history=ended(*[row for row in past if row[-1] < NOW_S]))
    whole = queue_history(snapshot)
    np.testing.assert_array_equal(queue_history(snapshot, 7), whole[-7:])
    assert whole[-7:].any()


def test_quartiles_are_those_of_the_jobs_that_were_there() -> None:
    rng = np.random.default_rng(1)
    waits = [{"submit_s": at(k) + 1, "limit_s": int(rng.integers(60, 90_000))} for k in range(1, 200, 7)]
    rows = queue_history(view(NOW_S, 8, 0, pending=jobs(*waits)), 20)
    for back, row in enumerate(rows[::-1]):
        there = [job for job in waits if job["submit_s"] < NOW_S - 600 * back]
        limits = np.quantile([job["limit_s"] for job in there], [0, 0.25, 0.5, 0.75, 1]) / 60 if there else np.zeros(5)
        np.testing.assert_array_equal(row[2:7], limits.astype(np.float32))
        assert row[0] == len(there)
