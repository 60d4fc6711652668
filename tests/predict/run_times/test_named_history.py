"""Uses of the limit predicted from a view."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.forecast.use_history import LEVELS
from mirage.policy.view import Ended
from mirage.predict.run_times.named_history import NamedHistory
from tests.support.made_up_views import ended, jobs, view

HOUR = 3600
NOW = 100 * HOUR


def history(*rows: tuple[int, int, float]) -> Ended:
    """Jobs of ten hours that ended one after the other: user, name, share of the limit used."""
    made = ended(*((user, 1, 10 * HOUR, 0, 0, int(use * 10 * HOUR)) for user, _, use in rows))
    return replace(made, name=np.array([name for _, name, _ in rows]))


def predicted(shown) -> list[np.ndarray]:
    uses = NamedHistory().uses(shown)
    return [uses.samples[first:last] for first, last in uses.stretch]


def job(user: int, name: int = -1, **requests: int) -> dict[str, int]:
    return {"user": user, "name": name, "limit_s": 10 * HOUR, **requests}


def test_a_name_separates_the_short_jobs_of_a_user_from_the_long_ones() -> None:
    past = history(*[(1, 7, 0.1), (1, 8, 0.9)] * 30)
    short, long, unknown = predicted(view(NOW, 4, 4, pending=jobs(job(1, 7), job(1, 8), job(1, 9)), history=past))
    assert np.median(short) == pytest.approx(0.1, abs=0.01)
    assert np.median(long) == pytest.approx(0.9, abs=0.01)
    assert 0.35 < unknown.mean() < 0.65


def test_a_stranger_is_taken_for_everybody_with_a_like_limit() -> None:
    """Also where few have ended: nothing is made up."""
    others = history(*[(user, -1, 0.2) for user in range(2, 12)], *[(user, -1, 0.6) for user in range(2, 12)])
    (stranger,) = predicted(view(NOW, 4, 4, pending=jobs(job(99)), history=others))
    assert stranger.mean() == pytest.approx(0.4, abs=0.03)


def test_missing_names_are_nothing_in_common() -> None:
    past = history(*[(user, -1, 0.05 * user) for user in range(1, 20)] * 40)
    of_three, of_eighteen = predicted(view(NOW, 4, 4, pending=jobs(job(3), job(18)), history=past))
    assert np.median(of_three) == pytest.approx(0.15, abs=0.01)
    assert np.median(of_eighteen) == pytest.approx(0.9, abs=0.01)


def test_one_user_with_two_limits_starts_from_everybody_of_each() -> None:
    rows = [(user, 1, HOUR, 0, 0, HOUR // 10) for user in range(2, 60)]
    rows += [(user, 1, 40 * HOUR, 0, 0, 36 * HOUR) for user in range(2, 60)]
    requests = jobs({"user": 1, "limit_s": HOUR}, {"user": 1, "limit_s": 40 * HOUR})
    short, long = predicted(view(NOW, 4, 4, pending=requests, history=ended(*rows)))
    assert np.median(short) == pytest.approx(0.1, abs=0.01)
    assert np.median(long) == pytest.approx(0.9, abs=0.01)


def test_a_running_job_uses_more_than_it_has_used() -> None:
    past = history(*[(1, 7, use) for use in np.random.default_rng(4).permutation(np.linspace(0.01, 1.0, 100))])
    running = jobs(job(1, 7, start_s=NOW - 5 * HOUR, width=1), job(2, 7, start_s=NOW - int(9.9999 * HOUR), width=1))
    half, last = predicted(view(NOW, 4, 2, running=running, history=past))
    assert half.min() > 0.49
    assert half.mean() == pytest.approx(0.75, abs=0.05)
    assert (last == 1.0).all()


def test_jobs_that_still_run_count_as_longer_than_so_far() -> None:
    """Of twenty jobs the ten short ones have ended: the next is as likely a long one."""
    past = history(*[(1, 7, 0.1)] * 10, *[(2, 6, 0.95)] * 40)
    running = jobs(*[job(1, 7, start_s=NOW - 4 * HOUR, width=1)] * 10)
    (alone,) = predicted(view(NOW, 90, 80, pending=jobs(job(1, 7)), history=past))
    with_running = predicted(view(NOW, 90, 80, pending=jobs(job(1, 7)), running=running, history=past))[0]
    assert (alone > 0.5).mean() < 0.3
    assert (with_running > 0.5).mean() > 0.45


def test_without_users_equal_requests_form_groups() -> None:
    rows = [(-1, nodes, HOUR, 0, 0, HOUR * nodes // 10) for nodes in (1, 8)] * 60
    requests = jobs({"user": -1, "limit_s": HOUR}, {"user": -1, "limit_s": HOUR, "nodes": 8})
    small, large = predicted(view(NOW, 4, 4, pending=requests, history=ended(*rows)))
    assert np.median(small) == pytest.approx(0.1, abs=0.01)
    assert np.median(large) == pytest.approx(0.8, abs=0.01)


def test_old_habits_are_forgotten() -> None:
    past = history(*[(1, 7, 0.1)] * 60, *[(1, 7, 0.8)] * 60)
    (now,) = predicted(view(NOW, 4, 4, pending=jobs(job(1, 7)), history=past))
    assert (now > 0.7).mean() > 0.85


def test_equal_jobs_share_their_values_and_nothing_is_outside_the_limit() -> None:
    past = history(*[(1, 7, 0.0), (1, 7, 1.3)] * 10)
    uses = NamedHistory().uses(view(NOW, 4, 4, pending=jobs(job(1, 7), job(1, 7), job(2, 7)), history=past))
    assert uses.stretch[0].tolist() == uses.stretch[1].tolist() != uses.stretch[2].tolist()
    assert ((uses.samples > 0) & (uses.samples <= 1)).all()
    assert len(uses.samples) == 2 * LEVELS
    for first, last in uses.stretch:
        assert (np.diff(uses.samples[first:last]) >= 0).all()


def test_without_any_history_jobs_run_until_their_limit() -> None:
    (only,) = predicted(view(NOW, 4, 4, pending=jobs(job(1, 7))))
    assert (only == 1.0).all()


def test_an_empty_queue_has_no_uses() -> None:
    uses = NamedHistory().uses(view(NOW, 4, 4, history=history((1, 7, 0.5))))
    assert uses.stretch.shape == (0, 2)
