"""Rolling origin, and the choice by size of link."""

from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S
from mirage.errors import ConfigurationError
from mirage.learn.dataset.read_data_set import known_by
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import TrainingSettings
from mirage.learn.training.folds import (
    check_folds,
    check_months,
    fold,
    known_until,
    last_months,
    month_begin_s,
    shifted,
    split,
    tune_since_s,
)
from mirage.learn.training.method_choice import choose
from mirage.learn.training.method_trials import RollingOriginPlan, submitted_rows, try_methods
from mirage.learn.training.stored_steps import StoredSteps
from mirage.learn.training.train_policy import try_and_choose
from mirage.learn.training.trained_policy import train_link_size
from mirage.policy.cost import Cost
from mirage.provision.evaluation.oracle import REACTIVE
from mirage.provision.evaluation.paired import Difference
from tests.support.made_up_hand_overs import LIMIT_S, made_up_hand_overs

pytest.importorskip("xgboost", reason="pip install mirage-hpc[learn]")

DATA = made_up_hand_overs(122)
SETTINGS = TrainingSettings(rounds=15, most_rows=2000)
MONTHS = ("2023-03", "2023-04", "2023-05")


def test_nothing_of_a_fold_was_known_later_than_the_month_began():
    found = fold(DATA, "2023-04")
    begin_s = month_begin_s("2023-04")
    tuned_s = tune_since_s(DATA, begin_s)
    assert known_by(found.train, tuned_s).all()
    assert known_by(found.tune, begin_s).all()
    assert found.tune.window_s.min() >= tuned_s
    assert found.test.window_s.min() >= begin_s
    assert found.test.window_s.max() < month_begin_s("2023-05")
    assert begin_s - tuned_s == 59 * DAY_S // 3


def test_months_are_counted():
    assert shifted("2022-12", 1) == "2023-01"
    assert shifted("2023-01", -13) == "2021-12"
    assert last_months(month_begin_s("2023-03") + 1) == ("2022-12", "2023-01", "2023-02")
    with pytest.raises(ConfigurationError, match="2023-03"):
        month_begin_s("March")
    with pytest.raises(ConfigurationError, match="at least 3 months"):
        check_months(["2023-01", "2023-02"])
    with pytest.raises(ConfigurationError, match="each month once"):
        check_months(["2023-01", "2023-02", "2023-03", "2023-02"])


def test_a_choice_uses_only_what_was_known():
    until_s = month_begin_s("2023-05")
    known = known_until(DATA, until_s)
    assert known.next_start_s.max() <= until_s
    assert known.window_s.max() <= until_s - LIMIT_S
    check_folds(known, ["2023-03", "2023-04"])
    with pytest.raises(ConfigurationError, match="2023-05 cannot be a test month: the data have no windows in 2023-05"):
        check_folds(known, ["2023-03", "2023-04", "2023-05"])
    with pytest.raises(ConfigurationError, match="no window of the data is over by 2023-01-01; windows begin 2023-02"):
        known_until(DATA, month_begin_s("2023-01"))


def test_a_month_without_a_past_is_refused():
    with pytest.raises(ConfigurationError, match="to train on"):
        fold(DATA, "2023-02")
    with pytest.raises(ConfigurationError, match="no windows in 2023-06"):
        fold(DATA[DATA.window_s < month_begin_s("2023-06")], "2023-06")
    with pytest.raises(ConfigurationError, match="to tune on"):
        split(DATA, month_begin_s("2023-03"), month_begin_s("2023-03"))


@pytest.mark.parametrize("method", ["correction", "forest", "transformer", "xgboost-2023"])
def test_data_without_a_choice_are_refused(method):
    ends = DATA[DATA.remaining_s == 0]
    for data, tune in ((ends, DATA), (DATA, ends)):
        with pytest.raises(ConfigurationError, match=r"no decision before the end of a link.*--step"):
            train_link_size(method, data, tune, SETTINGS)


