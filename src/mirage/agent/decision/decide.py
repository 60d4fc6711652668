"""Decisions: requests to policies, which do not block, and the execution of their plans.

An answer counts while its view is fresh and the chain's links are in the same state. Where no answer comes in time, or
a policy fails, the fall-back decides, and the record contains the reason. A policy that revises queued links is called
as long as its link is queued; other policies are called until they release it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache

from mirage.agent.chain.spec_check import AT_THE_END
from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.retries import clock_of
from mirage.agent.decision.fallback import (
    DISTRUSTED,
    FALL_BACK,
    OWN_WAITS,
    braked,
    by_own_waits,
    decide_by_recent_waits,
    earliest_release_s,
)
from mirage.agent.decision.link_sizing import LinkSizing
from mirage.agent.decision.open_decision import (
    RevisingPolicies,
    Undecided,
    chain_view,
    leaving_node,
    summary,
    undecided,
)
from mirage.agent.decision.revision import AWAY, FREE, WITHDRAW, begin_time, revise_queued_link
from mirage.agent.model import Chain, DecisionRecord, Link, LinkState
from mirage.agent.monitoring.cpu_budget import CpuBudget
from mirage.agent.policy_runner.question import Answer, PolicyRequest, PolicyRunner, Question
from mirage.errors import SlurmRefused, SlurmUnreachable
from mirage.job_state import MISSING
from mirage.policy.auto_parameters import AUTO, without_other_jobs
from mirage.policy.plan import Plan, Release, Submit, Wait
from mirage.policy.policy_choice import PolicyChoice
from mirage.policy.view import View

log = logging.getLogger("mirage.agent")

NODE_STATE = "node-state"
"""Recorded in place of a policy where the state of a node decides."""

ViewOf = Callable[[CycleContext], View]


@dataclass(slots=True)
class OpenQuestion:
    """A question without an answer.

    Attributes:
        number: Of the question.
        about: The links it is about.
        requested_s: Time of the question on the cluster's clock.
        since_s: Real time of the question, or of the fall-back's last decision.
        view_summary: Summary of the view.
    """

    number: int
    about: tuple[int, int, bool, int]
    requested_s: int
    since_s: float
    view_summary: dict[str, float]


@dataclass(frozen=True, slots=True)
class ChainDecision:
    """A decision about a chain.

    Attributes:
        view_s: When its view was taken, on the cluster's clock.
        from_s: The time from which the released link may start; ``MISSING`` for at once.
    """

    chain: Chain
    case: Undecided
    plan: Plan
    reason: str
    policy: str
    view_summary: dict[str, float]
    view_s: int
    from_s: int = MISSING

    @property
    def submits(self) -> bool:
        """Whether the plan releases a link for the first time."""
        return self.plan.submits and self.case.queued is None


class Decider:
    """The decider requests decisions from policies, most urgent chains first.

    Args:
        real_s: Real seconds that only grow.
        budget: Budget of processor time for questions; None for none.
        sizing: Sizes a link before a reservation as it is released; None for never.
    """

    def __init__(
        self,
        real_s: Callable[[], float],
        runner: PolicyRunner,
        budget: CpuBudget | None = None,
        sizing: LinkSizing | None = None,
    ) -> None:
        self.real_s, self.runner, self.budget, self.sizing = real_s, runner, budget, sizing
        self.options: Mapping[str, str] = {}
        self.hidden = ""
        self.open: dict[int, OpenQuestion] = {}
        self.failing: dict[int, str] = {}
        self.refused: dict[int, tuple[int, str]] = {}  # by chain: the job of the refused link, and the trouble
        self.revising = RevisingPolicies()
        self.choices: dict[int, PolicyChoice] = {}
        self.last_number = 0

    def trouble(self, chain: int) -> str:
        """The problem with decisions about a chain, as text; empty for none."""
        return self.refused[chain][1] if chain in self.refused else self.failing.get(chain, "")

    def deciding(self, chain: Chain) -> str:
        """The policy that decides about a chain: its own, or the one that ``auto`` chose last."""
        choice = self.choices.get(chain.id) if chain.spec.policy.partition(":")[0] == AUTO else None
        return chain.spec.policy if choice is None else choice.policy

    def revises(self, chain: Chain) -> bool:
        """Whether the policy that decides about a chain revises queued links."""
        return self.revising.has(self.deciding(chain))

    def decide(self, context: CycleContext, view_of: ViewOf, attended: Collection[int]) -> int:
        """Query policies about each chain that is due, and execute the plans that came.

        Returns the number of questions without an answer.

        Args:
            attended: Chains with a turn in this cycle.
        """
        view = cache(lambda: view_of(context))
        cases = ((chain.id, undecided(context, chain, self.revising)) for chain in context.chains.values())
        open_cases = {chain: case for chain, case in cases if case is not None}
        made = self._leave_nodes(context, open_cases, attended)
        self.open = {chain: question for chain, question in self.open.items() if chain in open_cases}
        jobs = {chain: case.waiting.job for chain, case in open_cases.items()}
        self.refused = {chain: (job, why) for chain, (job, why) in self.refused.items() if job == jobs.get(chain)}
        answers = self.runner.answers(0.0) if self.open else []
        answered = {answer.chain for answer in answers}
        due = [c for c in open_cases if c in attended and c not in self.open and c not in answered]
        due = [c for c in due if _is_due(context, context.chains[c])]
        due.sort(key=lambda chain: open_cases[chain].present.limit_ends_s)
        if due and self.budget is not None:
            due = due[: self.budget.affordable(len(due))]
            self.budget.begin(len(due))
        if due:
            self._request(context, due, open_cases, view())
        if set(self.open) - answered:
            answers += self.runner.answers(context.settings.wait_for_answers_s)
        made += [one for answer in answers if (one := self._answered(context, answer, open_cases, view)) is not None]
        made += self._without_answer(context, open_cases, view)
        self._act(context, made)
        if not self.open:
            if self.budget is not None:
                self.budget.end()
            self.runner.rest()
        return len(self.open)

    def _leave_nodes(
        self, context: CycleContext, cases: dict[int, Undecided], attended: Collection[int]
    ) -> list[ChainDecision]:
        """Decisions about links on nodes that leave service: the next link is released.

        No policy is queried about them, and none holds the next link again: they leave ``cases``.
        """
        made = []
        for number, case in list(cases.items()):
            if not (state := leaving_node(context, case.present)):
                continue
            del cases[number]
            queued = case.queued
            if number in attended and (queued is None or queued.held or queued.begins_s != MISSING):
                reason = f"node-leaves-service:{state}"
                plan = Plan((Submit(reason=reason) if queued is None else Release(reason=reason),))
                chain = context.chains[number]
                made.append(ChainDecision(chain, case, plan, reason, NODE_STATE, {}, context.now_s))
        return made

    def _request(self, context: CycleContext, due: list[int], cases: Mapping[int, Undecided], view: View) -> None:
        view_summary, questions = summary(view), []
        for number in due:
            chain, case = context.chains[number], cases[number]
            spec = chain.spec
            request = PolicyRequest(self._requested(chain), spec.interruption_cost, spec.overlap_cost, spec.bank_age)
            form = replace(chain_view(context, chain, case.present, case.waiting, view), queued=case.queued)
            self.last_number += 1
            questions.append(Question(number, request, form, self.last_number))
            self.open[number] = OpenQuestion(self.last_number, case.about, context.now_s, self.real_s(), view_summary)
        self.runner.request(questions, self.options, view)

    def _requested(self, chain: Chain) -> str:
        """The policy that is called; another one for ``auto`` where other users' jobs are hidden."""
        return without_other_jobs(chain.spec.policy) if self.hidden else chain.spec.policy

    def _answered(
        self,
        context: CycleContext,
        answer: Answer,
        cases: Mapping[int, Undecided],
        view: Callable[[], View],
    ) -> ChainDecision | None:
        """The decision that follows from an answer; None where the answer is too late."""
        question = self.open.get(answer.chain)
        if question is None or question.number != answer.number or answer.chain not in cases:
            return None
        del self.open[answer.chain]
        chain, case = context.chains[answer.chain], cases[answer.chain]
        if question.about != case.about or context.now_s - question.requested_s > context.settings.fresh_s:
            return None
        if answer.plan is None:
            self._note_failure(chain, f"policy {chain.spec.policy} failed: {answer.failure}")
            return self._fall_back(context, chain, case, view(), f"policy-failed:{answer.failure}")
        if self.failing.pop(chain.id, None) is not None:
            log.info("policy answers again", extra={"chain": chain.name})
        plan, decided_by = answer.plan, chain.spec.policy
        if (requested := self._requested(chain)) != chain.spec.policy:
            why = f"the jobs of other users are hidden ({self.hidden}), so the waits of one's own jobs decide"
            plan = replace(plan, choice=PolicyChoice(requested, why))
        if plan.choice is not None:
            self._note_choice(context, chain, plan.choice)
            decided_by = f"{plan.choice.policy} for {chain.spec.policy}"
        if chain.wrong_forecasts >= DISTRUSTED and not self.revises(chain):
            form = chain_view(context, chain, case.present, case.waiting, view())
            plan = by_own_waits(plan, form, context.links[chain.id], context.now_s)
            decided_by = f"{OWN_WAITS} for {self.deciding(chain)}"
        plan = self._braked(context, chain, case, plan, view)
        made = ChainDecision(chain, case, plan, _reason(plan), decided_by, question.view_summary, question.requested_s)
        return released_before_next_pass(context, made)

    def _braked(
        self, context: CycleContext, chain: Chain, case: Undecided, plan: Plan, view: Callable[[], View]
    ) -> Plan:
        """A plan without a release early in the life of a link that started far too early.

        Plans about a link that was released before stay as they are.
        """
        if case.queued is not None or not plan.submits:
            return plan
        ends_s = chain_view(context, chain, case.present, case.waiting, view()).ends_s
        earliest_s = earliest_release_s(chain, case.present, context.links[chain.id], ends_s)
        return braked(plan, context.now_s, earliest_s)

    def _without_answer(
        self, context: CycleContext, cases: Mapping[int, Undecided], view: Callable[[], View]
    ) -> list[ChainDecision]:
        """Fall-back decisions about chains without an answer in time; the questions stay open."""
        made, now_s = [], self.real_s()
        for number, question in self.open.items():
            if now_s - question.since_s < context.settings.answer_s:
                continue
            question.since_s = now_s
            chain = context.chains[number]
            why = self.runner.excuse() or f"no answer from {chain.spec.policy} yet"
            self._note_failure(chain, why)
            made.append(self._fall_back(context, chain, cases[number], view(), f"no-answer:{why}"))
        return made

    def _fall_back(self, context: CycleContext, chain: Chain, case: Undecided, view: View, why: str) -> ChainDecision:
        form = chain_view(context, chain, case.present, case.waiting, view)
        plan = decide_by_recent_waits(view, form, chain.spec.interruption_cost, chain.spec.overlap_cost)
        plan = self._braked(context, chain, case, plan, lambda: view)
        decided_by, view_summary = f"{FALL_BACK} for {chain.spec.policy}", summary(view)
        made = ChainDecision(chain, case, plan, f"{_reason(plan)}; {why}", decided_by, view_summary, context.now_s)
        return released_before_next_pass(context, made)

    def _note_choice(self, context: CycleContext, chain: Chain, choice: PolicyChoice) -> None:
        """Log the choice of ``auto`` where it changes."""
        if self.choices.get(chain.id) == choice:
            return
        self.choices[chain.id] = choice
        context.change_chain(chain, context.event(chain.id, 0, "policy-chosen", f"{choice.policy}: {choice.reason}"))

    def _note_failure(self, chain: Chain, why: str) -> None:
        if chain.id not in self.failing:
            log.warning("policy failed", extra={"chain": chain.name, "detail": why})
        self.failing[chain.id] = f"{why}; recent waits decide meanwhile"

    def _act(self, context: CycleContext, made: list[ChainDecision]) -> None:
        for one in made:
            if one.submits:
                self.open.pop(one.chain.id, None)
            if not one.submits or self.revising.has(one.chain.spec.policy):
                schedule_next_decision(context, one)
        submitted = [one for one in made if one.submits]
        if self.sizing is not None and context.reservations:
            submitted = [self._sized(context, one) for one in submitted]
        last_troubles = {one.chain.id: self._last_refusal(one.chain.id) for one in submitted}
        for from_s in sorted({one.from_s for one in submitted}):
            links = [(one.chain, one.case.waiting) for one in submitted if one.from_s == from_s]
            troubles = release(context, links, last_troubles, from_s)
            self.refused |= {c.id: (link.job, troubles[c.id]) for c, link in links if c.id in troubles}
        done = self._revise(context, [one for one in made if one.case.queued is not None])
        context.store.add_decisions([_record(context, one, done.get(one.chain.id, "")) for one in made])

    def _last_refusal(self, chain: int) -> str:
        return self.refused.pop(chain, (MISSING, ""))[1]

    def _sized(self, context: CycleContext, made: ChainDecision) -> ChainDecision:
        """The decision after its link got the limit for a start at its release.

        Without an answer of Slurm it retains its limit.
        """
        assert self.sizing is not None
        release_s, waiting = context.now_s if made.from_s == MISSING else made.from_s, made.case.waiting
        try:
            self.sizing.update(context, context.chains[made.chain.id], release_s)
        except SlurmUnreachable as error:
            log.warning("no answer", extra={"chain": made.chain.name, "detail": f"its time limit: {error}"})
        fresh = next(link for link in context.links[made.chain.id] if link.number == waiting.number)
        return replace(made, case=replace(made.case, waiting=fresh))

    def _revise(self, context: CycleContext, made: list[ChainDecision]) -> dict[int, str]:
        """Execute plans about queued links; what was changed, by chain.

        Once the controller does not answer, the other links are not tried.
        """
        done: dict[int, str] = {}
        away = False
        for one in made:
            number, last_trouble = one.chain.id, self._last_refusal(one.chain.id)
            revision = AWAY if away else revise_queued_link(context, one.chain, one.case, one.plan, last_trouble)
            away, done[number] = revision.unanswered, revision.done
            if revision.trouble:
                self.refused[number] = (one.case.waiting.job, revision.trouble)
                pause_s = context.settings.poll_s if revision.trouble == last_trouble else context.settings.busy_poll_s
                context.change_chain(one.chain, next_decision_s=context.now_s + pause_s)
            elif WITHDRAW in revision.done:
                context.change_chain(one.chain, next_decision_s=context.now_s + 1)
        return done


