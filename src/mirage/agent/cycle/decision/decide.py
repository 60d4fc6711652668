"""Decisions: policies are asked without waiting, and their answers are acted on when they come.

An answer counts while the view it is about is fresh and the chain still stands as it did. Where none comes in time,
or a policy fails, the fall-back decides, and the record says so.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache

from mirage.agent.cycle.context import CycleContext
from mirage.agent.cycle.decision.chain_view import chain_view, summary
from mirage.agent.cycle.decision.fallback import NAME, decide_by_recent_waits
from mirage.agent.cycle.decision.release import release
from mirage.agent.model import Chain, ChainState, DecisionRecord, Link, LinkState
from mirage.agent.policy_runner.question import Answer, PolicyRequest, PolicyRunner, Question
from mirage.job_state import MISSING
from mirage.policy.plan import Plan, Wait
from mirage.policy.view import View

log = logging.getLogger("mirage.agent")

ViewOf = Callable[[CycleContext], View]


@dataclass(slots=True)
class Open:
    """A question that was asked.

    Attributes:
        number: Of the question.
        link: The link that ran.
        asked_s: On the cluster's clock.
        since_s: Real seconds, since the question or the last decision of the fall-back.
        saw: Summary of the view.
    """

    number: int
    link: int
    asked_s: int
    since_s: float
    saw: dict[str, float]


@dataclass(frozen=True, slots=True)
class Made:
    """A decision that was made about a chain.

    Attributes:
        asked_s: When its view was taken, on the cluster's clock.
    """

    chain: Chain
    present: Link
    waiting: Link
    plan: Plan
    reason: str
    policy: str
    saw: dict[str, float]
    asked_s: int


class Decider:
    """The decider asks policies, most urgent chains first.

    Args:
        real_s: Real seconds that only grow.
    """

    def __init__(self, real_s: Callable[[], float], runner: PolicyRunner) -> None:
        self.real_s, self.runner = real_s, runner
        self.options: Mapping[str, str] = {}
        self.open: dict[int, Open] = {}
        self.failing: dict[int, str] = {}
        self.refused: dict[int, str] = {}
        self.asked = 0

    def trouble(self, chain: int) -> str:
        """What stands in the way of decisions about a chain, in words; empty for nothing."""
        return self.refused.get(chain) or self.failing.get(chain, "")

    def decide(self, context: CycleContext, view_of: ViewOf, attended: Collection[int]) -> int:
        """Ask about every chain that is due, and act on the answers; how many questions are open.

        Args:
            attended: Chains whose turn it is in this cycle.
        """
        view = cache(lambda: view_of(context))
        undecided = {chain.id: found for chain in context.chains.values() if (found := _undecided(context, chain))}
        self.open = {chain: asked for chain, asked in self.open.items() if chain in undecided}
        self.refused = {chain: why for chain, why in self.refused.items() if chain in undecided}
        answers = self.runner.answers(0.0) if self.open else []
        answered = {answer.chain for answer in answers}
        due = [c for c in undecided if c in attended and c not in self.open and c not in answered]
        due = [c for c in due if _is_due(context, context.chains[c])]
        if due:
            self._ask(context, due, undecided, view())
        if set(self.open) - answered:
            answers += self.runner.answers(context.settings.wait_for_answers_s)
        made = [one for answer in answers if (one := self._answered(context, answer, undecided, view)) is not None]
        made += self._without_answer(context, undecided, view)
        self._act(context, made)
        if not self.open:
            self.runner.rest()
        return len(self.open)

    def _ask(
        self, context: CycleContext, due: list[int], undecided: Mapping[int, tuple[Link, Link]], view: View
    ) -> None:
        due.sort(key=lambda chain: undecided[chain][0].started_s + undecided[chain][0].limit_s)
        saw, questions = summary(view), []
        for number in due:
            chain, (present, _) = context.chains[number], undecided[number]
            request = PolicyRequest(chain.spec.policy, chain.spec.interruption_cost, chain.spec.overlap_cost)
            self.asked += 1
            questions.append(Question(number, request, chain_view(context, chain, present, view), self.asked))
            self.open[number] = Open(self.asked, present.number, context.now_s, self.real_s(), saw)
        self.runner.ask(questions, self.options, view)

    def _answered(
        self,
        context: CycleContext,
        answer: Answer,
        undecided: Mapping[int, tuple[Link, Link]],
        view: Callable[[], View],
    ) -> Made | None:
        """The decision that follows from an answer; None where it comes too late to be used."""
        asked = self.open.get(answer.chain)
        if asked is None or asked.number != answer.number or answer.chain not in undecided:
            return None
        del self.open[answer.chain]
        chain, (present, waiting) = context.chains[answer.chain], undecided[answer.chain]
        if asked.link != present.number or context.now_s - asked.asked_s > context.settings.fresh_s:
            return None
        if answer.plan is None:
            self._note_failure(chain, f"policy {chain.spec.policy} failed: {answer.failure}")
            return self._fall_back(context, chain, present, waiting, view(), f"policy-failed:{answer.failure}")
        if self.failing.pop(chain.id, None) is not None:
            log.info("policy answers again", extra={"chain": chain.name})
        reason = "; ".join(action.reason for action in answer.plan.actions if action.reason)
        return Made(chain, present, waiting, answer.plan, reason, chain.spec.policy, asked.saw, asked.asked_s)

    def _without_answer(
        self, context: CycleContext, undecided: Mapping[int, tuple[Link, Link]], view: Callable[[], View]
    ) -> list[Made]:
        """Decisions about chains whose questions have been open for too long; the questions stay open."""
        made, now_s = [], self.real_s()
        for number, asked in self.open.items():
            if now_s - asked.since_s < context.settings.answer_s:
                continue
            asked.since_s = now_s
            chain, (present, waiting) = context.chains[number], undecided[number]
            why = self.runner.excuse() or f"no answer from {chain.spec.policy} yet"
            self._note_failure(chain, why)
            made.append(self._fall_back(context, chain, present, waiting, view(), f"no-answer:{why}"))
        return made

    def _fall_back(
        self, context: CycleContext, chain: Chain, present: Link, waiting: Link, view: View, why: str
    ) -> Made:
        form = chain_view(context, chain, present, view)
        plan = decide_by_recent_waits(view, form, chain.spec.interruption_cost, chain.spec.overlap_cost)
        said = "; ".join(action.reason for action in plan.actions if action.reason)
        decided_by, saw = f"{NAME} for {chain.spec.policy}", summary(view)
        return Made(chain, present, waiting, plan, f"{said}; {why}", decided_by, saw, context.now_s)

    def _note_failure(self, chain: Chain, why: str) -> None:
        if chain.id not in self.failing:
            log.warning("policy failed", extra={"chain": chain.name, "detail": why})
        self.failing[chain.id] = f"{why}; recent waits decide meanwhile"

    def _act(self, context: CycleContext, made: list[Made]) -> None:
        for one in made:
            if one.plan.submits:
                self.open.pop(one.chain.id, None)
            else:
                schedule_next_look(context, one)
        submitted = [(one.chain, one.waiting) for one in made if one.plan.submits]
        told = {chain.id: self.refused.pop(chain.id, "") for chain, _ in submitted}
        self.refused |= release(context, submitted, told)
        context.store.add_decisions([_record(context, one) for one in made])


def schedule_next_look(context: CycleContext, made: Made) -> None:
    """Note when the policy is to be asked again: never later than the moment that matters to it.

    A moment that a policy names within the interval is kept to the second. Without one, a policy that leads by a known
    time tells it by its estimate, ``remaining_s`` less ``lead_s``.
    """
    chain, estimate = made.chain, made.plan.estimate
    interval_s, poll_s = context.settings.interval_s(made.present.limit_s), context.settings.poll_s
    until_s = [
        action.until_s for action in made.plan.actions if isinstance(action, Wait) and action.until_s is not None
    ]
    if until_s and min(until_s) < made.asked_s + interval_s:
        context.change_chain(chain, next_look_s=max(min(until_s), context.now_s + 1))
        return
    next_s = max([context.now_s + interval_s, *until_s])
    next_s = _on_grid(min(next_s, context.now_s + context.settings.longest_sleep_s), min(interval_s, poll_s))
    left_s = estimate.get("remaining_s", math.inf) - estimate.get("lead_s", 0.0)
    if "lead_s" in estimate and math.isfinite(left_s):
        next_s = min(next_s, made.asked_s + int(left_s))
    context.change_chain(chain, next_look_s=max(next_s, context.now_s + 1))


def _on_grid(time_s: int, step_s: int) -> int:
    """The last multiple of a step before a time: chains that are looked at together cost one look at the queue."""
    return time_s // step_s * step_s


def _record(context: CycleContext, made: Made) -> DecisionRecord:
    return DecisionRecord(
        made.chain.id,
        made.present.number,
        context.now_s,
        made.policy,
        made.plan.submits,
        made.reason,
        dict(made.plan.estimate),
        made.saw,
    )


def _undecided(context: CycleContext, chain: Chain) -> tuple[Link, Link] | None:
    """The link that runs and the one held behind it, if the second waits for a decision.

    While two run, a hand-over is under way: a third is not let loose before that is over.
    """
    if chain.state is not ChainState.ACTIVE:
        return None
    running, held = context.of(chain, LinkState.RUNNING), context.of(chain, LinkState.HELD)
    if len(running) != 1 or not held or MISSING in (running[-1].limit_s, held[-1].job):
        return None
    if context.job_of(chain, running[-1]) is None:
        return None
    return running[-1], held[-1]


def _is_due(context: CycleContext, chain: Chain) -> bool:
    return not context.now_s < chain.next_look_s <= context.now_s + context.settings.longest_sleep_s
