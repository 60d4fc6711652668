"""Models without networks: each learns a made-up queue, and is unchanged when read back."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError, UnknownName
from mirage.learn.cost_ratio_rule import LEVELS, gain
from mirage.learn.regression.corrected_forecast import forecast_columns, forecast_waits_h, guess, levels_of
from mirage.learn.regression.model_contract import TrainingSettings, inputs_at
from mirage.learn.regression.published_regression import PROBES, PublishedForest, probes
from mirage.learn.regression.quantile_trees import wait_of
from mirage.learn.regression.tree_arrays import BATCH, TreeArrays, join_trees, random_state
from mirage.learn.training.method_trials import submitted_rows
from mirage.learn.training.methods import METHODS, method_named
from mirage.learn.training.stored_steps import StoredSteps
from mirage.policy.cost import Cost
from tests.support.made_up_hand_overs import before_and_after, made_up_hand_overs

pytest.importorskip("xgboost", reason="pip install mirage-hpc[learn]")
pytest.importorskip("sklearn", reason="pip install mirage-hpc[learn]")

SETTINGS = TrainingSettings(rounds=40, trees=10, most_rows=1500)
NAMES = tuple(name for name, method in METHODS.items() if ".regression." in method.trainer)


@pytest.fixture(scope="module")
def slices():
    early, late = before_and_after(made_up_hand_overs(46), 32)
    return *before_and_after(early, 24), late


@pytest.fixture(scope="module")
def models(slices):
    train, tune, _ = slices
    found = {name: METHODS[name].train()(train, tune, SETTINGS, StoredSteps(None)) for name in NAMES[:-2]}
    few = replace(SETTINGS, trees=10)  # six thousand columns
    return found | {name: METHODS[name].train()(train, tune[:0], few, StoredSteps(None)) for name in NAMES[-2:]}


def mean_cost(submits, data, cost):
    return cost.of(data.outcome_s[submitted_rows(submits, data)].astype(float)).mean()


@pytest.mark.parametrize("name", NAMES)
def test_it_closes_some_of_the_gap_between_reactive_and_the_oracle(models, slices, name):
    late = slices[2]
    edges = late.windows()
    best = np.mean([Cost().of(late.outcome_s[a:b].astype(float)).min() for a, b in pairwise(edges)])
    reactive = mean_cost(np.zeros(len(late), dtype=bool), late, Cost())
    closed = (reactive - mean_cost(models[name].submits(inputs_at(late), Cost()), late, Cost())) / (reactive - best)
    assert 0.25 < closed <= 1


@pytest.mark.parametrize("name", NAMES)
def test_a_model_read_from_arrays_decides_alike(models, slices, name):
    model, decisions = models[name], inputs_at(slices[2], np.arange(0, 200, 3))
    again = type(model).from_arrays(model.as_arrays(), model.settings())
    for cost in (Cost(), Cost(5, 1)):
        assert (again.submits(decisions, cost) == model.submits(decisions, cost)).all()
    assert type(model) is METHODS[name].model_class()
    assert again.inputs == model.inputs


@pytest.mark.parametrize("name", ["correction", "boosted", "forest", "stopping"])
def test_the_dearer_an_interruption_the_earlier_it_submits(models, slices, name):
    decisions = inputs_at(slices[2])
    shares = [models[name].submits(decisions, Cost(ratio, 1)).mean() for ratio in (0.5, 2, 10)]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


@pytest.mark.parametrize("name", ["correction", "boosted", "forest"])
def test_predicted_quantiles_hold_on_later_windows(models, slices, name):
    late = slices[2]
    outcomes_s = models[name].outcomes_s(inputs_at(late))
    assert (np.diff(outcomes_s, axis=1) >= 0).all()
    below = (late.outcome_s[:, None] <= outcomes_s).mean(axis=0)
    assert below[LEVELS.index(0.8)] == pytest.approx(0.8, abs=0.12)


def test_without_a_tree_the_corrected_forecast_is_the_forecast(models, slices):
    decisions = inputs_at(slices[2])
    forecast = models["correction"].forecast
    waits_h = forecast_waits_h(decisions, forecast)
    raw_s = wait_of(guess(waits_h, forecast))
    assert raw_s[:, LEVELS.index(0.5)] == pytest.approx(waits_h[:, 2] * 3600, rel=1e-3, abs=1)
    raw = gain(raw_s - decisions.remaining_s[:, None], decisions.remaining_s, decisions.step_s, Cost()) >= 0
    corrected = models["correction"].submits(decisions, Cost())
    assert mean_cost(corrected, slices[2], Cost()) < mean_cost(raw, slices[2], Cost())  # it promises half of the waits


def test_forecast_columns_are_found_by_their_names():
    names = ("remaining_h", "gap_q80_h", "gap_q05_h", "later_gap_q50_h", "gap_mean_h")
    assert forecast_columns(names) == ("gap_q05_h", "gap_q80_h")
    assert levels_of(("gap_q05_h", "gap_q80_h")) == (0.05, 0.8)
    with pytest.raises(ConfigurationError, match="with forecasts"):
        forecast_columns(("remaining_h",))


def test_trees_as_arrays_reach_the_leaves_that_scikit_learn_reaches():
    from sklearn.ensemble import RandomForestRegressor

    random = np.random.default_rng(0)
    x = random.random((400, 3)).astype(np.float32)
    x[random.random((400, 3)) < 0.1] = np.nan
    y = np.nan_to_num(x).sum(axis=1)
    forest = RandomForestRegressor(6, min_samples_leaf=9, random_state=0).fit(x, y)
    trees = [tree.tree_ for tree in forest.estimators_]
    mine = join_trees([TreeArrays.of(trees[:2]), TreeArrays.of(trees[2:])])
    means = np.concatenate([tree.value[tree.children_left == -1, 0, 0] for tree in trees])
    assert means[mine.leaves(x)].mean(axis=1) == pytest.approx(forest.predict(x))


def test_seven_probes_a_window_evenly_apart():
    data = made_up_hand_overs(2)
    found = probes(data)
    assert len(found) == PROBES * (len(data.windows()) - 1)
    assert found[PROBES - 1] == data.windows()[1] - 1
    assert set(np.diff(found[:PROBES])) <= {3, 4}


@pytest.mark.parametrize(
    ("gap_h", "submits"), [(-0.51, False), (-0.5, True), (0.0, True), (500.0, True), (501.0, False)]
)
def test_as_published_it_submits_between_half_an_hour_before_and_500_hours_after(gap_h, submits):
    one = TreeArrays(*(np.array([v]) for v in (0, -1, 0.0, -1, -1, False, 0)))
    decisions = inputs_at(made_up_hand_overs(1), np.array([3]))
    assert PublishedForest(one, np.array([gap_h])).submits(decisions, Cost(100, 1)).tolist() == [submits]


def test_an_unknown_method_lists_the_known_ones():
    with pytest.raises(UnknownName, match="correction"):
        method_named("corection")


def test_stopping_needs_decisions_near_the_end_of_a_link(slices):
    early = slices[0][slices[0].remaining_s > 2 * HOUR_S]
    with pytest.raises(ConfigurationError, match=r"no decision in the last 2 h of a link, .* smaller --step"):
        METHODS["stopping"].train()(early, slices[1], SETTINGS, StoredSteps(None))


def test_stopping_estimates_what_waiting_costs_more_in_hours(models, slices):
    model, decisions = models["stopping"], inputs_at(slices[2])
    ((name, loss_h),) = model.estimates(decisions).items()
    assert name == "loss_of_waiting_h"
    assert loss_h.tolist() == (2 * model.loss_of_waiting(decisions, Cost())).tolist()
    assert ((loss_h >= 0) == model.submits(decisions, Cost())).all()
    assert 0 < (loss_h >= 0).mean() < 1


def test_forests_of_no_two_seeds_share_a_step():
    states = [random_state(seed, first) for seed in range(45) for first in range(0, 500, BATCH)]
    assert len(set(states)) == len(states)
    assert random_state(4_000_000_007, 0) < 2**32
