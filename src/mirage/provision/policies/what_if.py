"""``what-if``: run the visible queue forward many times, read off when the next link would start, weigh the costs.

Needs no training, works on a cluster never seen before, and corrects itself at every decision.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.duration import DAY_S
from mirage.errors import ConfigurationError
from mirage.policy.plan import Plan, Submit, Wait
from mirage.policy.view import Chain, Jobs, View
from mirage.provision.chain import Cost
from mirage.provision.policies.futures import UseHistory, chances, days_to_draw, past_arrivals
from mirage.provision.policies.rollout_kernel import roll_out
from mirage.provision.policies.rules import Lead, chain_of, settled
from mirage.sim.contract.from_view import newcomers_standing, revive
from mirage.sim.disciplines import discipline_spec
from mirage.sim.jobs import link_record
from mirage.sim.kernel.allocate import empty_like
from mirage.sim.kernel.arrays import NOBODY
from mirage.sim.slurm_conf.settings import SlurmSettings

ROOM_FOR_ARRIVALS = 1024
_TIE = 1e-9  # hours: where waiting costs nothing, it is free to wait and see
DAYS_AHEAD = 3
"""Arrivals are drawn for so many days; a link that waits longer competes with nobody new."""

_PLENTY = 2
"""So many times the longest wait foreseen is more than enough."""

PATIENCE_S = 5 * DAY_S
"""A future in which the link has not started so long after its predecessor's end is as bad as it gets."""


INFORMATION = 0.5
"""How much of what waiting will teach us is counted in its favour. On the Lonestar6 trace anything from 0.3 to 0.8 does
about as well on windows of December to February; the windows of March were seen too before 0.5 was settled on."""


class WhatIf:
    """Submits when waiting is expected to cost more than submitting now.

    What waiting is worth lies between two bounds, both read off the same futures: the best *fixed* later moment (as
    if nothing were learnt on the way) and the mean of each future's own best moment (as if its future were known by
    then). The rule takes the value ``information`` of the way from the first to the second.

    Args:
        parameter: How many futures each decision plays, as text; empty for ``futures``.
        cost: What an hour of interruption and of overlap costs.
        discipline: How the cluster orders its queue.
        settings: Its scheduler's parameters.
        futures: How many futures each decision plays where the parameter does not say.
        seed: Of the futures; the same seed and view give the same plan.
        information: Share of the way between the bounds, 0 … 1.
        close: Differences below this share of the cost are within what the futures can tell apart; then, with something
            to lose either way, the link is submitted: a place in a real queue is worth more than a forecast's tie.
        glance: Whether to look first at what a link submitted now would wait, a look that chains of the same form
            share, and to weigh only what that leaves open. An agent with hundreds of chains needs it.
    """

    def __init__(
        self,
        parameter: str = "",
        *,
        cost: Cost | None = None,
        discipline: str = "slurm",
        settings: SlurmSettings | None = None,
        futures: int = 64,
        seed: int = 0,
        information: float = INFORMATION,
        close: float = 0.0,
        glance: bool = False,
        **others: Any,
    ) -> None:
        del others
        self.cost = cost or Cost()
        self.spec = discipline_spec(discipline)
        self.settings = settings or SlurmSettings()
        self.futures = futures_from(parameter) if parameter else futures
        self.seed, self.information, self.close, self.glance = seed, information, close, glance
        self._seen: Jobs | None = None
        self._waits: dict[Chain, NDArray[np.int64]] = {}

    def decide(self, view: View) -> Plan:
        """Weigh submitting now against submitting later, over the same futures."""
        chain = chain_of(view)
        if (plan := settled(view, chain)) is not None:
            return plan
        remaining_s = chain.ends_s - view.now_s
        if self.glance and (plan := self._at_a_glance(view, chain, remaining_s)) is not None:
            return plan
        starts_s = self.starts_s(view, delays_s(remaining_s, chain.step_s))
        cost = self.cost.of((starts_s - chain.ends_s).astype(np.float64))
        now, blind, seeing = cost[:, 0].mean(), cost[:, 1:].mean(axis=0).min(), cost[:, 1:].min(axis=1).mean()
        later = blind + self.information * (seeing - blind)
        waits_s = starts_s[:, 0] - view.now_s
        estimate = told(remaining_s, waits_s) | {"cost_now": float(now), "cost_later": float(later)}
        if now < later - _TIE:
            return Plan((Submit(reason="waiting-costs-more"),), estimate)
        if self.close > 0 and _TIE < now <= later * (1 + self.close):
            return Plan((Submit(reason="waiting-gains-nothing"),), estimate)
        until_s = look_again_s(view.now_s, chain.step_s, remaining_s - int(waits_s.max()))
        return Plan((Wait(reason="waiting-costs-less", until_s=until_s),), estimate)

    def _at_a_glance(self, view: View, chain: Chain, remaining_s: int) -> Plan | None:
        """What needs no weighing: a link that comes too late even now, and one for which there is plenty of time."""
        waits_s = self._waits_now(view, chain)
        if waits_s.min() >= remaining_s:
            return Plan((Submit(reason="too-late-even-now"),), told(remaining_s, waits_s))
        longest_s = int(waits_s.max())
        if remaining_s > _PLENTY * longest_s + chain.step_s:
            until_s = look_again_s(view.now_s, chain.step_s, remaining_s - longest_s)
            return Plan((Wait(reason="plenty-of-time", until_s=until_s),), told(remaining_s, waits_s))
        return None

    def _waits_now(self, view: View, chain: Chain) -> NDArray[np.int64]:
        """Waits of a link submitted now, one a future, up to its limit; the same for every chain of its form.

        No present link is taken to be sure to run until its limit.
        """
        if self._seen is not view.pending:
            self._seen = view.pending
            self._waits.clear()
        form = replace(
            chain,
            predecessor=NOBODY,
            submitted_s=view.now_s,
            started_s=view.now_s,
            ends_s=view.now_s + chain.limit_s,
        )
        if form not in self._waits:
            now = np.zeros(1, dtype=np.int64)
            starts_s = self.starts_s(replace(view, chain=form), now, patience_s=0)
            self._waits[form] = starts_s[:, 0] - view.now_s
        return self._waits[form]

    def starts_s(self, view: View, delays_s: NDArray[np.int64], patience_s: int = PATIENCE_S) -> NDArray[np.int64]:
        """When the next link starts, in each future (rows) if submitted after each delay (columns).

        One that has not started so long after the end of the present link is taken to start then.
        """
        chain = chain_of(view)
        rng = np.random.default_rng([self.seed, view.now_s])
        world, seen, scratch = revive(view, self.spec, self.settings, ROOM_FOR_ARRIVALS, view.phase_s)
        uses = self._uses(view)
        jobs = len(view.pending) + len(view.running)
        past = past_arrivals(view, jobs)
        link = link_record(
            jobs + len(world.jobs),
            nodes=chain.nodes,
            limit_s=chain.limit_s,
            gpus=chain.gpus,
            cpus=chain.cpus,
            user=chain.user,
        )
        link.partition = chain.partition
        past.boost = link.boost = newcomers_standing(view, self.settings)
        back = days_to_draw(view, past)
        days = rng.integers(1, back + 1, (self.futures, DAYS_AHEAD)) if back else np.zeros((self.futures, 1), np.int64)
        starts_s = np.zeros((self.futures, len(delays_s)), dtype=np.int64)
        roll_out(
            world, seen, empty_like(seen), empty_like(seen), scratch, self.spec.load(),
            uses.samples, uses.stretch, chances(view, self.futures, rng), past, days,
            link, _slot_of(view, chain), delays_s, chain.ends_s + patience_s, starts_s,
        )  # fmt: skip
        return starts_s

    def _uses(self, view: View) -> Any:
        pending, running = view.pending, view.running
        return UseHistory(view).draw_from(
            np.concatenate([pending.user, running.user]),
            np.concatenate([pending.limit_s, running.limit_s]),
            np.concatenate([pending.done_s, (view.now_s - running.start_s).astype(np.float64)]),
        )