def test_a_window_is_submitted_at_the_first_row_that_submits_and_at_its_end_at_the_latest():
    edges = DATA.windows()
    submits = np.zeros(len(DATA), dtype=bool)
    submits[[edges[0] + 3, edges[0] + 5, edges[1] + 1]] = True
    assert submitted_rows(submits, DATA)[:3].tolist() == [edges[0] + 3, edges[1] + 1, edges[3] - 1]


@pytest.fixture(scope="module")
def tried():
    """The correction, against reactive chains in the place of what-if."""
    plan = RollingOriginPlan(("correction",), MONTHS, (Cost(), Cost(3, 1)))
    steps = StoredSteps()
    trials = try_methods(DATA, plan, SETTINGS, steps)
    late = {cost: f"what-if@{cost:g}:1" for cost in (1, 3)}
    played = [replace(t, chosen={key: len(t.episode.decisions_s) - 1 for key in late.values()}) for t in trials]
    return try_and_choose(DATA, plan, {8: played}, SETTINGS, steps), steps


def test_what_is_better_beyond_doubt_is_chosen(tried):
    found, steps = tried
    rows = {(row.policy, row.cost_ratio): row for row in found.evaluation.rows if row.load == "all"}
    assert rows["correction", 1.0].gap_closed > 0.5
    assert rows["what-if", 1.0].cost == rows[REACTIVE, 1.0].cost
    assert found.choices[0].method == "correction"
    assert "beyond doubt" in found.choices[0].reason
    curves = {name.partition("correction/")[2] for name in steps.curves if name.startswith("2023-03/")}
    assert curves == {"trees/train", "trees/tune"}


def test_windows_that_were_played_otherwise_are_refused(tried):
    trials = [t for t in tried[0].evaluation.trials[8] if t.episode.submitted_s >= month_begin_s("2023-05")]
    moved = {
        t.episode.submitted_s: replace(t, episode=replace(t.episode, decisions_s=t.episode.decisions_s + 7))
        for t in trials
    }
    message = (
        r"^window \d+ was played differently from the data: give the trace, machine, discipline and step that the data "
        "were made with$"
    )
    with pytest.raises(ConfigurationError, match=message):
        try_methods(DATA, RollingOriginPlan(("correction",), ("2023-05",)), SETTINGS, StoredSteps(), moved)


def difference(policy, cost, interval, ratio=1.0, p_corrected=0.01):
    none = dict.fromkeys(("interruption_h", "overlap_h"), 0.0)
    return Difference(
        policy, "what-if", 8, "all", "all", ratio, 99, cost, **none,
        cost_95=interval, interruption_95=None, overlap_95=None, p_value=0.01, p_corrected=p_corrected,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("differences", "chosen"),
    [
        ([difference("a", -0.5, (-0.9, 0.1), p_corrected=0.1)], "what-if"),
        ([difference("a", -0.5, (-0.9, -0.1))], "a"),
        ([difference("a", -0.5, (-0.9, -0.1), p_corrected=0.06)], "what-if"),
        ([difference("a", 0.5, (0.1, 0.9))], "what-if"),
        ([difference("a", -0.5, None, p_corrected=None)], "what-if"),
        ([difference("a", -0.5, (-0.9, -0.1)), difference("a", -0.2, (-0.5, 0.1), 3.0, 0.2)], "what-if"),
        ([difference("a", -0.5, (-0.9, -0.1)), difference("b", -0.7, (-0.9, -0.5))], "b"),
        ([], "what-if"),
    ],
)
def test_what_if_is_replaced_only_by_what_is_better_at_every_ratio(differences, chosen):
    assert choose(8, differences, ["a", "b"]).method == chosen


def test_the_data_are_not_changed():
    assert isinstance(DATA, HandOvers)
    assert DATA[:5].outcome_s.tolist() == made_up_hand_overs(122)[:5].outcome_s.tolist()
