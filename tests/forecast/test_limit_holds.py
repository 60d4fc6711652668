"""Jobs held only by a limit compete when it lets them, and so do future jobs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.forecast.forecaster import Forecaster, foreseen, with_limited
from mirage.sim.cluster import Limit
from tests.support.made_up_views import chain, ended, jobs, view

NOW = 40 * DAY_S
NOW_ONLY = np.zeros(1, dtype=np.int64)
ONE_JOB = Limit("user", jobs=1)


def running(user: int, nodes: int = 1) -> dict[str, Any]:
    return {"nodes": nodes, "limit_s": HOUR_S, "submit_s": NOW - 9, "start_s": NOW, "width": nodes, "user": user}


def held(number: int, user: int, nodes: int = 1) -> dict[str, Any]:
    requested = {"id": number, "nodes": nodes, "limit_s": HOUR_S, "submit_s": NOW - 5, "eligible_s": -1}
    return requested | {"start_s": -1, "user": user}


def start_h(*limits: Limit, discipline: str, holds: tuple[dict[str, Any], ...]) -> float:
    """When a link of all four nodes starts: a job of user 5 has one, their others are held."""
    observed = view(NOW, 4, 3, running=jobs(running(5)), held=jobs(*holds), chain=chain(NOW + DAY_S, nodes=4))
    forecast = Forecaster(2, discipline=discipline, limits=limits).forecast(observed, NOW_ONLY)
    return float(forecast.starts_s.max() - NOW) / HOUR_S


@pytest.mark.parametrize("discipline", ["fcfs", "conservative"])
def test_jobs_held_by_a_limit_run_one_after_the_other(discipline: str) -> None:
    holds = (held(11, 5), held(12, 5), held(13, 5))
    assert start_h(discipline=discipline, holds=holds) == 1
    assert start_h(ONE_JOB, discipline=discipline, holds=holds) == 4
    assert start_h(Limit("all", jobs=1), discipline="fcfs", holds=holds) == 4


def test_jobs_of_a_user_below_the_limit_are_held_by_something_else() -> None:
    holds = (held(11, 5), held(12, 6), held(13, 6))
    assert start_h(ONE_JOB, discipline="fcfs", holds=holds) == 2


def test_the_published_simulator_knows_no_limits() -> None:
    assert start_h(ONE_JOB, discipline="mirage-2023", holds=(held(11, 5),)) == 1


def test_a_burst_yet_to_come_is_held_by_the_limit_too() -> None:
    """Every day one user submits ten jobs of twelve hours, which would fill the machine."""
    day = [
        (7, 1, 12 * HOUR_S, NOW - k * DAY_S + 60, NOW - k * DAY_S + 60, NOW - k * DAY_S + 60 + 12 * HOUR_S)
        for k in range(1, 5)
        for _ in range(10)
    ]
    history = ended(*sorted(day, key=lambda row: row[-1]))
    observed = view(NOW, 10, 10, history=history, chain=chain(NOW + DAY_S, nodes=5))
    delays = np.array([0, HOUR_S])
    freely, limited = (
        Forecaster(4, discipline="easy", limits=limits).forecast(observed, delays).starts_s[:, 1] - NOW
        for limits in ((), (ONE_JOB,))
    )
    assert (freely >= 12 * HOUR_S).all()
    assert (limited == HOUR_S).all()


def test_rows_that_compete_come_after_the_pending_ones_and_leave_the_held() -> None:
    waits = {"id": 10, "nodes": 1, "limit_s": HOUR_S, "submit_s": NOW - 2, "user": 8}
    holds = jobs(held(11, 5), held(12, 6), held(13, 5))
    observed = view(NOW, 4, 3, running=jobs(running(5)), pending=jobs(waits), held=holds)
    found = with_limited(observed, (ONE_JOB,))
    assert found.pending.id.tolist() == [10, 11, 13]
    assert found.pending.eligible_s[1:].tolist() == [NOW - 5] * 2
    assert found.held.id.tolist() == [12]
    assert with_limited(observed, ()) is observed
    assert with_limited(observed, (Limit("user", jobs=2),)) is observed
    assert with_limited(observed, (Limit("user", nodes=2),)) is observed
    assert with_limited(observed, (Limit("user", nodes=1),)).held.id.tolist() == [12]
    assert with_limited(observed, (Limit("all", nodes=1),)).held.id.tolist() == []


def test_nodes_and_jobs_count_up_to_the_limit_by_user_or_together() -> None:
    """User 5 runs two jobs on three nodes in total, user 6 one on two."""
    runs = jobs(running(5, 2), running(5, 1), running(6, 2))
    holds = jobs(held(11, 5, 1), held(12, 5, 2), held(13, 6, 2), held(14, 6, 3), held(15, 7, 5))
    observed = view(NOW, 9, 4, running=runs, held=holds)

    def compete(*limits: Limit) -> list[int]:
        return with_limited(observed, limits).pending.id.tolist()

    assert compete(Limit("user", nodes=4)) == [12, 14, 15]
    assert compete(Limit("user", nodes=5)) == [], "none would be beyond it"
    assert compete(Limit("user", jobs=2)) == [11, 12]
    assert compete(Limit("all", nodes=7)) == [14, 15]
    assert compete(Limit("all", jobs=3)) == [11, 12, 13, 14, 15]
    assert compete(Limit("all", jobs=4)) == []
    assert compete(Limit("user", jobs=2), Limit("user", nodes=4)) == [11, 12, 14, 15]
    assert compete(Limit("user", jobs=2, nodes=4)) == [11, 12, 14, 15], "either one holds them"


def test_a_limited_job_has_its_own_age_where_it_accrues_some() -> None:
    aged = held(12, 5) | {"eligible_s": NOW - 3}
    observed = view(NOW, 4, 3, running=jobs(running(5)), held=jobs(held(11, 5), aged))
    assert with_limited(observed, (ONE_JOB,)).pending.eligible_s.tolist() == [NOW - 5, NOW - 3]


def test_limits_that_a_view_cannot_identify_are_left_out() -> None:
    named = (Limit("account", jobs=1), Limit("user", gpus=4), Limit("user", jobs=1, qos=("long",)))
    assert foreseen((*named, ONE_JOB, Limit("user", jobs=1, partitions=("gpu",)))) == (ONE_JOB,)
    together = (Limit("all", nodes=3), Limit("user", jobs=2, nodes=4))
    assert foreseen((*named, *together)) == together
    assert foreseen((Limit("all", ageing=4, accounts=("x",)),)) == ()


def test_a_queue_with_changed_held_jobs_is_another_one() -> None:
    observed = view(NOW, 4, 3, running=jobs(running(5)), held=jobs(held(11, 5)))
    whole = Forecaster(1, discipline="fcfs", limits=(ONE_JOB,)).of(observed)
    assert whole.are_of(observed)
