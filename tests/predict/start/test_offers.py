"""Predictions and offers over small queues with known answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S, MINUTE_S, UNLIMITED_S
from mirage.errors import ConfigurationError
from mirage.predict.start.offers import compare, limits_to_try
from mirage.predict.start.predictor import JobRequest, StartPredictor
from mirage.predict.start.quantile_levels import LEVELS
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from tests.support.made_up_views import jobs, view

NOW = 40 * DAY_S
RUNNING = {"nodes": 3, "limit_s": 4 * HOUR_S, "submit_s": NOW - 9, "start_s": NOW, "width": 3}
WAITING = {"id": 7, "nodes": 4, "limit_s": 2 * HOUR_S, "submit_s": NOW - 5, "eligible_s": NOW - 5}
CROWDED = view(NOW, 4, 1, running=jobs(RUNNING), pending=jobs(WAITING))
"""Three of four nodes are taken for four hours, then all of them for two."""


def predictor(**changed: object) -> StartPredictor:
    return StartPredictor(CROWDED, futures=4, **changed)


def test_a_long_job_waits_for_those_before_it() -> None:
    prediction = predictor().of_request(JobRequest(1, 8 * HOUR_S))
    assert prediction.quantiles_s().tolist() == [6 * HOUR_S] * len(LEVELS)
    assert (prediction.mean_s, prediction.open_share) == (6 * HOUR_S, 0.0)


def test_a_pending_job_is_watched_where_it_stands() -> None:
    assert predictor().of_pending(7).quantiles_s().tolist() == [4 * HOUR_S] * len(LEVELS)


def test_what_lies_beyond_the_futures_is_open() -> None:
    prediction = predictor(horizon_s=5 * HOUR_S).of_request(JobRequest(1, 8 * HOUR_S))
    assert prediction.open_share == 1.0
    assert prediction.quantiles_s().max() == 5 * HOUR_S


@pytest.mark.parametrize(("delay_h", "wait_h"), [(1, 6), (7, 7), (400, 336)])
def test_a_job_starts_at_its_earliest_start_or_later(delay_h: int, wait_h: int) -> None:
    prediction = predictor().of_request(JobRequest(1, 8 * HOUR_S, delay_s=delay_h * HOUR_S))
    assert prediction.quantiles_s().tolist() == [wait_h * HOUR_S] * len(LEVELS)
    assert prediction.forecast().waits_s[:, 0].tolist() == [max(wait_h - delay_h, 0) * HOUR_S] * 4


def test_more_than_the_machine_has_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="there is no request to predict"):
        predictor().of_any([])
    with pytest.raises(ConfigurationError, match="the job requests 5 nodes, and 4 such nodes of its partition are up"):
        predictor().of_request(JobRequest(5, HOUR_S))
    with pytest.raises(ConfigurationError, match="there is no partition 3; there are 1"):
        predictor().of_request(JobRequest(1, HOUR_S, partition=3))


REFUSED = [
    JobRequest(0, 1), JobRequest(-1, 1), JobRequest(1, 0), JobRequest(1, 1, delay_s=-1), JobRequest(1, 1, user=-5),
]  # fmt: skip


@pytest.mark.parametrize("job", REFUSED)
def test_a_job_without_nodes_or_time_is_refused(job: JobRequest) -> None:
    with pytest.raises(ConfigurationError, match="a job needs a node, a limit of a second and no negative"):
        predictor().of_request(job)


def test_limits_and_nodes_are_whole_numbers_in_range() -> None:
    with pytest.raises(ConfigurationError, match="the longest limit is"):
        predictor().of_request(JobRequest(1, 2**62))
    with pytest.raises(ConfigurationError, match=r"nodes is 1\.5; give a whole number"):
        JobRequest(1.5, HOUR_S)  # type: ignore[arg-type]


@pytest.mark.parametrize("changed", [{"futures": 0}, {"horizon_s": -1}])
def test_a_prediction_needs_a_future(changed: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="a prediction needs a future of a second"):
        StartPredictor(CROWDED, **changed)


def test_of_several_partitions_the_first_with_room_counts() -> None:
    made = predictor()
    fits = JobRequest(1, 8 * HOUR_S)
    assert (made.of_any([fits, replace(fits, nodes=9)]).waits_s == made.of_request(fits).waits_s).all()
    assert (made.of_any([fits, JobRequest(1, 2 * HOUR_S)]).waits_s == 0).all()


def test_the_longest_limit_that_starts_first_comes_first() -> None:
    original = JobRequest(1, 8 * HOUR_S)
    offers = compare(predictor(), original, [replace(original, limit_s=k * HOUR_S) for k in (7, 3, 2)])
    assert [offer.request.limit_s // HOUR_S for offer in offers] == [3, 2, 8, 7]
    assert [offer.sooner_s / HOUR_S for offer in offers] == [6, 6, 0, 0]
    assert (offers[0].sooner_share, offers[0].node_hours) == (1.0, 3.0)


def test_a_shorter_limit_that_gains_nothing_is_not_recommended() -> None:
    original = JobRequest(4, 8 * HOUR_S)
    assert compare(predictor(), original, [JobRequest(4, HOUR_S)])[0].request == original


def test_requests_that_do_not_fit_are_left_out() -> None:
    original = JobRequest(1, HOUR_S)
    assert [offer.request for offer in compare(predictor(), original, [JobRequest(9, HOUR_S), original])] == [original]


@pytest.mark.parametrize(
    ("limit_s", "tried"),
    [
        (12 * HOUR_S, [12 * HOUR_S, 11 * HOUR_S, 9 * HOUR_S, 6 * HOUR_S, 3 * HOUR_S]),
        (2 * HOUR_S, [7200, 6300, 5400, 3600, 1800]),
        (10 * MINUTE_S, [600, 540, 420, 300, 120]),
        (60, [60]),
        (UNLIMITED_S, [UNLIMITED_S, 7 * DAY_S, 2 * DAY_S, DAY_S]),
    ],
)
def test_shorter_limits_are_what_people_write(limit_s: int, tried: list[int]) -> None:
    assert limits_to_try(limit_s) == tried
    assert np.array(tried).min() > 0


def test_a_user_s_next_job_stands_where_those_in_sight_do() -> None:
    # Two heavy jobs of user 1 wait with little priority, one of user 2 with much; a new job of either is like its own.
    waiting = [
        {"id": k, "user": user, "nodes": 4, "limit_s": HOUR_S, "submit_s": NOW - 5, "eligible_s": NOW - 5,
         "priority": priority} for k, (user, priority) in enumerate([(2, 900.0), (1, 100.0), (1, 100.0)])
    ]  # fmt: skip
    small_view = view(NOW, 4, 1, running=jobs(RUNNING), pending=jobs(*waiting))
    made = StartPredictor(small_view, SlurmSettings(weight_fairshare=1000.0), futures=2)
    heavy, light = (made.of_request(JobRequest(4, HOUR_S, user=user)).mean_s for user in (1, 2))
    assert light == 5 * HOUR_S, "behind the one before it"
    assert heavy == 7 * HOUR_S, "behind all three"
