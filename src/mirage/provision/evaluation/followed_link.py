"""Revisions in an evaluation: a submitted link is simulated separately until it starts.

A queued link changes the queue, and each policy revises it differently, so no table of outcomes can hold the results.
The replay is forked when the policy submits, the link is injected there, and the policy is then called with the link in
view.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mirage.duration import DAY_S
from mirage.errors import PlanInfeasible
from mirage.policy.contract import Policy, plan_of
from mirage.policy.plan import Hold, Plan, Postpone, Release, Shorten, Submit, Wait, Withdraw
from mirage.policy.view import ChainView
from mirage.provision.policies.lead_rules import SOON_S
from mirage.sim.job_updates import queued_link, revise_queued_link
from mirage.sim.simulation import Simulation

PATIENCE_S = 60 * DAY_S
"""A link that has not started after this long never will: a job of the trace blocks the queue permanently."""

NO_JOB = -1
_REVISIONS = (Hold, Postpone, Release, Shorten, Withdraw)


@dataclass(frozen=True, slots=True)
class Followed:
    """History of a queued link under a policy that revises.

    Attributes:
        submitted_s: When the link was first submitted.
        outcome_s: Start of the next link minus end of the last.
        calls: Number of calls of the policy after that.
        revisions: Number of revisions of the link: holds, releases and the like.
        lost_s: How much shorter the time limit of the link was, when it started, than that of the others.
    """

    submitted_s: int
    outcome_s: int
    calls: int
    revisions: int
    lost_s: int = 0


def follow(sim: Simulation, policy: Policy, chain: ChainView, plan: Plan) -> Followed:
    """Simulate from a submission until the next link has started.

    The policy is called at every decision, or at the time that it requests. When the present link ends, a held link is
    released and a withdrawn one is submitted again, whatever the policy plans: a chain is never lost.

    Args:
        sim: Is just before the decision; it is consumed.
        plan: The policy's plan at that time, including a submission.

    Raises:
        PlanInfeasible: The policy's plan cannot be carried out.
    """
    link = _FollowedLink(sim, chain)
    submitted_s, calls = sim.now_s, 0
    while True:
        link.do(plan)
        call_s = next_call_s(plan, chain, sim.now_s)
        start_s = link.start_before(call_s)
        if start_s is not None:
            break
        if call_s >= chain.ends_s:
            start_s = link.start_at_last()
            break
        plan = plan_of(policy, sim.view(link.chain()))
        calls += 1
    return Followed(submitted_s, start_s - chain.ends_s, calls, link.revisions, chain.limit_s - link.limit_s)


def next_call_s(plan: Plan, chain: ChainView, now_s: int) -> int:
    """Next call of a policy: when it requests, otherwise at the next decision or the end."""
    named_s = [action.until_s for action in plan.actions if isinstance(action, Wait) and action.until_s is not None]
    step_s = now_s + chain.step_s - (now_s - chain.started_s) % chain.step_s
    return min(min((time_s for time_s in named_s if time_s > now_s), default=step_s), chain.ends_s)


class _FollowedLink:
    """The next link of a chain in its own simulation.

    Attributes:
        job: Its id; ``NO_JOB`` while none is queued.
        limit_s: Its time limit.
        revisions: Number of revisions.
    """

    def __init__(self, sim: Simulation, chain: ChainView) -> None:
        self.sim, self.present = sim, chain
        self.job, self.limit_s, self.revisions = NO_JOB, chain.limit_s, 0

    def chain(self) -> ChainView:
        """Returns the chain as the policy observes it."""
        return self.present if self.job == NO_JOB else replace(self.present, queued=queued_link(self.sim, self.job))

    def do(self, plan: Plan) -> None:
        """Carry out a plan."""
        for action in plan.actions:
            if isinstance(action, Submit):
                self._submit()
            elif isinstance(action, _REVISIONS):
                revise_queued_link(self.sim, self.job, action)
                self.revisions += 1
                if isinstance(action, Withdraw):
                    self.job = NO_JOB
                if isinstance(action, Shorten):
                    self.limit_s = action.limit_s

    def start_before(self, time_s: int) -> int | None:
        """Start of the link if before a time; otherwise None, with the simulation just before it."""
        start_s = None
        if self.job != NO_JOB:
            self.sim.watch(self.job)
            start_s = self.sim.run_until_started(self.job, time_s - 1)
        self.sim.approach(time_s)
        return start_s

    def start_at_last(self) -> int:
        """Start of the link after the present one has ended."""
        if self.job == NO_JOB:
            self._submit()
        else:
            revise_queued_link(self.sim, self.job, Release())
        start_s = self.start_before(self.sim.now_s + PATIENCE_S)
        return self.sim.now_s if start_s is None else start_s

    def _submit(self) -> None:
        if self.job != NO_JOB:
            raise PlanInfeasible(f"a link is submitted while job {self.job} is queued; withdraw that one first")
        self.limit_s = self.present.limit_s
        chain = self.present
        self.job = self.sim.inject(nodes=chain.nodes, limit_s=chain.limit_s, user=chain.user, watched=False)


class BankedLink:
    """A link submitted as early as possible without starting, held at once, and released.

    The release is tried at every decision in turn. With hindsight the best of these times is a bound on what revisions
    can achieve in a hand-over, including accumulated age.

    Attributes:
        outcome_s: Start of the next link minus end of the last, for every decision that was tried; where no link could
            be held yet, that of a link submitted then.
    """

    def __init__(self) -> None:
        self.outcome_s: list[int] = []
        self._held: tuple[Simulation, int] | None = None

    def on_decision(self, sim: Simulation, chain: ChainView) -> None:
        """Try a decision; they come in order of time."""
        now_s = sim.now_s
        if self._held is None:
            branch = sim.fork()
            job = branch.inject(nodes=chain.nodes, limit_s=chain.limit_s, user=chain.user)
            start_s = branch.run_until_started(job, now_s + PATIENCE_S)
            if now_s + SOON_S < chain.ends_s and (start_s is None or start_s > now_s + SOON_S):
                self._held = _submitted_and_held(sim.fork(), chain)
        else:
            held, job = self._held
            held.approach(now_s)
            branch = held.fork()
            revise_queued_link(branch, job, Release())
            branch.watch(job)
            start_s = branch.run_until_started(job, now_s + PATIENCE_S)
        self.outcome_s.append((now_s + PATIENCE_S if start_s is None else start_s) - chain.ends_s)


def _submitted_and_held(sim: Simulation, chain: ChainView) -> tuple[Simulation, int]:
    job = sim.inject(nodes=chain.nodes, limit_s=chain.limit_s, user=chain.user, watched=False)
    sim.advance(sim.now_s + SOON_S)
    revise_queued_link(sim, job, Hold())
    return sim, job
