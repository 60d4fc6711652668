"""``holds``: ``what-if`` with revisions of queued links.

It submits ahead of time if that insures against a burst, holds the link before it can start too early, and releases it,
with the age it has accumulated, when the futures recommend it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from mirage.duration import MINUTE_S
from mirage.errors import ConfigurationError
from mirage.policy.cost import Cost
from mirage.policy.parameter import COUNT, MODEL, YES_OR_NO, ParameterForm, read_parameters
from mirage.policy.plan import Action, Hold, Plan, Release, Submit, Wait
from mirage.policy.policy_registry import make_policy
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import ChainView, View
from mirage.provision.policies import what_if
from mirage.provision.policies.lead_rules import SOON_S, age_counts, chain_of, plan_without_choice
from mirage.provision.policies.what_if import WhatIf

INSURE = 10.0
"""Factor on the cost of an interruption in the decision whether to submit ahead of time."""

BY = "by"
"""Name of the parameter that selects another rule."""

EARLY_MIN = 10
"""A link is submitted ahead of time only if no future starts it within this many minutes: it would run at once."""


def _times(text: str) -> float:
    value = float(text)
    if not 1 <= value < float("inf"):
        raise ValueError(text)
    return value


PARAMETERS = {
    "bank": YES_OR_NO,
    "insure": ParameterForm("TIMES", _times),
    "early": COUNT,
    BY: MODEL,
    **what_if.PARAMETERS,
}
"""Parameters after the name: ``holds:bank=yes``, ``holds:insure=20:early=5:futures=32``, ``holds:by=./model``."""


@runtime_checkable
class Rule(Protocol):
    """Weighs submitting the next link of a chain now against doing so later.

    Attributes:
        forecasts: Whether it weighs futures of the queue, in which a queued link has its actual age.
    """

    forecasts: bool

    def weighed_at(self, view: View, chain: ChainView, cost: Cost) -> Plan:
        """Plan at a cost: submit now or wait; for a queued link, let it compete or hold it."""
        ...


def holds(parameter: str = "", *, bank_age: bool = False, **needed: Any) -> Holds:
    """Creates ``holds`` from the parameter in its name and the settings that it needs.

    Raises:
        ConfigurationError: The parameter is invalid, or the policy it names does not weigh futures of the queue.
    """
    given = read_parameters("holds", parameter, PARAMETERS)
    if BY in given:
        if idle := sorted(set(given) & set(what_if.PARAMETERS)):
            raise ConfigurationError(
                f"holds:{BY}={given[BY]} decides by that model, and {', '.join(idle)} would only configure what-if; "
                f"give only bank, insure, early and {BY}"
            )
        given[BY] = _rule(given[BY], PolicySettings(**needed))
    return Holds(**({"bank": bank_age} | needed | given))


def _rule(name: str, settings: PolicySettings) -> Rule:
    """Returns the policy by which links are submitted and released."""
    policy = make_policy(name, settings)
    if isinstance(policy, Holds):
        raise ConfigurationError(f"holds:{BY}={name}: that policy revises queued links itself; use it directly")
    if isinstance(policy, Rule) and policy.forecasts:
        return policy
    raise ConfigurationError(
        f"holds:{BY}={name}: this policy does not weigh futures of the queue, so it cannot know what a held link would "
        "do; name the file of a model that does, such as mirage train correction writes"
    )


class Holds(WhatIf):
    """Submits ahead of time, holds, and releases by futures of the link with its actual age.

    A link that may be needed is submitted while it cannot start at once, and held at the next call: nothing starts
    unexpectedly between two decisions, and on Slurm its age grows all the same. From then on the same rule decides when
    it is to compete: that of ``what-if``, or of a trained model. If holding costs a job its age, nothing is submitted
    ahead of time, and a link is held only if it would start so early that its place in the queue is worth less.

    Args:
        bank: Whether the link is submitted as early as possible, only to accumulate age; otherwise only if it would be
            submitted with interruptions ``insure`` times as expensive.
        insure: Factor on the cost of an interruption.
        early: Minutes within which no future may start a link that is submitted ahead of time.
        by: The rule that decides when a link is to compete, such as a trained one; None for that of ``what-if``.
        further: Arguments of ``WhatIf``.
    """

    def __init__(
        self,
        *,
        bank: bool = False,
        insure: float = INSURE,
        early: int = EARLY_MIN,
        by: Rule | None = None,
        **further: Any,
    ) -> None:
        super().__init__(**further)
        self.rule = self if by is None else by
        self.age_retained = self.forecaster.age_survives_hold
        self.bank, self.early_s = bank and self.age_retained, early * MINUTE_S
        self.insured = Cost(self.cost.interruption * insure, self.cost.overlap)

    def decide(self, view: View) -> Plan:
        """Weigh submitting, or letting the queued link compete, against doing so later."""
        chain = chain_of(view)
        if chain.queued is not None:
            return self._of_queued(view, chain)
        if (plan := plan_without_choice(view, chain)) is not None:
            return plan
        plan = self.rule.weighed_at(view, chain, self.cost)
        if not self.age_retained:
            return plan
        if plan.submits:
            return _and_check_soon(plan, plan.actions, view.now_s)
        if not self._starts_soon(view, chain):
            if self.bank:
                return _and_check_soon(plan, (Submit(reason="gathers-age"),), view.now_s)
            if plan.forecast is not None and self.rule.weighed_at(view, chain, self.insured).submits:
                return _and_check_soon(plan, (Submit(reason="may-be-needed"),), view.now_s)
        return replace(plan, actions=(Wait(reason="next-decision"),)) if self.bank else plan

    def _of_queued(self, view: View, chain: ChainView) -> Plan:
        """Let the queued link compete, or hold it; its current state is not requested again."""
        queued = chain.queued
        assert queued is not None
        held = queued.held or queued.begins_s > view.now_s
        if chain.ends_s <= view.now_s:
            return Plan((Release(reason="ended"),) if held else ())
        plan = self.rule.weighed_at(view, chain, self.cost)
        why = plan.actions[0].reason
        actions: tuple[Action, ...] = (Release(reason=why),) if held else (Wait(reason=why),)
        if not plan.submits:
            if not held and self.age_retained and not age_counts(queued, view.now_s):
                return _and_check_soon(plan, (), view.now_s)
            actions = plan.actions if held else (Hold(reason=why), *plan.actions)
        return replace(plan, actions=actions)

    def _starts_soon(self, view: View, chain: ChainView) -> bool:
        """Whether a link submitted now may start before it could be held."""
        return int(self.waits_now(view, chain).min()) <= self.early_s


def _and_check_soon(plan: Plan, actions: tuple[Action, ...], now_s: int) -> Plan:
    """Returns a plan that submits, and checks the link as soon as it is in the queue."""
    return replace(plan, actions=(*actions, Wait(reason="look-soon", until_s=now_s + SOON_S)))
