"""Candidates of an evaluation: policies called at every decision until they submit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from mirage.array_types import Ints
from mirage.errors import ConfigurationError, UnknownName, shown
from mirage.policy.auto_parameters import AUTO, AutoParameters, without_other_jobs
from mirage.policy.contract import Policy, PolicySpec, plan_of
from mirage.policy.cost import Cost
from mirage.policy.plan import Plan, Wait
from mirage.policy.policy_registry import is_policy_file, known_policies, make_policy, policy_spec
from mirage.policy.policy_settings import PolicySettings
from mirage.policy.view import ChainView, View
from mirage.provision.evaluation.episode import Scenario
from mirage.provision.evaluation.followed_link import Followed, follow
from mirage.registry import plug_ins
from mirage.sim.disciplines.discipline_registry import discipline_spec
from mirage.sim.simulation import Simulation
from mirage.sim.workload import to_minutes

NEVER = -1

ORACLE = "oracle"
"""The best time in hindsight. It needs all outcomes, so it is computed afterwards and never called."""

ORACLE_HOLDS = "oracle-holds"
"""The best in hindsight with revisions: the link is submitted as early as possible, held, and released at the best
time."""

EXACT_WAIT = "exact-wait"
"""A link is submitted once it would start no earlier than the present one ends. Its wait is known to the second;
nothing is known about later submissions."""

TRUE_RUN_TIMES = "true-run-times"
"""``what-if`` with the true run times of all jobs in view; arrivals are still drawn."""

HINDSIGHT = (ORACLE, ORACLE_HOLDS, EXACT_WAIT)
"""Bounds that are computed from the outcomes."""

BOUNDS = (*HINDSIGHT, TRUE_RUN_TIMES)
"""Candidates with more knowledge than a real policy can have."""

_KNOWING = PolicySpec(
    "mirage.provision.policies.what_if:what_if_with_true_run_times",
    "what-if with the true run times of all jobs in view",
    needs=("cost", "seed", "discipline", "scheduler", "limits"),
    estimates_for_slurm=True,  # it knows more than any user, so also the jobs of others
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy by name, and the cost it weighs.

    Attributes:
        policy: A name for ``make_policy``, or ``true-run-times``.
        cost: The cost it weighs; None if it weighs none and decides alike at any cost.
        private: Whether it sees only the jobs of its user, as with ``PrivateData=jobs``.
    """

    policy: str
    cost: Cost | None = None
    private: bool = False

    @property
    def key(self) -> str:
        """Its name in journals."""
        return self.policy if self.cost is None else f"{self.policy}@{self.cost.interruption:g}:{self.cost.overlap:g}"

    @property
    def called(self) -> str:
        """The policy that decides: another one for ``auto`` where jobs are hidden."""
        return without_other_jobs(self.policy) if self.private else self.policy

    @property
    def members(self) -> tuple[str, ...]:
        """The policies that it chooses from; empty for a policy that decides itself."""
        base, _, parameter = self.called.partition(":")
        return AutoParameters.of(parameter).members if base == AUTO and not is_policy_file(self.called) else ()

    @property
    def revises(self) -> bool:
        """Whether it is also called while its link is queued."""
        return self.spec.revises_queued_link

    @property
    def spec(self) -> PolicySpec:
        """Specification of the policy.

        Raises:
            UnknownName: The policy is unknown.
            ConfigurationError: A bound has a parameter.
        """
        if self.policy == TRUE_RUN_TIMES:
            return _KNOWING
        base, _, parameter = self.called.partition(":")
        if base in BOUNDS and base not in known_policies():
            raise ConfigurationError(f"the bound {base!r} takes no parameter, got {shown(parameter)}")
        try:
            return policy_spec(self.called)
        except UnknownName as error:
            raise UnknownName(error.kind, error.name, {*error.known, *BOUNDS}) from None

    def make(self, scenario: Scenario, seed: int) -> Policy:
        """Returns a new instance of the policy.

        Raises:
            UnknownName: The policy is unknown.
            ConfigurationError: Its parameter is invalid.
        """
        spec, settings = self.spec, settings_in(scenario, self.cost, seed)
        if self.policy == TRUE_RUN_TIMES:
            needed = {name: getattr(settings, name) for name in spec.needs}
            return spec.load()(run_times_s(scenario), **needed)
        policy = make_policy(self.called, settings)
        return OwnJobsOnly(policy) if self.private and not spec.estimates_for_slurm else policy


