"""Classes of waits, and distances of their distributions, against scipy's figures."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.calibration.fidelity.job_pairs import PairedJobs
from mirage.calibration.fidelity.wait_classes import (
    JobClasses,
    WaitClass,
    kolmogorov_smirnov,
    wait_classes,
    wasserstein,
)
from mirage.duration import HOUR_S, UNLIMITED_S
from mirage.job_state import MISSING
from tests.support.made_up_histories import history

NODES = [1, 2, 4, 5, 16, 17, 100]
LIMITS_H = [1, 2, 3, 12, 13, 24, 25]


def names(classes):
    return [classes.names[k] for k in classes.of_job]


def test_the_usual_classes() -> None:
    assert names(JobClasses.by_nodes(np.array(NODES))) == ["1", "2-4", "2-4", "5-16", "5-16", "> 16", "> 16"]
    limits = JobClasses.by_limit(np.array(LIMITS_H) * HOUR_S)
    assert names(limits) == ["≤ 2 h", "≤ 2 h", "≤ 12 h", "≤ 12 h", "≤ 24 h", "≤ 24 h", "> 24 h"]


def test_quartiles_take_their_place_where_all_jobs_would_be_in_one() -> None:
    theta = np.array([128, 128, 128, 128, 256, 256, 512, 1024])
    assert names(JobClasses.by_nodes(theta)) == ["1-128"] * 4 + ["129-256"] * 2 + ["> 256"] * 2
    minutes = np.array([600, 900, 1800, 1800])
    assert names(JobClasses.by_limit(minutes)) == ["≤ 00:10:00", "≤ 00:15:00", "> 00:15:00", "> 00:15:00"]
    assert names(JobClasses.by_nodes(np.array([1] * 9 + [2]))) == ["1"] * 9 + ["2-4"]
    assert set(names(JobClasses.by_nodes(np.array([1] * 19 + [2])))) == {"1", "> 1"}


def test_all_alike_stay_in_the_usual_class_and_what_is_not_recorded_has_its_own() -> None:
    assert names(JobClasses.by_nodes(np.array([8, 8, 8]))) == ["5-16"] * 3
    assert names(JobClasses.by_nodes(np.array([1, MISSING, 3, 0]))) == ["1", "unknown", "2-4", "unknown"]
    assert names(JobClasses.by_limit(np.array([MISSING, MISSING]))) == ["unknown", "unknown"]
    assert names(JobClasses.by_limit(np.array([HOUR_S, UNLIMITED_S]))) == ["≤ 2 h", "> 24 h"]


def test_distances_are_those_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(2)
    a, b = random.integers(0, 50, 80), random.integers(10, 90, 80)
    assert wasserstein(a, b) == pytest.approx(stats.wasserstein_distance(a, b))
    assert kolmogorov_smirnov(a, b) == pytest.approx(stats.ks_2samp(a, b).statistic)


def test_equal_waits_in_another_order_are_the_same_distribution() -> None:
    found = WaitClass.of("1", "≤ 2 h", np.array([0, 3600, 7200, 10800]), np.array([10800, 7200, 3600, 0]))
    assert (found.wasserstein_h, found.kolmogorov_smirnov, found.rank_correlation) == (0, 0, pytest.approx(-1))
    assert (found.recorded_wait_s, found.simulated_wait_s, found.jobs) == (5400, 5400, 4)
    assert found.recorded_quantiles_s == found.simulated_quantiles_s == pytest.approx((1080, 2700, 5400, 8100, 9720))


def test_one_job_is_a_class_without_a_correlation() -> None:
    found = WaitClass.of("1", "≤ 2 h", np.array([0]), np.array([HOUR_S]))
    assert (found.wasserstein_h, found.kolmogorov_smirnov, found.rank_correlation) == (1, 1, None)


def test_every_job_is_in_one_class() -> None:
    n = 7
    columns = {"nodes": NODES, "limit_s": [h * HOUR_S for h in LIMITS_H[::-1]]}
    pair = PairedJobs.of(history(range(n), range(n), **columns), history(range(n), [h + 2 for h in range(n)]))
    found = wait_classes(pair)
    assert [(one.nodes, one.limit, one.jobs) for one in found] == [
        ("1", "> 24 h", 1), ("2-4", "≤ 24 h", 2), ("5-16", "≤ 12 h", 2), ("> 16", "≤ 2 h", 2),
    ]  # fmt: skip
    assert {one.wasserstein_h for one in found} == {2}


def test_a_slice_has_the_classes_of_the_whole() -> None:
    pair = PairedJobs.of(history([0, 1], [1, 1], nodes=[300, 300]), history([0, 1], [1, 1]))
    whole = history(range(4), [1] * 4, nodes=[100, 200, 300, 400])
    assert [one.nodes for one in wait_classes(pair)] == ["> 16"]
    assert [one.nodes for one in wait_classes(pair, whole)] == ["201-300"]