def released_before_next_pass(context: CycleContext, made: ChainDecision) -> ChainDecision:
    """The decision to release a link at a moment before the next pass, made in this pass.

    Between two passes no agent can release the link at the moment that its policy names. Slurm can: the link competes
    from that time on. A policy that waits for the end of the running link is left to the dependency.
    """
    chain, case, now_s = made.chain, made.case, context.now_s
    waits = case.queued is None and not made.plan.submits and chain.spec.policy.partition(":")[0] not in AT_THE_END
    if not context.settings.pass_every_s or not waits:
        return made
    next_pass_s = now_s + context.settings.pass_every_s
    moment_s = min(_named_s(made.plan), _lead_reached_s(made))
    if moment_s >= min(next_pass_s, case.present.limit_ends_s):
        return made
    reason = f"before-next-pass:{made.reason}"
    plan = replace(made.plan, actions=(Submit(reason=reason),))
    return replace(made, plan=plan, reason=reason, from_s=int(moment_s) if moment_s > now_s else MISSING)


def _named_s(plan: Plan) -> float:
    """The earliest time that a plan names for the next call; infinite for none."""
    named_s = (action.until_s for action in plan.actions if isinstance(action, Wait) and action.until_s is not None)
    return min(named_s, default=math.inf)


def _lead_reached_s(made: ChainDecision) -> float:
    """The time at which an estimated lead is reached; infinite for none."""
    estimate = made.plan.estimate
    left_s = estimate.get("remaining_s", math.inf) - estimate.get("lead_s", 0.0)
    return made.view_s + int(left_s) if "lead_s" in estimate and 0 < left_s < math.inf else math.inf