class OwnJobsOnly:
    """A policy that sees only the jobs of the chain's user."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def decide(self, view: View) -> Plan:
        """Decide by a view without the jobs of others."""
        return plan_of(self.policy, view if view.chain is None else view.of_user(view.chain.user))


def settings_in(scenario: Scenario, cost: Cost | None = None, seed: int = 0) -> PolicySettings:
    """Returns the settings of a policy that decides in a scenario."""
    return PolicySettings(cost or Cost(), seed, scenario.discipline, scenario.settings, scenario.cluster.limits)


def candidates(policies: list[str], costs: list[Cost], *, private: bool = False) -> list[Candidate]:
    """Returns every policy once for each cost it weighs, without bounds in hindsight.

    A policy that chooses among others is followed by these.

    Args:
        private: Whether they see only the jobs of their user.
    """
    found: dict[Candidate, None] = {}
    for policy in dict.fromkeys(policies):
        for name in (policy, *Candidate(policy, private=private).members):
            found |= dict.fromkeys(replace(one, private=private) for one in each_cost(name, costs))
    return [one for one in found if one.policy not in HINDSIGHT]


def each_cost(policy: str, costs: Iterable[Cost]) -> list[Candidate]:
    """Returns a policy once for each cost that it weighs."""
    return [Candidate(policy, cost) for cost in costs] if weighs_cost(policy) else [Candidate(policy)]


def weighs_cost(policy: str) -> bool:
    """Whether a policy declares that it needs costs. Unknown policies count as if they did.

    Raises:
        ConfigurationError: The policy cannot be loaded, or is a bound and a package declares one of its name.
    """
    for point in plug_ins("mirage.policies"):
        if point.name == policy in BOUNDS:
            raise ConfigurationError(
                f"the policy {policy!r} is there twice: a bound (built in) and {point.value}; "
                f"uninstall the package {point.package}"
            )
    known = is_policy_file(policy) or policy.partition(":")[0] in known_policies()
    return not known or "cost" in policy_spec(policy).needs


def run_times_s(scenario: Scenario) -> Ints:
    """Run times in the simulation, by job id, shape (jobs,)."""
    jobs = scenario.jobs.jobs
    if discipline_spec(scenario.discipline).minutes:
        jobs = to_minutes(jobs.copy().view(np.recarray), int(jobs.submit_s[0]) // 60 * 60)
    found: Ints = jobs.run_s
    return found


def window_seed(seed: int, link_nodes: int, submitted_s: int) -> int:
    """A policy's seed in one window, from the time at which its predecessor is submitted.

    It does not depend on the order or process in which windows are played, nor on the study that has the window.
    """
    # SeedSequence takes no negative numbers: two's complement makes those of a trace that begins before zero positive
    return int(np.random.SeedSequence([seed, link_nodes, submitted_s % 2**64]).generate_state(1, np.uint64)[0]) >> 1


@dataclass(slots=True)
class WindowRun:
    """A candidate in one window.

    Attributes:
        submitted_s: When it submitted; ``NEVER`` while it has not.
        calls: Number of its calls.
        named_s: When it wants to be called again; ``NEVER`` for the next decision.
        revises: Whether it is also called while its link is queued.
        followed: What happened to the link afterwards.
        plan: Its latest plan.
    """

    policy: Policy
    submitted_s: int = NEVER
    calls: int = 0
    named_s: int = NEVER
    revises: bool = False
    followed: Followed | None = None
    plan: Plan | None = None

    def on_view(self, view: View) -> int | None:
        """Let it decide if it is due; returns the time at which it wants the next call, if any."""
        if self._is_due(view):
            plan = plan_of(self.policy, view)
            self.calls += 1
            if plan.submits:
                self.submitted_s = view.now_s
            self.named_s = NEVER if plan.submits else named_moment_s(plan.actions, view.now_s)
            self.plan = plan
        return None if self.named_s == NEVER else self.named_s

    def on_decision(self, sim: Simulation, chain: ChainView) -> None:
        """Follow the link in a fork if a policy that revises has just submitted it."""
        if self.revises and self.submitted_s == sim.now_s < chain.ends_s:
            assert self.plan is not None
            self.followed = follow(sim.fork(), self.policy, chain, self.plan)

    def _is_due(self, view: View) -> bool:
        """Whether it is due: at the time that it requested, otherwise at protocol decisions."""
        if self.submitted_s != NEVER:
            return False
        if self.named_s != NEVER:
            return view.now_s >= self.named_s
        chain = view.chain
        assert chain is not None
        return (view.now_s - chain.started_s) % chain.step_s == 0


def named_moment_s(actions: tuple[object, ...], now_s: int) -> int:
    """When a waiting policy wants to be called again; ``NEVER`` for the next decision."""
    times = [action.until_s for action in actions if isinstance(action, Wait) and action.until_s is not None]
    return min((time_s for time_s in times if time_s > now_s), default=NEVER)
