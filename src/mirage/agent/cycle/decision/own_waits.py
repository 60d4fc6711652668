"""What a chain's own links have waited: a check of its forecasts, and a rule where they fail.

A forecast that is misled requests link after link: each starts at once, and the next seems to be late already. Two
brakes bound what that costs. No link is released in the first part of the present one's life, unless links of this
chain have waited so long of late. And where two forecasts in a row were wrong, the longest of these waits decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import Chain, DecisionRecord, Link
from mirage.duration import HOUR_S, MINUTE_S, UNLIMITED_S, format_duration
from mirage.job_state import MISSING
from mirage.policy.plan import Plan, Submit, Wait
from mirage.policy.view import Chain as ChainView

NAME = "own waits"

DISTRUSTED = 2
"""After so many wrong forecasts in a row a chain goes by its own waits."""

FAR_OFF_S, FAR_OFF_SHARE = 2 * HOUR_S, 0.25
"""A forecast is wrong where the wait is so far out of its range: the shorter of this time and share of the limit."""

_MOVED = ("hold", "postpone", "shorten", "withdraw")
"""Second thoughts behind which a link has not started as its release forecast it."""


def own_waits_s(links: Sequence[Link]) -> list[int]:
    """What the links of a chain that have started waited since their release, in order."""
    return [link.started_s - link.released_s for link in links if MISSING not in (link.started_s, link.released_s)]


def earliest_release_s(chain: Chain, present: Link, links: Sequence[Link], ends_s: int) -> int:
    """The earliest moment at which the next link may be released.

    Args:
        links: Of the chain, the latest ones.
        ends_s: When the present link ends for its policy.
    """
    if not 0 < present.limit_s < UNLIMITED_S:
        return present.started_s
    least_life_s = round(chain.spec.least_life * present.limit_s)
    return min(present.started_s + least_life_s, ends_s - max(own_waits_s(links), default=0))


def braked(plan: Plan, now_s: int, earliest_s: int) -> Plan:
    """The plan of a policy, without a release before the earliest moment."""
    if not plan.submits or now_s >= earliest_s:
        return plan
    why = "; ".join(action.reason for action in plan.actions if action.reason)
    return replace(plan, actions=(Wait(reason=f"least-life:{why}", until_s=earliest_s),))


def by_own_waits(plan: Plan, form: ChainView, links: Sequence[Link], now_s: int) -> Plan:
    """A lead by the longest of the chain's latest waits, in place of a policy's plan whose forecasts were wrong.

    Args:
        plan: Of the policy: its estimate is recorded, so that its next forecast can be judged, too.
    """
    lead_s = max(own_waits_s(links), default=0)
    moment_s = form.ends_s - lead_s
    estimate = {**plan.estimate, "remaining_s": float(form.ends_s - now_s), "own_wait_s": float(lead_s)}
    if now_s >= moment_s:
        return Plan((Submit(reason="own-waits:lead-reached"),), estimate)
    return Plan((Wait(reason="own-waits:lead-not-reached", until_s=moment_s),), estimate)


def judge_forecast(context: CycleContext, chain: Chain, link: Link) -> Chain:
    """Compare what a link has waited with what was forecast as it was released, and count wrong forecasts in a row."""
    released = _release_of(context.store.decisions(chain.id, last=8), link)
    if released is None or not {"wait_p05_s", "wait_p95_s"} <= released.estimate.keys():
        return chain
    waited_s = link.started_s - released.time_s
    low_s, high_s = released.estimate["wait_p05_s"], released.estimate["wait_p95_s"]
    slack_s = max(min(FAR_OFF_S, round(FAR_OFF_SHARE * link.limit_s)), MINUTE_S)
    if low_s - slack_s <= waited_s <= high_s + slack_s:
        return context.change_chain(chain, wrong_forecasts=0) if chain.wrong_forecasts else chain
    wrong = chain.wrong_forecasts + 1
    detail = (
        f"job {link.job} waited {format_duration(waited_s)}, forecast {format_duration(round(low_s))} to "
        f"{format_duration(round(high_s))}; wrong {wrong} times in a row"
    )
    if wrong >= DISTRUSTED:
        detail += f": {NAME} decide in place of {chain.spec.policy} until a forecast is right"
    event = context.event(chain.id, link.number, "forecast-wrong", detail)
    return context.change_chain(chain, event, wrong_forecasts=wrong)


def _release_of(decisions: Sequence[DecisionRecord], link: Link) -> DecisionRecord | None:
    """The decision that released a link; None where Slurm did, or where a second thought has moved the link since."""
    for decision in reversed(decisions):
        if any(thought in decision.thought for thought in _MOVED) or decision.time_s < link.submitted_s:
            return None
        if decision.submits and decision.time_s <= link.started_s:
            return decision
    return None