def schedule_next_decision(context: CycleContext, made: ChainDecision) -> None:
    """Store when the policy is called next, at the latest at the moment that matters to it.

    A moment that a policy names within the interval is met to the second. Without one, a policy with a known lead gives
    it by its estimate: ``remaining_s`` minus ``lead_s``.
    """
    chain = made.chain
    interval_s, poll_s = context.settings.interval_s(made.case.present.limit_s), context.settings.poll_s
    until_s = [
        action.until_s for action in made.plan.actions if isinstance(action, Wait) and action.until_s is not None
    ]
    if until_s and min(until_s) < made.view_s + interval_s:
        context.change_chain(chain, next_decision_s=max(min(until_s), context.now_s + 1))
        return
    next_s = max([context.now_s + interval_s, *until_s])
    next_s = _on_grid(min(next_s, context.now_s + context.settings.longest_sleep_s), min(interval_s, poll_s))
    next_s = int(min(next_s, _lead_reached_s(made)))  # a lead that is reached already was braked
    context.change_chain(chain, next_decision_s=max(next_s, context.now_s + 1))


def _on_grid(time_s: int, step_s: int) -> int:
    """The last multiple of a step before a time, so that chains share a snapshot of the queue."""
    return time_s // step_s * step_s


def _reason(plan: Plan) -> str:
    """The reasons of a plan's actions."""
    return "; ".join(action.reason for action in plan.actions if action.reason)


