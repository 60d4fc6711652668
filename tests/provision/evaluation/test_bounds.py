"""Bounds: an exact wait found afterwards, true run times played."""

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S, WEEK_S
from mirage.policy.cost import Cost
from mirage.provision.evaluation.candidate import BOUNDS, Candidate, candidates, run_times_s
from mirage.provision.evaluation.evaluate import evaluate
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.policy_score import outcome, score
from mirage.provision.link_size import LinkSize
from mirage.provision.policies.what_if import WhatIf
from mirage.study.intervals import Stretches
from tests.support.made_up_windows import four_windows, trial


def test_an_exact_wait_submits_when_the_link_would_no_longer_come_early():
    found = outcome("exact-wait", four_windows(), Cost())
    assert ((found.interruption_s - found.overlap_s) / HOUR_S).tolist() == [1, 2, 1, 0]
    assert (found.lead_s / HOUR_S).tolist() == [0, 4, 8, 0]
    at_once = outcome("exact-wait", [trial(0, [-2, 0, 3])], Cost())
    assert (at_once.interruption_s.tolist(), at_once.overlap_s.tolist()) == ([0], [0])


def test_it_is_never_played():
    assert [c.policy for c in candidates(["exact-wait", "oracle", "true-run-times", "oracle-holds"], [Cost()])] == [
        "true-run-times"
    ]


def test_run_times_are_those_of_the_simulation(busy_setting):
    requested_s = busy_setting.jobs.jobs.run_s
    assert run_times_s(busy_setting).tolist() == requested_s.tolist()
    assert requested_s.min() >= 600


def test_what_if_gets_the_true_run_times(busy_setting):
    policy = Candidate("true-run-times", Cost(3, 1)).make(busy_setting, 7)
    assert isinstance(policy, WhatIf)
    assert policy.cost == Cost(3, 1)
    assert policy.forecaster.run_times.run_s.tolist() == run_times_s(busy_setting).tolist()


def test_bounds_are_evaluated_like_policies(busy_setting):
    protocol = EvaluationProtocol.warm(0, windows=3, every_s=12 * HOUR_S, step_s=4 * HOUR_S, lead_in_s=DAY_S)
    named = ["reactive", "true-run-times", "exact-wait", "oracle"]
    found = evaluate(busy_setting, protocol, [LinkSize(1, 12 * HOUR_S)], named)
    cost = {row.policy: row.cost for row in found.rows if row.load == "all"}
    assert cost["oracle"] <= min(cost["exact-wait"], cost["true-run-times"])
    assert max(cost["exact-wait"], cost["true-run-times"]) < cost["reactive"]
    assert set(BOUNDS) >= {"exact-wait", "true-run-times"}


def test_true_run_times_weigh_the_cost():
    assert [c.key for c in candidates(["true-run-times"], [Cost(), Cost(3, 1)])] == [
        "true-run-times@1:1",
        "true-run-times@3:1",
    ]
    assert not Candidate("true-run-times").revises


def test_windows_that_are_there_twice_make_nothing_more_certain():
    times_s = np.arange(9) * WEEK_S
    assert Stretches.of(np.repeat(times_s, 3)).length_s == Stretches.of(times_s).length_s
    once = four_windows()
    policies = ["early", "reactive", "exact-wait"]
    rows, twice = (score(trials, policies, [Cost()]) for trials in (once, [*once, *once]))
    for row, again in zip(rows, twice):
        assert (again.windows, again.cost) == (row.windows, pytest.approx(row.cost))
        for name in ("cost_95", "interruption_95", "gap_closed_95"):
            assert np.array_equal(getattr(row, name) is None, getattr(again, name) is None)
            if getattr(row, name) is not None:
                assert getattr(again, name) == pytest.approx(getattr(row, name))
