"""Slurm's preemption by tiers with requeue, and the options that sites set with it.

1. Jobs are considered by tier, then by submission; jobs that fit are backfilled without a reservation.
2. Candidates are running jobs of lower tiers: the lowest tier first, then the smallest, or with ``youngest_first``
   those that started last. Jobs that are not necessary are spared.
3. ``PreemptMode=REQUEUE``: a victim is killed, and continues from its last checkpoint.
4. ``PreemptExemptTime``: a job is not preempted before it has run for this time. Without it, the smallest first lets
   victims of one tier be preempted again and again.

Workloads have no tiers, so jobs get theirs by run time, as sites do with queues for short, normal and long jobs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.schedulers.exchange_plan import ExchangePlan
from mirage.schedule.schedulers.exchanging_scheduler import Exchange, ExchangingScheduler

_UNBOUNDED = 1 << 62

_ORDERS = ("smallest", "youngest")


class SlurmPreempt(ExchangingScheduler):
    """Slurm's preemption between tiers of run time.

    Args:
        tier_limits_s: Run times at which the tiers end, ascending; shorter jobs have a higher tier.
        first: smallest or youngest (``youngest_first``).
        exempt_s: ``PreemptExemptTime``.

    Raises:
        ConfigurationError: The limits do not ascend from above 0, or ``exempt_s`` is below 0.
        UnknownName: ``first`` is no such order.
    """

    name = "slurm-preempt"

    def __init__(
        self, tier_limits_s: Sequence[float] = (3600.0, 43200.0), first: str = "youngest", exempt_s: float = 600.0
    ) -> None:
        super().__init__(exempt_s, _UNBOUNDED)
        self.tier_limits_s = np.asarray(tier_limits_s, dtype=np.float64)
        if len(self.tier_limits_s) == 0 or np.any(np.diff(np.append(0.0, self.tier_limits_s)) <= 0):
            raise ConfigurationError(f"tier_limits_s {list(tier_limits_s)} do not ascend from above 0; give 3600/43200")
        if first not in _ORDERS:
            raise UnknownName("order of victims", first, _ORDERS)
        self.first = first

    def keys(self, plan: ExchangePlan) -> Floats:
        """Higher tiers first, then by submission."""
        jobs = plan.view.jobs
        keys: Floats = self._tier(jobs.run_s) * (float(jobs.id.max()) + 1.0) + jobs.id
        return keys

    def exchange(self, plan: ExchangePlan, k: int, may_leave: NDArray[np.bool_]) -> Exchange | None:
        """Jobs of lower tiers, the lowest first."""
        jobs = plan.view.jobs
        tier = self._tier(jobs.run_s)
        found = np.flatnonzero(may_leave & (tier > tier[k]))
        started_s = self._works_from_s[jobs.id[found]]
        within = jobs.held[found] if self.first == "smallest" else -started_s
        order = found[np.lexsort((jobs.id[found], within, -tier[found]))]
        victims = plan.victims(k, order.tolist())
        if not victims:
            return None
        numbers = f"job={jobs.id[k]},tier={tier[k]:.0f},victims={len(victims)}"
        return Exchange(victims, ["kill"] * len(victims), f"higher-tier:{numbers}")

    def _tier(self, run_s: Floats) -> Floats:
        """The number of a job's tier, 0 for the highest."""
        tier: Floats = np.searchsorted(self.tier_limits_s, run_s).astype(np.float64)
        return tier
