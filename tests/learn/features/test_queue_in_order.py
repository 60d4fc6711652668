"""Start after the queue, first come first served."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mirage.learn.features.queue_in_order import expected_run_s, limit_run_s, wait_after_queue_s
from tests.support.made_up_views import chain, ended, jobs, view

NOW_S = 10_000
LINK = chain(NOW_S + 5000, nodes=2)


def busy(**more):
    """Four nodes: 3 run for 100 s and 1 for 400 s more; 4 wait for 50 s, then 1 for 1000 s."""
    running = jobs(
        {"id": 10, "width": 3, "nodes": 3, "limit_s": 600, "start_s": NOW_S - 500},
        {"id": 11, "width": 1, "limit_s": 600, "start_s": NOW_S - 200},
    )
    pending = jobs({"id": 12, "nodes": 4, "limit_s": 50}, {"id": 13, "nodes": 1, "limit_s": 1000})
    return view(NOW_S, 4, 0, running=running, pending=pending, chain=LINK, **more)


@pytest.mark.parametrize(("nodes", "wait_s"), [(1, 450), (3, 450), (4, 1450), (5, math.inf)])
def test_jobs_run_in_order_and_none_passes_another(nodes: int, wait_s: float) -> None:
    snapshot = busy()
    assert wait_after_queue_s(snapshot, chain(0, nodes=nodes), limit_run_s(snapshot)) == wait_s


def test_a_short_job_frees_its_nodes_before_a_longer_one_that_started_earlier() -> None:
    running = jobs({"width": 2, "nodes": 2, "limit_s": 1000, "start_s": NOW_S})
    pending = jobs({"nodes": 1, "limit_s": 300}, {"nodes": 1, "limit_s": 100}, {"nodes": 1, "limit_s": 50})
    snapshot = view(NOW_S, 4, 2, running=running, pending=pending, chain=LINK)
    waits = [wait_after_queue_s(snapshot, chain(0, nodes=nodes), limit_run_s(snapshot)) for nodes in (1, 2, 3)]
    assert waits == [150, 300, 1000]


def test_a_free_machine_has_no_wait() -> None:
    snapshot = view(NOW_S, 4, 4, chain=LINK)
    assert wait_after_queue_s(snapshot, LINK, limit_run_s(snapshot)) == 0


def test_a_job_larger_than_the_machine_is_passed_over() -> None:
    snapshot = view(NOW_S, 4, 4, pending=jobs({"nodes": 5}), chain=LINK)
    assert wait_after_queue_s(snapshot, LINK, limit_run_s(snapshot)) == 0


def test_expected_run_times_lean_on_the_users_own_jobs_and_on_what_has_run_longer() -> None:
    history = ended(*[(1, 1, 100, 0, 0, 20)] * 10, *[(2, 1, 100, 0, 0, 80)] * 10)
    snapshot = view(
        NOW_S,
        4,
        0,
        pending=jobs({"user": 1, "limit_s": 1000}, {"user": 3, "limit_s": 1000}),
        running=jobs(
            {"id": 5, "limit_s": 1000, "start_s": NOW_S - 100, "width": 1},
            {"id": 6, "limit_s": 1000, "start_s": NOW_S - 300, "width": 1},
            {"id": 7, "limit_s": 1000, "start_s": NOW_S - 900, "width": 1},
            {"id": LINK.predecessor, "limit_s": 1000, "start_s": NOW_S - 100, "width": 1},
        ),
        history=history,
        chain=LINK,
    )
    waits, runs = expected_run_s(snapshot)
    assert waits.tolist() == pytest.approx([1000 * (10 * 0.2 + 10 * 0.5) / 20, 500])
    longer = (10 * 0.8 + 1.0) / 11  # the limit itself is one more use
    assert runs.tolist() == pytest.approx([1000 * (10 * 0.2 + 10 * 0.8 + 1.0) / 21, 1000 * longer, 1000, 1000])


def test_without_history_all_run_to_their_limits() -> None:
    for expected, limit in zip(expected_run_s(busy()), limit_run_s(busy())):
        np.testing.assert_array_equal(expected, limit)
