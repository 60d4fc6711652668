"""The figures of a card are of windows that a model did not learn from."""

from dataclasses import replace

import pytest

from mirage.duration import DAY_S, HOUR_S
from mirage.learn.regression.model_contract import TrainingSettings
from mirage.learn.training.methods import METHODS
from mirage.learn.training.train_policy import CardDetails, Slices, train_policy
from tests.support.made_up_hand_overs import BEGIN_S, made_up_hand_overs

for package in ("xgboost", "sklearn"):
    pytest.importorskip(package, reason="pip install mirage-hpc[learn]")

DATA = made_up_hand_overs(12)
SLICES = Slices(BEGIN_S + 8 * DAY_S, BEGIN_S + 15 * DAY_S)
SETTINGS = TrainingSettings(rounds=1, trees=1, most_rows=200)  # one round: there is no earlier one to stop at


@pytest.mark.parametrize("method", ["correction", "stopping", "boosted", "forest", "xgboost-2023"])
def test_a_method_that_learns_from_the_tuning_slice_has_no_figures_of_it(method):
    later = DATA.window_s >= SLICES.until_s
    changed = replace(DATA, outcome_s=DATA.outcome_s + 10 * HOUR_S * later)
    one, other = (train_policy({8: method}, data, SLICES, CardDetails("made up"), SETTINGS) for data in (DATA, changed))
    mine, theirs = (policy.parts[8].model.as_arrays() for policy in (one, other))
    learns = any(mine[name].tobytes() != theirs[name].tobytes() for name in mine)
    assert learns is not METHODS[method].tunes
    assert bool(one.figures) is METHODS[method].tunes
