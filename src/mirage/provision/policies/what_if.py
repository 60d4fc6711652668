"""``what-if``: weigh the costs of submitting now and later over futures of the queue.

It needs no training, works on an unknown cluster, and corrects itself at every decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mirage.array_types import Ints
from mirage.forecast.forecaster import BEYOND_S, Forecaster
from mirage.forecast.run_times import RunTimes, TrueRunTimes
from mirage.forecast.shared_futures import SharedFutures, shared_futures
from mirage.job_state import MISSING
from mirage.policy.cost import Cost
from mirage.policy.parameter import COUNT, SHARE, YES_OR_NO, read_parameters
from mirage.policy.plan import Plan, Submit, Wait
from mirage.policy.start_forecast import StartForecast
from mirage.policy.view import ChainView, View
from mirage.predict.run_times.named_history import NamedHistory
from mirage.provision.policies.lead_rules import chain_of, plan_without_choice
from mirage.sim.cluster import Limit
from mirage.sim.slurm_conf.slurm_settings import SlurmSettings

_NOTHING = 1e-9
"""Costs below this are none: if waiting costs nothing, the policy waits."""

_PLENTY = 2
"""This many times the longest predicted wait is more than enough."""

FUTURES = 64

INFORMATION = 0.3
"""Weight of the information that waiting will provide. Of 0, 0.3, 0.5 and 0.8 it cost least on the windows of the
Lonestar6 trace from December to March, under two disciplines, and hardly more than the best on those of Theta: where
similar jobs fail alike, waiting provides less information than the futures suggest."""

TIE = 0.05
"""On a real queue a tie goes to submitting: on the first chains kept alive on a real slurmctld, forecasts with no gain
from submitting before the end of a link were followed by an hour of interruption."""

PARAMETERS = {"futures": COUNT, "tie": SHARE, "quick": YES_OR_NO, "information": SHARE, "names": YES_OR_NO}
"""Parameters after the name: ``what-if:64``, ``what-if:tie=0:quick=no``."""


def what_if(parameter: str = "", **needed: Any) -> WhatIf:
    """Creates ``what-if`` from the parameter in its name and the settings that it needs."""
    return WhatIf(**needed, **read_parameters("what-if", parameter, PARAMETERS))


class WhatIf:
    """Submits when waiting is expected to cost more than submitting now.

    The value of waiting lies between two bounds, both from the same futures: the best *fixed* later time (as if nothing
    were learnt meanwhile) and the mean of each future's own best time (as if its future were known by then). The rule
    takes the value at the share ``information`` of the way from the first to the second.

    Args:
        cost: Cost of an hour of interruption and of overlap.
        seed: Of the futures; the same seed and view give the same plan.
        discipline: How the cluster orders its queue.
        scheduler: Its scheduler's parameters; None for Slurm's defaults.
        limits: What users may run at once.
        futures: Number of futures that each decision simulates.
        information: Share of the way between the bounds, 0 … 1.
        tie: Differences below this share of the cost are within the precision of the futures; then, if both choices
            have a cost, the link is submitted: a place in a real queue is worth more than a tie in a forecast.
        quick: Whether to check first the wait of a link submitted now, a forecast that chains of the same form share,
            and to weigh only what it leaves open. An agent with hundreds of chains needs it.
        names: Whether run times are also learnt from jobs of the same name.
        run_times: Source of run times; None for the view's history.

    Attributes:
        forecasts: It weighs futures of the queue, which some models do not.
    """

    forecasts = True

    def __init__(
        self,
        *,
        cost: Cost | None = None,
        seed: int = 0,
        discipline: str = "slurm",
        scheduler: SlurmSettings | None = None,
        limits: Sequence[Limit] = (),
        futures: int = FUTURES,
        information: float = INFORMATION,
        tie: float = TIE,
        quick: bool = True,
        names: bool = False,
        run_times: RunTimes | None = None,
    ) -> None:
        self.cost = cost or Cost()
        self.futures = shared_futures(futures, seed, discipline, scheduler, tuple(limits))
        if names or run_times is not None:
            source = run_times or NamedHistory()
            self.futures = SharedFutures(
                Forecaster(
                    futures, seed=seed, discipline=discipline, scheduler=scheduler, limits=limits, run_times=source
                )
            )
        self.information, self.tie, self.quick = information, tie, quick

    @property
    def forecaster(self) -> Forecaster:
        """The forecaster that draws the futures."""
        return self.futures.forecaster

    def decide(self, view: View) -> Plan:
        """Weigh submitting now against submitting later, over the same futures."""
        chain = chain_of(view)
        plan = plan_without_choice(view, chain)
        return self.weighed_at(view, chain, self.cost) if plan is None else plan

    def weighed_at(self, view: View, chain: ChainView, cost: Cost) -> Plan:
        """Plan at a cost: submit now or wait; for a queued link, let it compete or hold it."""
        remaining_s = chain.ends_s - view.now_s
        waits_s = None
        if self.quick:
            waits_s = self.waits_now(view, chain)
            if (plan := self._plan_at_a_glance(view, chain, waits_s)) is not None:
                return plan
        delays = delays_s(remaining_s, chain.step_s)
        if remaining_s >= 2 * chain.step_s:
            few = delays[[0, likely_delay(delays, remaining_s, waits_s)]]
            plan = self._weighed(self._played(view, chain, few), chain, cost)
            if not plan.submits:
                return plan
        return self._weighed(self._played(view, chain, delays), chain, cost)

    def _played(self, view: View, chain: ChainView, delays: Ints) -> StartForecast:
        """Returns the forecast of some delays, simulated once: several costs may use it."""
        until_s = chain.ends_s + BEYOND_S
        return self.futures.once(
            view, (chain, delays.tobytes(), until_s), lambda queue: queue.play(chain, delays, until_s)
        )

    def _weighed(self, forecast: StartForecast, chain: ChainView, at: Cost) -> Plan:
        """Returns the plan by the costs of submitting now and later.

        A later time that is better than now by more than a tie stays better whatever the other times cost, so a few
        simulated delays are enough to decide to wait.
        """
        cost = at.of(forecast.gaps_s)
        by_delay, hindsight = cost.mean(axis=0), cost[:, 1:].min(axis=1).mean()
        now, best = by_delay[0], 1 + int(by_delay[1:].argmin())
        later = by_delay[best] + self.information * (hindsight - by_delay[best])
        remaining_s = chain.ends_s - forecast.now_s
        waits_s = forecast.waits_s[:, 0]
        estimate = forecast_estimate(remaining_s, waits_s) | {"cost_now": float(now), "cost_later": float(later)}
        if now < later - _NOTHING:
            return Plan((Submit(reason="waiting-costs-more"),), estimate, forecast)
        if self.tie > 0 and _NOTHING < now <= later * (1 + self.tie):
            return Plan((Submit(reason="waiting-gains-nothing"),), estimate, forecast)
        if (best_s := int(forecast.delays_s[best])) < chain.step_s:
            until_s = forecast.now_s + best_s
        else:
            until_s = next_decision_s(forecast.now_s, chain.step_s, remaining_s - int(waits_s.max()))
        return Plan((Wait(reason="waiting-costs-less", until_s=until_s),), estimate, forecast)

    def _plan_at_a_glance(self, view: View, chain: ChainView, waits_s: Ints) -> Plan | None:
        """Plan that needs no weighing: the link is too late even now, or there is plenty of time."""
        remaining_s, longest_s = chain.ends_s - view.now_s, int(waits_s.max())
        if waits_s.min() >= remaining_s:
            return Plan((Submit(reason="too-late-even-now"),), forecast_estimate(remaining_s, waits_s))
        if remaining_s > _PLENTY * longest_s + chain.step_s:
            until_s = next_decision_s(view.now_s, chain.step_s, remaining_s - longest_s)
            return Plan((Wait(reason="plenty-of-time", until_s=until_s),), forecast_estimate(remaining_s, waits_s))
        return None

    def waits_now(self, view: View, chain: ChainView) -> Ints:
        """Waits of a link submitted now, one per future, up to its limit.

        They are equal for all chains of its form. The present link is not assumed to run until its limit.
        """
        form = replace(
            chain,
            predecessor=MISSING,
            submitted_s=view.now_s,
            started_s=view.now_s,
            ends_s=view.now_s + chain.limit_s,
        )
        now = np.zeros(1, dtype=np.int64)
        played = self.futures.once(
            view, (form, now.tobytes(), form.ends_s), lambda queue: queue.play(form, now, form.ends_s)
        )
        return played.waits_s[:, 0]


def likely_delay(delays: Ints, remaining_s: int, waits_s: Ints | None) -> int:
    """Index of the delay that leaves about a link's wait; half of the rest if it is unknown."""
    wait_s = remaining_s / 2 if waits_s is None else float(np.percentile(waits_s, 80))
    return max(int(np.searchsorted(delays, remaining_s - wait_s, side="right")) - 1, 1)


