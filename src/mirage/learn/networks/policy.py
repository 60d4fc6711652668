"""The policy of a trained network: the same object decides in the simulator and on the real cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mirage.learn.hand_overs import Floats32
from mirage.learn.networks.inputs import Look
from mirage.learn.networks.model import NetworkModel
from mirage.policy.contract import Policy
from mirage.policy.cost import Cost
from mirage.policy.plan import Action, Plan, Submit, Wait
from mirage.policy.view import Chain, View
from mirage.provision.policies.rules import chain_of, plan_without_choice


class NetworkPolicy:
    """Submits when the network says so.

    Args:
        model: The trained network.
        looks: What the network sees of a view.
        cost: What an hour of interruption and of overlap costs; one model serves all.
        fallback: Who decides where an input is far outside the training range; without one the network does, and the
            reason says that it guesses.
    """

    def __init__(
        self,
        model: NetworkModel,
        looks: Callable[[View], Look],
        *,
        cost: Cost | None = None,
        fallback: Policy | None = None,
    ) -> None:
        self.model, self.looks, self.fallback = model, looks, fallback
        cost = cost or Cost()
        self._share = cost.interruption / (cost.interruption + cost.overlap)

    def decide(self, view: View) -> Plan:
        """Ask the network, unless there is no choice, it is too early, or the queue is like none it was trained on."""
        chain = chain_of(view)
        if (plan := plan_without_choice(view, chain)) is not None:
            return plan
        remaining_s = chain.ends_s - view.now_s
        if remaining_s > self.model.longest_lead_s:
            until_s = chain.ends_s - self.model.longest_lead_s
            return Plan((Wait(reason="too-early", until_s=until_s),), {"remaining_s": float(remaining_s)})
        look, link = self.looks(view), link_of(view, chain)
        foreign = self.model.scaling.foreign(look, link)
        if foreign is not None and self.fallback is not None:
            return _said_of(self.fallback.decide(view), f"outside-training:input={foreign},then=")
        answer = self.model.answer(look, link, self._share)
        action: Action = Submit(reason="network-submits") if answer.submits else Wait(reason="network-waits")
        plan = Plan((action,), {"remaining_s": float(remaining_s)} | answer.estimate)
        return plan if foreign is None else _said_of(plan, f"outside-training:input={foreign},then=")


def link_of(view: View, chain: Chain) -> Floats32:
    """The four values of ``inputs.OF_THE_LINK`` at a view: remaining, nodes, limit, wait of the present link."""
    waited_s = chain.started_s - chain.submitted_s
    return np.array([chain.ends_s - view.now_s, chain.nodes, chain.limit_s, waited_s], dtype=np.float32)


def _said_of(plan: Plan, before: str) -> Plan:
    """The same plan, with something said before each reason's word."""
    actions = tuple(replace(action, reason=before + action.reason.partition(":")[0]) for action in plan.actions)
    return replace(plan, actions=actions)
