"""Plans: what they state for their executors."""

from __future__ import annotations

import pytest

from mirage.policy.plan import Action, Cancel, Lend, Plan, Preempt, Reclaim, Resize, Resume, Start, Submit, Wait


@pytest.mark.parametrize(
    ("actions", "submits"),
    [
        ((), False),
        ((Wait(until_s=5),), False),
        ((Start(1), Resume(2), Cancel(3)), False),
        ((Submit(),), True),
        ((Cancel(3), Submit(reason="now")), True),
    ],
)
def test_a_plan_submits_if_any_of_its_actions_does(actions: tuple[Action, ...], submits: bool) -> None:
    assert Plan(actions).submits is submits


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        (Wait(), "Wait(reason='', until_s=None)"),
        (Start(7, 2, reason="fits"), "Start(reason='fits', job=7, nodes=2, speed=None)"),
        (Resume(7), "Resume(reason='', job=7, nodes=None, speed=None)"),
        (Preempt(7, 30, 60), "Preempt(reason='', job=7, suspend_s=30, resume_s=60)"),
        (Resize(7, 4, 3.5, 9), "Resize(reason='', job=7, nodes=4, speed=3.5, pause_s=9)"),
        (Lend(0, 1), "Lend(reason='', node=0, partition=1)"),
        (Reclaim(0, 1), "Reclaim(reason='', node=0, partition=1)"),
    ],
)
def test_an_action_takes_positional_values_and_shows_all_of_them(action: Action, shown: str) -> None:
    assert repr(action) == shown


@pytest.mark.parametrize("kind", [Submit, Wait, Action])
def test_a_reason_is_given_by_name_only(kind: type[Action]) -> None:
    assert kind(reason="late").reason == "late"
    with pytest.raises(TypeError):
        kind("late", "later")  # type: ignore[misc]


def test_two_plans_do_not_share_their_estimates() -> None:
    first, second = Plan(), Plan()
    first.estimate["wait_s"] = 5.0
    assert second.estimate == {}
