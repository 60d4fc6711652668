"""Candidates of an evaluation: policies asked at every decision until they submit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.job_state import Ints
from mirage.policy.contract import Policy, PolicySpec
from mirage.policy.cost import Cost
from mirage.policy.plan import Plan, Wait
from mirage.policy.registry import is_policy_file, known_policies, make_policy, policy_spec
from mirage.policy.settings import PolicySettings
from mirage.policy.view import Chain, View
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.second_thoughts import Followed, follow
from mirage.sim.disciplines.registry import discipline_spec
from mirage.sim.jobs import to_minutes
from mirage.sim.simulation import Simulation

NEVER = -1

ORACLE = "oracle"
"""The best moment in hindsight. It knows every outcome, so that it is found afterwards and never asked."""

ORACLE_HOLDS = "oracle-holds"
"""The same with second thoughts: the link is submitted as early as can be, held, and let go at the best moment."""

EXACT_WAIT = "exact-wait"
"""A link is submitted once it would start no earlier than the present one ends, its wait known to the second; nothing
is known of later."""

TRUE_RUN_TIMES = "true-run-times"
"""``what-if`` that knows how long every job in sight runs; what arrives is still drawn."""

HINDSIGHT = (ORACLE, ORACLE_HOLDS, EXACT_WAIT)
"""Bounds that are read off the outcomes."""

BOUNDS = (*HINDSIGHT, TRUE_RUN_TIMES)
"""What knows more than can be known."""

_KNOWING = PolicySpec(
    "mirage.provision.policies.true_run_times:what_if_with_true_run_times",
    "what-if that knows how long every job in sight runs",
    needs=("cost", "seed", "discipline", "scheduler", "limits"),
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy by name, and the cost it weighs.

    Attributes:
        policy: As ``make_policy`` takes it, or ``true-run-times``.
        cost: What it weighs; None where it weighs none, and decides alike whatever the cost.
    """

    policy: str
    cost: Cost | None = None

    @property
    def key(self) -> str:
        """Its name in journals."""
        return self.policy if self.cost is None else f"{self.policy}@{self.cost.interruption:g}:{self.cost.overlap:g}"

    @property
    def thinks_again(self) -> bool:
        """Whether it is asked on when its link is queued."""
        return self.spec.thinks_again

    @property
    def spec(self) -> PolicySpec:
        """The specification of the policy.

        Raises:
            UnknownName: There is no such policy.
        """
        return _KNOWING if self.policy == TRUE_RUN_TIMES else policy_spec(self.policy)

    def make(self, scenario: Scenario, seed: int) -> Policy:
        """The policy itself, fresh.

        Raises:
            UnknownName: There is no such policy.
            ConfigurationError: Its parameter cannot be used.
        """
        settings = PolicySettings(
            self.cost or Cost(), seed, scenario.discipline, scenario.settings, scenario.cluster.limits
        )
        if self.policy == TRUE_RUN_TIMES:
            needed = {name: getattr(settings, name) for name in _KNOWING.needs}
            return _KNOWING.load()(run_times_s(scenario), **needed)
        return make_policy(self.policy, settings)


def candidates(policies: list[str], costs: list[Cost]) -> list[Candidate]:
    """Every policy once for each cost it is to weigh; bounds in hindsight are none of them."""
    found: list[Candidate] = []
    for policy in dict.fromkeys(policies):
        if policy in HINDSIGHT:
            continue
        found += [Candidate(policy, cost) for cost in costs] if weighs_cost(policy) else [Candidate(policy)]
    return found


def weighs_cost(policy: str) -> bool:
    """Whether a policy says that it needs costs. Unknown ones count as if they did."""
    known = is_policy_file(policy) or policy.partition(":")[0] in known_policies()
    return not known or "cost" in policy_spec(policy).needs


def run_times_s(scenario: Scenario) -> Ints:
    """Shape (jobs,): run times as the simulation has them, by job id."""
    jobs = scenario.jobs.jobs
    if discipline_spec(scenario.discipline).minutes:
        jobs = to_minutes(jobs.copy().view(np.recarray), int(jobs.submit_s[0]) // 60 * 60)
    found: Ints = jobs.run_s
    return found


def window_seed(seed: int, link_nodes: int, submitted_s: int) -> int:
    """A policy's seed in one window, by the moment at which its predecessor is submitted.

    It is the same in whatever order and process windows are played, and in every study that has a window then.
    """
    # SeedSequence takes no negative numbers: two's complement makes one of a trace that begins before zero positive
    return int(np.random.SeedSequence([seed, link_nodes, submitted_s % 2**64]).generate_state(1, np.uint64)[0] >> 1)


@dataclass(slots=True)
class WindowRun:
    """A candidate in one window.

    Attributes:
        submitted_s: When it said submit; ``NEVER`` while it has not.
        asked: How often it was asked.
        named_s: The moment at which it wants to be asked again; ``NEVER`` for at the next decision.
        thinks_again: Whether it is asked on when its link is queued.
        followed: What then became of the link.
        plan: What it said last.
    """

    policy: Policy
    submitted_s: int = NEVER
    asked: int = 0
    named_s: int = NEVER
    thinks_again: bool = False
    followed: Followed | None = None
    plan: Plan | None = None

    def ask(self, view: View) -> int | None:
        """Let it decide if its time has come; the moment at which it wants to be asked again, if it names one."""
        if self._is_due(view):
            plan = self.policy.decide(view)
            self.asked += 1
            if plan.submits:
                self.submitted_s = view.now_s
            self.named_s = NEVER if plan.submits else named_moment_s(plan.actions, view.now_s)
            self.plan = plan
        return None if self.named_s == NEVER else self.named_s

    def look(self, sim: Simulation, chain: Chain) -> None:
        """Follow the link in a fork where it has just been submitted by a policy that thinks again."""
        if self.thinks_again and self.submitted_s == sim.now_s < chain.ends_s:
            assert self.plan is not None
            self.followed = follow(sim.fork(), self.policy, chain, self.plan)

    def _is_due(self, view: View) -> bool:
        """Whether it is to be asked: at the moment it named, and else at the decisions of the protocol only."""
        if self.submitted_s != NEVER:
            return False
        if self.named_s != NEVER:
            return view.now_s >= self.named_s
        chain = view.chain
        assert chain is not None
        return (view.now_s - chain.started_s) % chain.step_s == 0


def named_moment_s(actions: tuple[object, ...], now_s: int) -> int:
    """When a policy that waits wants to be asked again; ``NEVER`` for at the next decision."""
    times = [action.until_s for action in actions if isinstance(action, Wait) and action.until_s is not None]
    return min((time_s for time_s in times if time_s > now_s), default=NEVER)
