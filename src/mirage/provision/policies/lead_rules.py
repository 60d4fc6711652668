"""Provisioners that need no training: when to submit the next link of a chain.

Each is called at every decision with a view whose ``chain`` describes the present link, and returns a plan with or
without a ``Submit``. Whatever the rule, a link that has ended is followed at once.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import DAY_S, HOUR_S, MINUTE_S
from mirage.errors import ConfigurationError
from mirage.job_state import MISSING
from mirage.policy.cost import Cost
from mirage.policy.parameter import COUNT, read_parameters
from mirage.policy.plan import Action, Hold, Plan, Release, Submit, Wait
from mirage.policy.view import ChainView, Ended, QueuedLink, QueueJobs, View

RECENT_STARTS = 100
"""Number of recently started jobs that are averaged (Mirage, SC'23)."""

RECENT_S = 14 * DAY_S
"""Jobs that ended before this time do not count for ``user-waits``; the agent reads no more of accounting."""

FEWEST_DAYS, MARGIN = 6, 1.5
"""Days with waits that ``user-waits`` needs, and standard errors by which a lead must have paid; chosen on other
months than those that docs/reports/evaluation.md reports."""

SAIA_H, SML_H = 9 / 60, 3.0
"""Leads of two services that run on Slurm: ``saia`` submits its next job nine minutes ahead; the launcher of ``sml``
submits jobs of 12 h with ``after:PREVIOUS+9h``."""

SOON_S = 10
"""A link that was submitted ahead of time is checked again after this time, to be held."""

AGE_COUNTS_WITHIN_S = MINUTE_S
"""Time within which Slurm counts the age of a link that competes; after it, a limit on jobs that gain age excludes it.

Slurm 22.05 needs a second, and one that schedules only at intervals needs until its next pass."""

MOVING_S = 5 * MINUTE_S
"""A lead that changes from decision to decision is checked no more often than this."""


def chain_of(view: View) -> ChainView:
    """Returns the chain of a view.

    Raises:
        ConfigurationError: The view is of a whole cluster, not of a chain.
    """
    if view.chain is None:
        raise ConfigurationError("a provisioner decides about a chain; this view has none")
    return view.chain


def recent_waits_s(view: View, before_s: int, count: int) -> Ints:
    """Waits of the ``count`` jobs that started last, up to ``before_s``; in order of start."""
    submit_s, start_s = _recent_starts_s(view, before_s, count)
    return start_s - submit_s


def _recent_starts_s(view: View, before_s: int, count: int) -> tuple[Ints, Ints]:
    """When the ``count`` jobs that started last were submitted and started, in order of start."""
    start_s = np.concatenate([view.ended.start_s, view.running.start_s])
    submit_s = np.concatenate([view.ended.submit_s, view.running.submit_s])
    known = np.flatnonzero(start_s <= before_s)
    last = known[np.argsort(start_s[known], kind="stable")][-count:]
    return submit_s[last], start_s[last]


def plan_without_choice(view: View, chain: ChainView) -> Plan | None:
    """The plan for a link that has not started or has ended; else None: there is a choice."""
    if chain.ends_s == MISSING:
        return Plan((Wait(reason="predecessor-pending"),))
    if chain.ends_s <= view.now_s:
        return Plan((Submit(reason="ended"),), {"remaining_s": float(chain.ends_s - view.now_s)})
    return None


class Lead:
    """Submits a certain time before the present link ends; subclasses define that time.

    The plan requests a call at that time: if the lead may change until then, only if it comes before the next decision.

    Attributes:
        steady: Whether the lead is constant for all decisions about a link.
    """

    steady = False

    def decide(self, view: View) -> Plan:
        """Submit when no more remains of the link than the lead."""
        chain = chain_of(view)
        if (plan := plan_without_choice(view, chain)) is not None:
            return plan
        remaining_s = chain.ends_s - view.now_s
        lead_s = self.lead_s(view, chain)
        estimate = {"remaining_s": float(remaining_s), "lead_s": float(lead_s)}
        if remaining_s <= lead_s:
            return Plan((Submit(reason="lead-reached"),), estimate)
        return Plan((Wait(reason="lead-not-reached", until_s=self._moment_s(view, chain, lead_s)),), estimate)

    def lead_s(self, view: View, chain: ChainView) -> float:
        """Time before the end at which to submit; here 0."""
        return 0.0

    def _moment_s(self, view: View, chain: ChainView, lead_s: float) -> int | None:
        """When the lead is reached; None if it may change and the next decision comes first."""
        reached_s = chain.ends_s - math.floor(lead_s)
        if self.steady:
            return min(reached_s, chain.ends_s)
        reached_s = max(reached_s, view.now_s + MOVING_S)
        return reached_s if reached_s < min(view.now_s + chain.step_s, chain.ends_s) else None


class Reactive(Lead):
    """Submits when the present link has ended, as most people do."""

    steady = True


class Dependency(Reactive):
    """``--dependency=afterany``: queued at once, but held until the present link ends.

    A held job gains no age priority (unless the site sets ACCRUE_ALWAYS), so it queues from the end of its
    predecessor like a reactive link; it saves the wake-up, not the wait.
    """


class Singleton(Dependency):
    """``singleton:K``: K links with ``--dependency=singleton``, as training watchers do.

    However many wait, the first of them is held until the present link has ended and gains no age priority until then
    (unless the site sets ACCRUE_ALWAYS): a hand-over is the same as with ``dependency``. K is the number of submissions
    that may fail before the chain breaks, which no hand-over shows.
    """

    def __init__(self, parameter: str = "") -> None:
        self.queued: int = read_parameters("singleton", parameter, {"links": COUNT}).get("links", 1)


class ConstantLead(Lead):
    """Submits a constant number of hours ahead: ``lead:4``."""

    steady = True

    def __init__(self, parameter: str) -> None:
        self.hours = _hours("lead", parameter)

    def lead_s(self, view: View, chain: ChainView) -> float:
        """Returns the constant."""
        return self.hours * HOUR_S


class HoldForAge:
    """``hold``: gathers age ahead of time and retains it in a held job, without any forecast.

    A link that cannot start now is submitted while others wait, as they take the nodes that become free before it is
    held, as soon as Slurm counts its age. It is released when the present link ends, or HOURS before that
    (``hold:0.5``). It needs a Slurm on which a held job retains its age, see docs/explanation/provisioning.md; on any
    other one it queues like a reactive link.
    """

    def __init__(self, parameter: str = "") -> None:
        self.hours = _hours("hold", parameter or "0")

    def decide(self, view: View) -> Plan:
        """Submit what cannot start, hold it, and release it in time."""
        chain = chain_of(view)
        if chain.queued is None and (plan := plan_without_choice(view, chain)) is not None:
            return plan
        release_s = chain.ends_s - math.floor(self.hours * HOUR_S)
        due = view.now_s >= release_s
        until_s = release_s if view.now_s < release_s < min(view.now_s + chain.step_s, chain.ends_s) else None
        if chain.queued is not None:
            held = chain.queued.held or chain.queued.begins_s > view.now_s
            actions: tuple[Action, ...] = (Release(reason="ended" if chain.ends_s <= view.now_s else "lead-reached"),)
            if due:
                return Plan(actions if held else ())
            if not held and not age_counts(chain.queued, view.now_s):
                return Plan((Wait(reason="look-soon", until_s=view.now_s + SOON_S),))
            actions = () if held else (Hold(reason="gathers-age"),)
            return Plan((*actions, Wait(reason="lead-not-reached", until_s=until_s)))
        if due:
            return Plan((Submit(reason="lead-reached"),))
        if not len(view.pending) or starts_at_once(view, chain):
            return Plan((Wait(reason="would-start-now", until_s=until_s),))
        return Plan((Submit(reason="gathers-age"), Wait(reason="look-soon", until_s=view.now_s + SOON_S)))


def age_counts(queued: QueuedLink, now_s: int) -> bool:
    """Whether a queued link may be held: Slurm counts its age by now, or will not."""
    return queued.accrues_s != MISSING or now_s - queued.submitted_s >= AGE_COUNTS_WITHIN_S


def starts_at_once(view: View, chain: ChainView) -> bool:
    """Whether enough nodes are free for a link; other jobs may be ahead of it in the queue."""
    nodes, rows = view.nodes, view.nodes.allowed[chain.partition]
    free, capacity = nodes.free[rows], nodes.capacity[rows]
    if nodes.pools:
        return int(free[:, 0].sum()) >= chain.nodes
    whole = (free == capacity).all(axis=1) & capacity.any(axis=1)
    fits = whole if chain.gpus < 0 else (free >= (chain.gpus, chain.cpus)).all(axis=1)
    return int(fits.sum()) >= chain.nodes


def _hours(name: str, text: str) -> float:
    """A number of hours after the name of a rule."""
    try:
        hours = float(text)
    except ValueError:
        hours = math.nan
    if not 0 <= hours < math.inf:
        raise ConfigurationError(f"{name} takes hours, as in {name}:4; got {text!r}")
    return hours


def saia() -> ConstantLead:
    """Submits the next link nine minutes ahead: enough to load a service, not to queue."""
    return ConstantLead(str(SAIA_H))


def sml() -> ConstantLead:
    """Submits the next link three hours ahead, whatever the queue."""
    return ConstantLead(str(SML_H))


class AverageWait(Lead):
    """Leads by the mean wait of the last 100 jobs started before the present link.

    The mean is that of the time when the present link started (Mirage, SC'23).
    """

    steady = True

    def lead_s(self, view: View, chain: ChainView) -> float:
        """Mean wait at that time."""
        waits = recent_waits_s(view, chain.started_s, RECENT_STARTS)
        return float(waits.mean()) if len(waits) else 0.0


class QuantileWait(Lead):
    """Leads by an upper bound on a quantile of recent waits, ``quantile:0.95``.

    The binomial method (Brevik, Nurmi & Wolski, PPoPP'06): of n independent waits, the k-th smallest is above the
    q-quantile with confidence C for the least k with P(Bin(n, q) < k) ≥ C;
    where there is none, the largest wait is taken.
    """

    def __init__(self, parameter: str = "", confidence: float = 0.95, recent: int = RECENT_STARTS) -> None:
        try:
            self.quantile = float(parameter or 0.95)
        except ValueError:
            self.quantile = math.nan
        if not 0 < self.quantile < 1:
            raise ConfigurationError(f"quantile takes a share between 0 and 1, as in quantile:0.95; got {parameter!r}")
        self.confidence, self.recent = confidence, recent

    def lead_s(self, view: View, chain: ChainView) -> float:
        """Returns the bound from the jobs started last."""
        waits = np.sort(recent_waits_s(view, view.now_s, self.recent))
        if len(waits) == 0:
            return 0.0
        rank = binomial_rank(len(waits), self.quantile, self.confidence)
        return float(waits[-1 if rank is None else rank - 1])


class UserWaits(Lead):
    """Leads by recent waits of the user's own jobs, if that has paid.

    For clusters that hide the jobs of others; reactive until a lead is known to pay. Only waits of jobs that are no
    larger than a link count, as larger ones wait longer. The lead is the one of these waits that would have cost least,
    compared with no lead: the mean of the differences and ``MARGIN`` of its standard errors. Waits of one day count as
    one, their mean: jobs that start together have waited in one queue, and many of them prove no more than one.
    """

    def __init__(self, *, cost: Cost) -> None:
        self.cost = cost

    def lead_s(self, view: View, chain: ChainView) -> float:
        """Returns the lead from the user's jobs that ran in the last ``RECENT_S``."""
        own = view.of_user(chain.user)
        ended = own.ended[(own.ended.end_s > view.now_s - RECENT_S) & _no_larger(own.ended, chain)]
        own = replace(own, ended=ended, running=own.running[_no_larger(own.running, chain)])
        submit_s, start_s = _recent_starts_s(own, view.now_s, RECENT_STARTS)
        return paying_lead_s(start_s - submit_s, start_s // DAY_S, self.cost)


def _no_larger(jobs: QueueJobs | Ended, chain: ChainView) -> NDArray[np.bool_]:
    """Which jobs have no more nodes and no longer a limit than a link."""
    found: NDArray[np.bool_] = (jobs.nodes <= chain.nodes) & (jobs.limit_s <= chain.limit_s)
    return found


def paying_lead_s(waits_s: Ints, days: Ints, cost: Cost) -> float:
    """The lead that would have saved most in some waits, less a margin; 0 if none saves more.

    Where overlap is free, it is the longest of them.

    Args:
        waits_s: Of some jobs.
        days: For each wait, the day of its end; on fewer than ``FEWEST_DAYS`` days, no lead is known to pay.
    """
    _, day, count = np.unique(days, return_inverse=True, return_counts=True)
    if len(count) < FEWEST_DAYS:
        return 0.0
    leads_s = np.unique(waits_s)
    if not cost.overlap:
        return float(leads_s[-1])
    more = cost.of((waits_s - leads_s[:, np.newaxis]).astype(np.float64)) - cost.of(waits_s.astype(np.float64))
    of_day = np.arange(len(count)) == day[:, np.newaxis]
    by_day = more @ of_day / count
    worth = by_day.mean(axis=1) + MARGIN * by_day.std(axis=1, ddof=1) / math.sqrt(len(count))
    best = int(worth.argmin())
    return float(leads_s[best]) if worth[best] < 0 else 0.0


def binomial_rank(n: int, quantile: float, confidence: float) -> int | None:
    """Least k ≤ n with P(Bin(n, quantile) < k) ≥ confidence; None if n is too small for one."""
    below = 0.0
    for k in range(n):
        choose = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
        below += math.exp(choose + k * math.log(quantile) + (n - k) * math.log1p(-quantile))
        if below >= confidence:
            return k + 1
    return None
