"""Moments that policies name between decisions: exact, and invisible to others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.policy.contract import PolicySpec
from mirage.policy.cost import Cost
from mirage.policy.plan import Plan, Submit, Wait
from mirage.policy.policy_registry import POLICIES
from mirage.policy.view import View
from mirage.provision.evaluation.candidate import candidates
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.evaluation_protocol import EvaluationProtocol
from mirage.provision.evaluation.evaluation_study import Player, Study, WindowTrial
from mirage.provision.evaluation.oracle import oracle
from mirage.provision.link_size import LinkSize

LINK = LinkSize(2, 12 * HOUR_S)
PLAN = EvaluationProtocol.warm(10 * DAY_S, windows=3, every_s=36 * HOUR_S, step_s=HOUR_S)


class Watcher:
    """Names no moment, never submits, and records its views."""

    views: list[tuple[int, bytes, bytes]]

    def __init__(self) -> None:
        Watcher.views = []

    def decide(self, view: View) -> Plan:
        Watcher.views.append((view.now_s, view.pending.submit_s.tobytes(), view.ended.end_s.tobytes()))
        return Plan((Wait(reason="watching"),))


class Sleeper:
    """Names a moment 2.5 hours ahead, between decisions, and submits the third time."""

    def __init__(self) -> None:
        self.calls_s: list[int] = []

    def decide(self, view: View) -> Plan:
        self.calls_s.append(view.now_s)
        if len(self.calls_s) == 3:
            return Plan((Submit(reason="third"),))
        return Plan((Wait(reason="sleeping", until_s=view.now_s + 150 * MINUTE_S),))


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    for policy in (Watcher, Sleeper):
        spec = PolicySpec(f"{__name__}:{policy.__name__}", "for tests")
        monkeypatch.setitem(POLICIES, f"test-{policy.__name__.lower()}", spec)


@pytest.fixture
def play(busy_setting: Scenario) -> Callable[..., WindowTrial]:
    """Plays one window."""

    def played(*policies: str, window: int = 0) -> WindowTrial:
        study = Study(busy_setting, PLAN, (LINK,), tuple(candidates(list(policies), [Cost()])))
        return Player(study).play(window)[0]

    return played


def leads_s(trial: WindowTrial) -> dict[str, int]:
    return {key: trial.episode.ends_s - int(trial.episode.decisions_s[k]) for key, k in trial.chosen.items()}


def test_a_constant_lead_submits_to_the_second(play: Callable[..., WindowTrial]) -> None:
    trial = play("saia", "sml", "lead:0.7", "lead:0.9999", "lead:4")
    assert leads_s(trial) == {
        "saia": 540, "sml": 3 * HOUR_S, "lead:0.7": 2520, "lead:0.9999": 3599, "lead:4": 4 * HOUR_S
    }  # fmt: skip
    assert (np.diff(trial.episode.decisions_s) > 0).all()
    assert trial.calls["saia"] == 2, "at its first decision, and at the moment that it names"


def test_the_outcome_of_a_moment_is_that_of_submitting_then(
    play: Callable[..., WindowTrial], busy_setting: Scenario
) -> None:
    for window in range(3):
        trial = play("saia", window=window)
        episode = trial.episode
        alone = busy_setting.simulation()
        alone.approach(episode.submitted_s)
        first = alone.inject(nodes=LINK.nodes, limit_s=LINK.limit_s)
        assert alone.run_until_started(first) == episode.started_s
        alone.approach(episode.ends_s - 540)
        following = alone.inject(nodes=LINK.nodes, limit_s=LINK.limit_s)
        assert alone.run_until_started(following) == episode.ends_s + episode.outcome_s[trial.chosen["saia"]]


def test_others_observe_what_they_would_without_them(play: Callable[..., WindowTrial]) -> None:
    for window in range(3):
        alone = play("test-watcher", window=window)
        before = Watcher.views
        together = play("test-watcher", "saia", "test-sleeper", "lead:0.7", window=window)
        assert Watcher.views == before
        assert len(before) == 11
        assert together.calls["test-watcher"] == alone.calls["test-watcher"]
        grid = np.isin(together.episode.decisions_s, alone.episode.decisions_s)
        assert grid.sum() == 12
        assert len(grid) > 12
        assert together.episode.outcome_s[grid].tolist() == alone.episode.outcome_s.tolist()


def test_a_policy_is_called_at_the_moment_it_named_and_not_before(play: Callable[..., WindowTrial]) -> None:
    """First after an hour, then after 3.5 and 6 hours of twelve."""
    trial = play("test-sleeper", "lead:0.7")
    assert leads_s(trial)["test-sleeper"] == 6 * HOUR_S
    assert trial.calls["test-sleeper"] == 3
    elapsed_h = (trial.episode.decisions_s - trial.episode.started_s) / HOUR_S
    assert elapsed_h.tolist() == [1, 2, 3, 3.5, 4, 5, 6, 7, 8, 9, 10, 11, 11.3, 12]


def test_the_oracle_may_take_any_moment_played(play: Callable[..., WindowTrial]) -> None:
    for window in range(3):
        trial = play("saia", "lead:0.7", window=window)
        best = oracle([trial], Cost())
        least_s = np.abs(trial.episode.outcome_s).min()
        assert best.interruption_s[0] + best.overlap_s[0] == least_s


def test_a_lead_that_moves_is_not_chased_by_the_second(play: Callable[..., WindowTrial]) -> None:
    """A moment that moves from decision to decision is not followed without a limit."""
    for window in range(3):
        trial = play("slurm-estimate", "quantile:0.5", window=window)
        assert np.diff(trial.episode.decisions_s)[:-1].min() >= 5 * MINUTE_S
