"""A policy on trial: asked at every decision of a window until it submits."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field

import numpy as np

from mirage.policy.contract import Policy
from mirage.policy.plan import Wait
from mirage.policy.registry import known_policies, make_policy
from mirage.policy.view import View
from mirage.provision.chain import Cost
from mirage.provision.evaluation.episode import Scenario

NEVER = -1

ORACLE = "oracle"
"""The best moment in hindsight. It knows every outcome, so that it is found afterwards and never asked."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy by name, and the cost it was told.

    Attributes:
        policy: As ``make_policy`` takes it.
        cost: What it weighs; None where it heeds no cost, and decides alike whatever the cost.
    """

    policy: str
    cost: Cost | None = None

    @property
    def key(self) -> str:
        """Its name in journals."""
        return self.policy if self.cost is None else f"{self.policy}@{self.cost.interruption:g}:{self.cost.overlap:g}"

    def make(self, scenario: Scenario, seed: int) -> Policy:
        """The policy itself, fresh.

        Raises:
            UnknownName: There is no such policy.
            ConfigurationError: Its parameter cannot be used.
        """
        return make_policy(
            self.policy,
            cost=self.cost or Cost(),
            seed=seed,
            discipline=scenario.discipline,
            settings=scenario.settings,
        )


def candidates(policies: list[str], costs: list[Cost]) -> list[Candidate]:
    """Every policy once for each cost it is to weigh; the oracle is none of them."""
    entered: list[Candidate] = []
    for policy in dict.fromkeys(policies):
        if policy == ORACLE:
            continue
        entered += [Candidate(policy, cost) for cost in costs] if heeds_cost(policy) else [Candidate(policy)]
    return entered


def heeds_cost(policy: str) -> bool:
    """Whether a policy weighs costs: its factory has a parameter ``cost``. Unknown ones count as if they did."""
    spec = known_policies().get(policy.partition(":")[0])
    return spec is None or "cost" in inspect.signature(spec.load()).parameters


def window_seed(seed: int, link_nodes: int, window: int) -> int:
    """A policy's seed in one window, the same in whatever order and process windows are played."""
    return int(np.random.SeedSequence([seed, link_nodes, window]).generate_state(1, np.uint64)[0] >> 1)


@dataclass(slots=True)
class WindowRun:
    """A candidate in one window.

    Attributes:
        submitted_s: When it said submit; ``NEVER`` while it has not.
        asked: How often it was asked.
    """

    policy: Policy
    submitted_s: int = NEVER
    asked: int = 0
    _quiet_until_s: int = field(default=NEVER)

    def ask(self, view: View) -> None:
        """Let it decide, unless it has submitted or wants to be left alone."""
        if self.submitted_s != NEVER or view.now_s < self._quiet_until_s:
            return
        plan = self.policy.decide(view)
        self.asked += 1
        if plan.submits:
            self.submitted_s = view.now_s
        self._quiet_until_s = quiet_until_s(plan.actions)


def quiet_until_s(actions: tuple[object, ...]) -> int:
    """When a policy that waits wants to be asked again; ``NEVER`` for at the next decision."""
    times = [action.until_s for action in actions if isinstance(action, Wait) and action.until_s is not None]
    return min(times, default=NEVER)
