"""Comparisons of schedulers: what is counted, and that differences are paired."""

import itertools

import numpy as np
import pytest

from mirage.dag.comparison import compare, paired_difference
from mirage.dag.schedulers.registry import make_scheduler
from mirage.dag.setting import Setting
from mirage.dag.simulator.simulation import DagSimulation
from mirage.dag.simulator.world import DagCluster
from mirage.dag.workload.arrivals import poisson_arrivals
from mirage.dag.workload.generated import generated_templates
from mirage.errors import ConfigurationError

SETTING = Setting(5, 6)


def compared(*names, seeds=(1, 2), **options):
    ticks, schedulers = itertools.count(), [make_scheduler(name) for name in names]
    return compare(generated_templates(), [SETTING], seeds, schedulers, clock=lambda: next(ticks), **options)


def test_rows_hold_what_single_episodes_do():
    told = []
    comparison = compared("fair", "capped:0:2", progress=lambda done, of: told.append((done, of)))
    fair = make_scheduler("fair")
    outcomes = [
        DagSimulation(generated_templates(), poisson_arrivals(6, seed), DagCluster(5), seed=seed).run(
            fair.decider, fair.parameters_for(seed)
        )
        for seed in (1, 2)
    ]
    row = comparison.rows[0]
    assert (row.policy, row.setting, row.seeds) == ("fair", "5/6", 2)
    assert row.mean_jct_s == pytest.approx(np.mean([outcome.jct_s for outcome in outcomes]))
    assert row.p95_jct_s == pytest.approx(np.percentile([outcome.jct_s for outcome in outcomes], 95))
    assert row.makespan_s == np.mean([outcome.makespan_s for outcome in outcomes])
    assert row.moves == np.mean([outcome.moves for outcome in outcomes])
    assert told[-1] == (4, 4)
    (difference,) = comparison.differences
    assert (difference.policy, difference.against) == ("capped:0:2", "fair")
    assert difference.mean_jct_s == pytest.approx(comparison.rows[1].mean_jct_s - row.mean_jct_s)


def test_the_cost_of_a_decision_is_what_more_of_them_cost():
    # by this clock every episode lasts a second: many decisions take as long as one, and cost nothing
    assert compared("fair").rows[0].decision_us == 0.0
    seconds = iter([0.0, 1e-6, 0.0, 51.0])
    comparison = compare(generated_templates(), [SETTING], [1], [make_scheduler("fair")], clock=lambda: next(seconds))
    (row,) = comparison.rows
    assert row.decision_us == pytest.approx(1e6 * (51.0 - 1e-6) / row.decisions / 50)


def test_intervals_are_of_paired_differences():
    random = np.random.default_rng(0)
    other = random.normal(1000, 300, 20)
    difference = paired_difference("a", "b", SETTING, other - random.normal(10, 1, 20), other)
    assert difference.mean_jct_s == pytest.approx(-10, abs=1)
    assert difference.low_s < difference.mean_jct_s < difference.high_s
    assert difference.high_s - difference.low_s < 2  # though episodes differ by hundreds of seconds
    assert difference.better_seeds == 20
    assert difference.percent == pytest.approx(100 * difference.mean_jct_s / other.mean())


def test_one_seed_has_no_interval():
    (difference,) = compared("fair", "capped:0:2", seeds=(1,)).differences
    assert (difference.low_s, difference.high_s, difference.no_interval) == (None, None, "one seed")
    (difference,) = compared("fair", "capped:0:2").differences
    assert difference.low_s <= difference.mean_jct_s <= difference.high_s
    assert difference.no_interval is None


def test_what_cannot_be_compared():
    for names, seeds in ((("fair", "fair"), (1,)), (("fair",), ()), ((), (1,))):
        with pytest.raises(ConfigurationError, match="named twice"):
            compared(*names, seeds=seeds)
    with pytest.raises(ConfigurationError, match="'fifo' is not compared; differences are to one of fair"):
        compared("fair", against="fifo")