def _record(context: CycleContext, made: ChainDecision, revision: str) -> DecisionRecord:
    return DecisionRecord(
        made.chain.id,
        made.case.present.number,
        context.now_s,
        made.policy,
        made.submits,
        made.reason,
        dict(made.plan.estimate),
        made.view_summary,
        revision,
    )


def _is_due(context: CycleContext, chain: Chain) -> bool:
    """Whether a policy is called in this cycle, or is due before the next pass."""
    before_next_s = context.now_s + max(context.settings.pass_every_s - 1, 0)
    return not before_next_s < chain.next_decision_s <= context.now_s + context.settings.longest_sleep_s


def release(
    context: CycleContext,
    links: list[tuple[Chain, Link]],
    last_troubles: Mapping[int, str] | None = None,
    from_s: int = MISSING,
) -> dict[int, str]:
    """Release links, by one command unless Slurm refuses one; returns troubles by chain.

    Args:
        last_troubles: Troubles of the last attempt by chain; an unchanged one is not logged again.
        from_s: The time from which they may start; ``MISSING`` for at once. It is stored first, so that the links are
            released earlier if the running ones end earlier.
    """
    if not links:
        return {}
    changes, columns, how = FREE, {}, "its dependency is cleared"
    if from_s != MISSING:
        changes = {"StartTime": begin_time(from_s), **FREE}
        columns, how = {"begins_s": from_s}, f"it may start from {clock_of(from_s)} on"
        links = [(chain, context.change_link(link, **columns)) for chain, link in links]
    refused: dict[int, str] = {}
    try:
        context.backend.update([link.job for _, link in links], changes)
    except SlurmUnreachable as error:
        refused = {link.job: str(error) for _, link in links}
    except SlurmRefused as error:
        refused = {links[0][1].job: str(error)} if len(links) == 1 else _release_each(context, links, changes)
    troubles = {c.id: f"job {x.job} cannot be released: {refused[x.job]}" for c, x in links if x.job in refused}
    for chain, link in links:
        if chain.id in troubles:
            again = troubles[chain.id] == (last_troubles or {}).get(chain.id)
            if not again:
                event = context.event(chain.id, link.number, "release-refused", refused[link.job])
                context.change_link(link, event)
            pause_s = context.settings.poll_s if again else context.settings.busy_poll_s
            context.change_chain(chain, next_decision_s=context.now_s + pause_s)
        else:
            event = context.event(chain.id, link.number, "released", f"job {link.job}: {how}")
            released_s = context.now_s if from_s == MISSING else from_s
            context.change_link(link, event, state=LinkState.QUEUED, released_s=released_s)
    return troubles


def _release_each(context: CycleContext, links: list[tuple[Chain, Link]], changes: Mapping[str, str]) -> dict[int, str]:
    """Refusals by job, after releasing each link alone; stops once Slurm does not answer."""
    refused: dict[int, str] = {}
    for k, (_, link) in enumerate(links):
        try:
            context.backend.update(link.job, changes)
        except SlurmRefused as error:
            refused[link.job] = str(error)
        except SlurmUnreachable as error:
            return refused | {unanswered.job: str(error) for _, unanswered in links[k:]}
    return refused