def forecast_estimate(remaining_s: int, waits_s: Ints) -> dict[str, float]:
    """Estimate for a decision: the remaining time, and the wait of a link submitted now."""
    return {
        "remaining_s": float(remaining_s),
        "wait_p05_s": float(np.percentile(waits_s, 5)),
        "wait_p50_s": float(np.median(waits_s)),
        "wait_p95_s": float(np.percentile(waits_s, 95)),
    }


def next_decision_s(now_s: int, step_s: int, spare_s: int) -> int:
    """Time of the next decision: after a quarter of the time left beyond the longest wait."""
    return now_s + max(spare_s // 4 // step_s, 1) * step_s


def delays_s(remaining_s: int, step_s: int) -> Ints:
    """Delays of 0, 1, 2, 4, … steps and to the end of the present link: ascending, in seconds.

    In the last two steps also half a step and a sixth before the end: in a nearly empty queue, a whole step is an
    expensive insurance against a burst.
    """
    delays = [0, remaining_s, *(step_s << k for k in range((remaining_s // step_s).bit_length()))]
    if remaining_s < 2 * step_s:
        delays += [remaining_s - step_s // 2, remaining_s - step_s // 6]
    return np.unique([delay for delay in delays if delay >= 0]).astype(np.int64)


def what_if_with_true_run_times(run_s: Ints, **needed: Any) -> WhatIf:
    """Creates ``what-if`` with given run times.

    Args:
        run_s: Shape (jobs,), by job id.
        needed: What ``what-if`` needs of the settings.
    """
    return WhatIf(**needed, run_times=TrueRunTimes(run_s))
