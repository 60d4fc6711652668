"""Decisions in place of a policy: of its failures, its wrong forecasts, and its haste.

Where a policy gives no answer, a lead by recent waits decides: a bound on a quantile of the waits of the jobs that
started last, at the share at which an hour of interruption and an hour of overlap cost the same (the newsvendor's
critical ratio). It needs no compilation and no other process.

A wrong forecast can request link after link: each starts at once, and the next already seems late. Two brakes bound the
cost. After a link that started far too early, no link is released in the first part of its life. And after two wrong
forecasts in a row, the longest of the recent waits decides, unless the policy revises queued links.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from mirage.agent.cycle.context import CycleContext
from mirage.agent.model import Chain, DecisionRecord, Link
from mirage.duration import HOUR_S, MINUTE_S, UNLIMITED_S, format_duration
from mirage.job_state import MISSING
from mirage.policy.plan import Plan, Submit, Wait
from mirage.policy.view import ChainView, View
from mirage.provision.policies.lead_rules import QuantileWait

FALL_BACK, OWN_WAITS = "fall-back", "own waits"
"""What decided in place of a policy, in the record of a decision."""

LEAST, MOST = 0.05, 0.95
"""Bounds of the quantile of recent waits."""

CONSTANT_LEADS = ("lead", "saia", "sml")
"""Policies that release by the user's own lead, not by the queue: their least life is 0 unless the user gives one."""

TOO_EARLY = 0.25
"""A link that starts with more than this share of its predecessor's limit left started far too early."""

LEAST_LIFE = 0.25
"""Wrong forecasts use at most four times the links that the limit needs, and one more."""

DISTRUSTED = 2
"""Number of wrong forecasts in a row after which a chain uses its own waits."""

FAR_OFF_S, FAR_OFF_SHARE = 2 * HOUR_S, 0.25
"""A forecast is wrong where the wait is outside its range by more than the shorter of this time and limit share."""

_MOVED = ("hold", "postpone", "shorten", "withdraw")
"""Revisions after which a link's start cannot be compared with the forecast of its release."""


def decide_by_recent_waits(view: View, chain: ChainView, interruption_cost: float, overlap_cost: float) -> Plan:
    """The plan of the fall-back for a chain.

    Args:
        view: Without a chain.
    """
    rule = QuantileWait(str(critical_share(interruption_cost, overlap_cost)))
    return rule.decide(replace(view, chain=chain))


def critical_share(interruption_cost: float, overlap_cost: float) -> float:
    """The quantile of waits at which both kinds of loss have equal costs, within bounds."""
    both = interruption_cost + overlap_cost
    share = interruption_cost / both if both > 0 else 0.5
    return round(min(max(share, LEAST), MOST), 4)


def own_waits_s(links: Sequence[Link]) -> list[int]:
    """Waits from the release to the first start of the links that have started, in order."""
    first_s = [(_first_start_s(link), link.released_s) for link in links]
    return [started_s - released_s for started_s, released_s in first_s if MISSING not in (started_s, released_s)]


def _first_start_s(link: Link) -> int:
    return link.earlier[0][0] if link.earlier else link.started_s


def least_life(chain: Chain) -> float:
    """The share of the limit of a link that started far too early, in which none is released."""
    if chain.spec.least_life != MISSING:
        return chain.spec.least_life
    return 0.0 if chain.spec.policy.partition(":")[0] in CONSTANT_LEADS else LEAST_LIFE


def earliest_release_s(chain: Chain, present: Link, links: Sequence[Link], ends_s: int) -> int:
    """The earliest moment at which the next link may be released.

    That is the start of the present link, unless this link started far too early itself: its predecessor ran, and had
    more than a quarter of its limit left.

    Args:
        links: Of the chain, in order.
        ends_s: When the present link ends for its policy.
    """
    started_s = _first_start_s(present)
    before = [link for link in links if link.number < present.number and link.started_s != MISSING]
    if not before or started_s >= before[-1].ended_s != MISSING:
        return started_s
    limit_s = before[-1].limit_s
    too_early = before[-1].started_s + limit_s - started_s > TOO_EARLY * limit_s
    if not too_early or max(limit_s, present.limit_s) >= UNLIMITED_S:
        return started_s
    return min(started_s + round(least_life(chain) * present.limit_s), ends_s)


def braked(plan: Plan, now_s: int, earliest_s: int) -> Plan:
    """The plan of a policy, without a release before the earliest moment."""
    if not plan.submits or now_s >= earliest_s:
        return plan
    why = "; ".join(action.reason for action in plan.actions if action.reason)
    return replace(plan, actions=(Wait(reason=f"least-life:{why}", until_s=earliest_s),))


def by_own_waits(plan: Plan, form: ChainView, links: Sequence[Link], now_s: int) -> Plan:
    """A lead by the longest recent wait, in place of a plan with wrong forecasts.

    Args:
        plan: The policy's plan. Its estimate is recorded, so that its next forecast can be judged, too.
    """
    lead_s = max(own_waits_s(links), default=0)
    moment_s = form.ends_s - lead_s
    estimate = {**plan.estimate, "remaining_s": float(form.ends_s - now_s), "own_wait_s": float(lead_s)}
    if now_s >= moment_s:
        return Plan((Submit(reason="own-waits:lead-reached"),), estimate)
    return Plan((Wait(reason="own-waits:lead-not-reached", until_s=moment_s),), estimate)


def judge_forecast(context: CycleContext, chain: Chain, link: Link, *, replaced: bool) -> Chain:
    """Compare a link's wait with its forecast at the release; count wrong forecasts in a row.

    Args:
        replaced: Whether the chain's own waits decide in place of its policy after wrong forecasts.
    """
    released = None if link.earlier else _release_of(context.store.decisions(chain.id, last=8), link)
    if released is None or not {"wait_p05_s", "wait_p95_s"} <= released.estimate.keys():
        return chain
    waited_s = link.started_s - released.time_s
    low_s, high_s = released.estimate["wait_p05_s"], released.estimate["wait_p95_s"]
    slack_s = max(min(FAR_OFF_S, round(FAR_OFF_SHARE * link.limit_s)), MINUTE_S)
    high_s = high_s if high_s < link.limit_s else math.inf  # futures are played to the limit, and no further
    if low_s - slack_s <= waited_s <= high_s + slack_s:
        return context.change_chain(chain, wrong_forecasts=0) if chain.wrong_forecasts else chain
    wrong = chain.wrong_forecasts + 1
    high = f"to {format_duration(round(high_s))}" if math.isfinite(high_s) else "and more"
    detail = (
        f"job {link.job} waited {format_duration(waited_s)}, forecast {format_duration(round(low_s))} {high}; wrong "
        f"{wrong} times in a row"
    )
    if wrong >= DISTRUSTED and replaced:
        detail += f": {OWN_WAITS} decide in place of {chain.spec.policy} until a forecast is right"
    event = context.event(chain.id, link.number, "forecast-wrong", detail)
    return context.change_chain(chain, event, wrong_forecasts=wrong)


def _release_of(decisions: Sequence[DecisionRecord], link: Link) -> DecisionRecord | None:
    """The decision that released a link; None where Slurm did, or where it was revised since."""
    for decision in reversed(decisions):
        if any(kind in decision.revision for kind in _MOVED):
            return None
        if decision.submits and decision.time_s == link.released_s:
            return decision
    return None
