"""The forecasts of hand-overs, and their figures, in a small world with fair-share."""

from __future__ import annotations

import argparse

import numpy as np
import pytest

from hand_over_coverage import Moments, corrected_h, figures, played, report
from mirage.duration import DAY_S, HOUR_S
from mirage.provision.evaluation.episode import Scenario
from mirage.sim.cluster import Cluster
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings
from mirage.sim.workload import workload
from mirage.trace.table import JobTable

SETTINGS = SlurmSettings(weight_fairshare=10_000.0, weight_age=500.0, half_life_s=3.0 * DAY_S)


def small_world() -> Scenario:
    """Thirty days of six users on eight nodes."""
    random = np.random.default_rng(5)
    n = 1_000
    run_s = random.integers(900, 7 * HOUR_S, n)
    table = JobTable.build(
        range(n), submit_s=np.sort(random.integers(0, 30 * DAY_S, n)), elapsed_s=run_s, limit_s=2 * run_s,
        nodes=random.choice([1, 1, 2, 3], n), user=[f"u{k % 6}" for k in random.integers(0, 36, n)],
    )  # fmt: skip
    return Scenario(Cluster.pool(8), workload(table, Cluster.pool(8)), "slurm", SETTINGS)


@pytest.fixture(scope="module")
def found() -> Moments:
    options = argparse.Namespace(
        link_nodes=[3], limit_h=12.0, start_s=9 * DAY_S, windows=5, every_h=72.0, ahead_h=3.0, link_user="heavy",
        hand_over=2,
    )  # fmt: skip
    return played(options, small_world())[3]


def test_moments_are_spread_over_each_link_and_know_the_truth(found: Moments) -> None:
    assert set(found.window) == set(range(5))
    assert len(found.true_s) == len(found.now_s) == len(found.starts_s) == len(found.factors)
    assert (found.true_h >= 0).all()
    assert (np.diff(found.waits_h, axis=1) >= 0).all()


def test_the_assumed_factor_is_near_the_computed_one(found: Moments) -> None:
    """A heavy user is last of seven mostly; the scheduler's factor is a share of ranks."""
    assumed, computed = np.array(found.factors).T
    assert ((computed > 0) & (computed <= 1)).all()
    assert np.median(np.abs(assumed / computed - 1)) < 0.1


def test_figures_count_what_lies_in_the_ranges(capsys: pytest.CaptureFixture[str], found: Moments) -> None:
    levels_h = np.tile(np.arange(64) + 0.5, (4, 1))
    row = figures(levels_h, np.array([32.0, 20.0, 5.0, 99.0]), np.arange(4) * DAY_S)
    assert row["coverage"] == [0.5, 0.5, 0.75]
    full = report(found, 3)
    assert f"truth {full['true_h']:.2f} h" in capsys.readouterr().out
    assert [one["true_h"] for one in full["heaviest"]] == sorted(
        (one["true_h"] for one in full["heaviest"]), reverse=True
    )


def test_a_correction_uses_no_start_before_it_has_happened(found: Moments) -> None:
    before = corrected_h(found, 3)
    last = int(np.argmax(found.true_s))
    later = Moments(found.now_s, found.starts_s, list(found.true_s), found.factors, found.window)
    later.true_s[last] += 40 * DAY_S
    known = np.array(found.now_s) < found.true_s[last]
    np.testing.assert_array_equal(corrected_h(later, 3)[known], before[known])
