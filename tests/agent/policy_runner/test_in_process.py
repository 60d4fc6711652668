"""Policies that run in this process: the plans that an evaluation judges."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mirage.agent.policy_runner.in_process import InProcess
from mirage.agent.policy_runner.question import Answer, Question
from mirage.duration import HOUR_S
from mirage.lab.virtual.virtual_slurm import VirtualSlurm
from mirage.policy.cost import Cost
from mirage.policy.plan import Plan, Wait
from mirage.policy.view import View
from mirage.provision.evaluation.candidate import Candidate
from mirage.provision.evaluation.episode import Scenario
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

Requested, Answered = Callable[..., Question], Callable[..., Answer]


@pytest.mark.parametrize("name", ["what-if:8", "what-if:8:tie=0:quick=no", "slurm-estimate", "average", "lead:2"])
def test_the_policy_that_runs_is_the_one_that_an_evaluation_judges(
    slurm: VirtualSlurm, observed: View, question: Requested, answer: Answered, name: str
) -> None:
    scheduler = SlurmSettings.from_options(slurm.configuration(), "scontrol show config")
    scenario = Scenario(slurm.sim.cluster, slurm.sim.workload, "slurm", scheduler)
    judged = Candidate(name, Cost(3, 1)).make(scenario, seed=0)
    runner, reasons = InProcess(), []
    for left_s in (600, HOUR_S, 2 * HOUR_S, 4 * HOUR_S, 7 * HOUR_S):
        requested = question(name, left_s=left_s, cost=3.0)
        requested = replace(requested, form=replace(requested.form, nodes=4))
        plan = answer(runner, requested).plan
        assert plan == judged.decide(replace(observed, chain=requested.form))
        reasons.append(plan.actions[0].reason)
    assert ("too-late-even-now" in reasons) == (name == "what-if:8")


def test_a_policy_is_made_anew_when_the_scheduler_is_set_otherwise(question: Requested, answer: Answered) -> None:
    runner = InProcess()
    changes: list[dict[str, Any]] = [{}, {}, {"schedulerparameters": "bf_interval=60"}, {}]
    for changed in changes:
        answer(runner, question("what-if:2"), **changed)
    intervals = [policy.forecaster.scheduler.bf_interval_s for policy in runner.policies.values()]  # type: ignore[attr-defined]
    assert len(intervals) == 2
    assert intervals[1] == 60 != intervals[0]


def test_what_a_policy_raises_is_reported_and_the_next_is_queried(observed: View, question: Requested) -> None:
    runner = InProcess()
    runner.request([question("nonsense", 7, 3), question("reactive", 8, 4)], {}, observed)
    failed, fine = runner.answers(0)
    assert (failed.chain, failed.number, failed.plan) == (7, 3, None)
    assert failed.failure.startswith("UnknownName: unknown policy 'nonsense'")
    assert (fine.chain, fine.number, fine.failure) == (8, 4, "")
    assert fine.plan is not None
    assert fine.plan.actions
    assert runner.answers(0) == [], "each answer is given once"
    assert runner.excuse() == ""


class Odd:
    """A plug-in that returns what it was made with, or raises it."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def decide(self, view: View) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def given(monkeypatch: pytest.MonkeyPatch, odd: Any, observed: View, requested: Question) -> Answer:
    monkeypatch.setattr("mirage.agent.policy_runner.in_process.make_policy", lambda *_: Odd(odd))
    runner = InProcess()
    runner.request([requested], {}, observed)
    (found,) = runner.answers(0)
    return found


@pytest.mark.parametrize(
    ("odd", "failure"),
    [
        (RuntimeError("out of luck"), "RuntimeError: out of luck"),
        (AssertionError(), "AssertionError: "),
        (None, "TypeError: it decided on 'NoneType', which is no Plan"),
        ([Wait()], "TypeError: it decided on 'list', which is no Plan"),
        (Plan((Wait(),), {"lead_s": "an hour"}), "ValueError: could not convert string to float: 'an hour'"),
    ],
)
def test_whatever_a_plug_in_does_is_a_failure_in_words(
    monkeypatch: pytest.MonkeyPatch, observed: View, question: Requested, odd: Any, failure: str
) -> None:
    assert given(monkeypatch, odd, observed, question("reactive", 7, 3)) == Answer(7, None, failure, 3)


def test_estimates_are_plain_numbers_that_a_store_can_store(
    monkeypatch: pytest.MonkeyPatch, observed: View, question: Requested
) -> None:
    plan = Plan((Wait(),), {"lead_s": np.int64(3_600), "chance": np.float32(0.5)})
    found = given(monkeypatch, plan, observed, question("reactive")).plan
    assert found is not None
    assert json.loads(json.dumps(found.estimate)) == {"lead_s": 3_600.0, "chance": 0.5}
