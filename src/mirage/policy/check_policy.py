"""Check of a policy against its contract; run it on your own policy before you plug it in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from itertools import chain as in_turn
from typing import Any

import numpy as np

from mirage.effects import no_effects
from mirage.errors import ConfigurationError, ContractBroken, shown
from mirage.job_state import MISSING
from mirage.policy.contract import Policy, plan_of
from mirage.policy.example_views import example_views, queued_views
from mirage.policy.plan import (
    Cancel,
    Hold,
    Lend,
    Plan,
    Postpone,
    Preempt,
    Reclaim,
    Release,
    Resize,
    Resume,
    Shorten,
    Start,
    Submit,
    Wait,
    Withdraw,
)
from mirage.policy.view import ChainView, View

REVISIONS = (Hold, Postpone, Release, Shorten, Withdraw)
"""What can be done with a queued link."""

KNOWN_ACTIONS = (Cancel, Lend, Preempt, Reclaim, Resize, Resume, Start, Submit, Wait, *REVISIONS)


def check_policy(
    make: Callable[[], Policy], views: Iterable[View] | None = None, *, revises_queued_link: bool = False
) -> None:
    """Call a policy with some views and check its plans.

    Two policies are made and get the same views; the second, which finds all modules loaded, may read no clock, open
    no file and start no process, and gets each view twice. All plans of a view must be equal: a policy is a function of
    the views and of the seed it was made with. Views must not be changed. Every action must be of a known kind and have
    a reason, a plan submits at most one link, and none while the present one is still waiting or the next one is
    queued, and revisions need a queued link.

    Args:
        make: Makes the policy, a new one each time and with the same seed.
        views: The views it gets, in this order; by default a chain from the submission of a link to its end.
        revises_queued_link: Whether the default views include chains whose next link is queued.

    Raises:
        ContractBroken: The first violation found.
        ConfigurationError: ``make`` cannot be called, or there is no view.
    """
    if not callable(make):
        raise ConfigurationError(f"give a class or function that makes the policy, got {shown(make)}")
    if views is None:
        views = in_turn(example_views(), queued_views() if revises_queued_link else ())
    given = list(views)
    if not given:
        raise ConfigurationError("there is no view to check the policy with; give at least one")
    first = _answers(make(), given)
    again = make()
    with no_effects():
        second = _answers(again, [view for view in given for _ in range(2)])
    for view, a, *others in zip(given, first, second[::2], second[1::2]):
        for b in others:
            if repr(a) != repr(b):
                raise ContractBroken(f"given the view of second {view.now_s} twice, the policy plans {a} and then {b}")


def _answers(policy: Policy, views: list[View]) -> list[Plan]:
    if isinstance(policy, type) or not isinstance(policy, Policy):
        raise ContractBroken(f"{policy!r} is not a policy: a policy is an object with decide(view)")
    plans = []
    for view in views:
        before = _contents(view)
        plan = plan_of(policy, view)
        if _contents(view) != before:
            raise ContractBroken(
                f"{type(policy).__name__} changed the view of second {view.now_s}; copy what you change"
            )
        _check_plan(type(policy).__name__, plan, view)
        plans.append(plan)
    return plans


def _check_plan(policy: str, plan: Plan, view: View) -> None:
    for action in plan.actions:
        if type(action) not in KNOWN_ACTIONS:
            names = ", ".join(kind.__name__ for kind in KNOWN_ACTIONS)
            raise ContractBroken(f"{policy} plans {action!r}, which is no known action; known are {names}")
        if not action.reason:
            raise ContractBroken(f"{policy} plans {action!r} without a reason; give one as word or word:key=value,…")
    submits = sum(isinstance(action, Submit) for action in plan.actions)
    if submits > 1:
        raise ContractBroken(
            f"{policy} submits {submits} links in one plan; submit one, and the next when that one runs"
        )
    if submits and view.chain is not None and view.chain.started_s == MISSING:
        raise ContractBroken(
            f"{policy} submits the next link while the present one, job {view.chain.predecessor}, is still waiting; "
            "wait until chain.started_s is known"
        )
    if view.chain is not None:
        _check_revisions(policy, plan, view.chain)
    for name, value in plan.estimate.items():
        if not isinstance(name, str) or not isinstance(value, int | float | np.integer | np.floating):
            raise ContractBroken(f"{policy} estimates {name!r} = {value!r}; estimates map names to numbers")


def _check_revisions(policy: str, plan: Plan, chain: ChainView) -> None:
    revisions = [action for action in plan.actions if isinstance(action, REVISIONS)]
    if chain.queued is None and revisions:
        raise ContractBroken(f"{policy} plans {revisions[0]!r} while no link is queued; check chain.queued first")
    if chain.queued is None:
        return
    if plan.submits and not any(isinstance(action, Withdraw) for action in revisions):
        raise ContractBroken(f"{policy} submits a link while job {chain.queued.job} is queued; withdraw that one first")
    for action in revisions:
        if isinstance(action, Shorten) and not 0 < action.limit_s < chain.queued.limit_s:
            raise ContractBroken(
                f"{policy} shortens job {chain.queued.job} to {action.limit_s} s; its limit is {chain.queued.limit_s} s"
            )


def _contents(value: Any) -> Any:
    """Everything in a view, for comparison."""
    if is_dataclass(value):
        return tuple(_contents(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return value
