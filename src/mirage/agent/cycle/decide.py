"""Decisions: policies are asked, and the links they submit are released.

A release clears the dependency of a held job.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from statistics import median

from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import Chain, ChainState, DecisionRecord, Link, LinkState
from mirage.agent.policy_runner import PolicyFailed, PolicyRequest, PolicyRunner
from mirage.errors import SlurmRefused
from mirage.job_state import MISSING
from mirage.policy.plan import Plan, Wait
from mirage.policy.view import Chain as ChainView
from mirage.policy.view import View

log = logging.getLogger("mirage.agent")

ViewOf = Callable[[CycleContext], View]
Due = tuple[Chain, Link, Link]
"""A chain about which to decide, its link that runs, and the one held behind it."""


class Decider:
    """The decider asks policies within a budget of real time, most urgent chains first."""

    def __init__(self, monotonic: Callable[[], float], runner: PolicyRunner) -> None:
        self.monotonic, self.runner = monotonic, runner
        self.options: Mapping[str, str] = {}

    def decide(self, context: CycleContext, view_of: ViewOf) -> int:
        """Decide about every chain that is due; how many decisions there was no time for."""
        due = [found for chain in context.chains.values() if (found := _due(context, chain)) is not None]
        if not due:
            self.runner.rest()
            return 0
        due.sort(key=lambda found: found[1].started_s + found[1].limit_s)
        begun_s = self.monotonic()
        view = view_of(context)
        saw = summary(view)
        made: list[tuple[Due, Plan, str]] = []
        for found in due:
            if made and self.monotonic() - begun_s > context.settings.budget_s:
                break
            made.append((found, *self._decide_one(context, found[0], found[1], view)))
        _release(context, [(chain, waiting) for (chain, _, waiting), plan, _ in made if plan.submits])
        for (chain, _, _), plan, _ in made:
            if not plan.submits:
                _schedule_next_look(context, chain, plan)
        records = [
            DecisionRecord(
                chain.id,
                present.number,
                context.now_s,
                chain.spec.policy,
                plan.submits,
                reason,
                dict(plan.estimate),
                saw,
            )
            for (chain, present, _), plan, reason in made
        ]
        context.store.add_decisions(records)
        if put_off := len(due) - len(made):
            log.warning("decisions put off", extra={"count": put_off})
        return put_off

    def _decide_one(self, context: CycleContext, chain: Chain, present: Link, view: View) -> tuple[Plan, str]:
        """The plan of a policy with its reason; an empty plan where it fails."""
        spec = chain.spec
        request = PolicyRequest(spec.policy, spec.interruption_cost, spec.overlap_cost)
        try:
            plan = self.runner.decide(request, self.options, view, _chain_view(context, chain, present, view))
        except PolicyFailed as error:
            log.exception("policy failed", extra={"chain": chain.name})
            return Plan(), f"policy-failed:{error}"
        return plan, "; ".join(action.reason for action in plan.actions if action.reason)


def _due(context: CycleContext, chain: Chain) -> Due | None:
    """The chain with the link that runs and the one held behind it, if a decision is due.

    While two run, a hand-over is under way: a third is not let loose before that is over.
    """
    if chain.state is not ChainState.ACTIVE:
        return None
    running, held = context.of(chain, LinkState.RUNNING), context.of(chain, LinkState.HELD)
    if len(running) != 1 or not held or MISSING in (running[-1].limit_s, held[-1].job):
        return None
    if running[-1].job not in context.snapshot.by_id:
        return None
    asleep = context.now_s < chain.next_look_s <= context.now_s + context.settings.longest_sleep_s
    return None if asleep else (chain, running[-1], held[-1])


def _release(context: CycleContext, links: list[tuple[Chain, Link]]) -> None:
    """Release links, all by one command where none is refused; twice changes nothing."""
    if not links:
        return
    refused: dict[int, SlurmRefused] = {}
    try:
        context.backend.update([link.job for _, link in links], _FREE)
    except SlurmRefused as error:
        refused = {links[0][1].job: error} if len(links) == 1 else _release_each(context, links)
    for chain, link in links:
        if (why := refused.get(link.job)) is not None:
            context.change_link(link, context.event(chain.id, link.number, "release-refused", str(why)))
            context.change_chain(chain, next_look_s=context.now_s + context.settings.decide_s)
        else:
            event = context.event(chain.id, link.number, "released", f"job {link.job}: its dependency is cleared")
            context.change_link(link, event, state=LinkState.QUEUED, released_s=context.now_s)


def _release_each(context: CycleContext, links: list[tuple[Chain, Link]]) -> dict[int, SlurmRefused]:
    """The refusals by job, after each link is released on its own."""
    refused: dict[int, SlurmRefused] = {}
    for _, link in links:
        try:
            context.backend.update(link.job, _FREE)
        except SlurmRefused as error:
            refused[link.job] = error
    return refused


def _schedule_next_look(context: CycleContext, chain: Chain, plan: Plan) -> None:
    until_s = [action.until_s for action in plan.actions if isinstance(action, Wait) and action.until_s is not None]
    latest_s = context.now_s + context.settings.longest_sleep_s
    next_look_s = min(max([context.now_s + context.settings.decide_s, *until_s]), latest_s)
    context.change_chain(chain, next_look_s=next_look_s)


_FREE = {"Dependency": ""}
_FROM_JOB = ("user", "partition", "gpus", "cpus")


def _chain_view(context: CycleContext, chain: Chain, present: Link, view: View) -> ChainView:
    """The chain as its policy sees it.

    The running link ends, for the policy, when the next must be *ready*, not started.
    """
    job = context.snapshot.by_id[present.job]
    mine = view.running.id == present.job
    ends_s = present.started_s + present.limit_s - load_time_s(context, chain)
    held = {name: int(getattr(view.running, name)[mine][0]) for name in _FROM_JOB} if mine.any() else {}
    return ChainView(
        nodes=job.nodes,
        limit_s=present.limit_s,
        predecessor=present.job,
        submitted_s=present.submitted_s,
        started_s=present.started_s,
        ends_s=max(ends_s, present.started_s),
        step_s=context.settings.decide_s,
        **held,
    )


def load_time_s(context: CycleContext, chain: Chain) -> int:
    """The load time of a link: as the user says, else as earlier links took."""
    if not chain.spec.ready_command:
        return chain.spec.warmup_s
    took = [x.ready_s - x.started_s for x in context.links.get(chain.id, ()) if MISSING not in (x.ready_s, x.started_s)]
    return int(median(took)) if took else chain.spec.warmup_s


def summary(view: View) -> dict[str, float]:
    """The numbers that a decision saw, which a person can check against squeue."""
    free = view.nodes.free[:, 0].sum() if view.nodes.pools else (view.nodes.free >= view.nodes.capacity).all(1).sum()
    return {
        "pending_jobs": float(len(view.pending)),
        "pending_nodes": float(view.pending.nodes.sum()),
        "running_jobs": float(len(view.running)),
        "running_nodes": float(view.running.nodes.sum()),
        "free_nodes": float(free),
        "nodes": float(view.nodes.total),
    }