def told(remaining_s: int, waits_s: NDArray[np.int64]) -> dict[str, float]:
    """What is left, and what a link submitted now would wait: the estimate behind a decision."""
    return {
        "remaining_s": float(remaining_s),
        "wait_p05_s": float(np.percentile(waits_s, 5)),
        "wait_p50_s": float(np.median(waits_s)),
        "wait_p95_s": float(np.percentile(waits_s, 95)),
    }


def look_again_s(now_s: int, step_s: int, spare_s: int) -> int:
    """When to decide anew: after a quarter of the time that is left beyond the longest wait."""
    return now_s + max(spare_s // 4 // step_s, 1) * step_s


def futures_from(parameter: str) -> int:
    """The number in ``what-if:32``.

    Raises:
        ConfigurationError: It is none.
    """
    if not parameter.isdecimal() or int(parameter) < 1:
        raise ConfigurationError(f"what-if takes a number of futures, as in what-if:64; got {parameter!r}")
    return int(parameter)


def delays_s(remaining_s: int, step_s: int) -> NDArray[np.int64]:
    """Now, after 1, 2, 4, … steps, and when the present link ends: seconds from now, ascending."""
    steps = [0]
    while (2 ** (len(steps) - 1)) * step_s < remaining_s:
        steps.append(2 ** (len(steps) - 1))
    return np.array([*(k * step_s for k in steps), remaining_s], dtype=np.int64)


def _slot_of(view: View, chain: Chain) -> int:
    """Where the present link stands among the revived jobs: pending first, then running; −1 if it is gone."""
    ids = np.concatenate([view.pending.id, view.running.id])
    found = np.flatnonzero(ids == chain.predecessor)
    return int(found[0]) if len(found) else -1


class SlurmEstimate(Lead):
    """Leads by the start the backfill plan promises: every job at its limit, nobody new (``squeue --start``)."""

    def __init__(self, parameter: str = "", **settings: Any) -> None:
        del parameter
        self._model = WhatIf(**{**settings, "futures": 1})

    def lead_s(self, view: View, chain: Chain) -> float:
        """The wait the plan foresees for a link submitted now."""
        pessimist = replace(view, ended=_nothing_ended(view))
        start_s = self._model.starts_s(pessimist, np.zeros(1, dtype=np.int64))
        return float(start_s[0, 0] - view.now_s)


def _nothing_ended(view: View) -> Any:
    """No history: every job is then taken to run until its limit, and nobody to arrive."""
    return type(view.ended)(*(np.zeros(0, dtype=np.int64) for _ in range(6)))
