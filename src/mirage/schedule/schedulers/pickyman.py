"""PickyMan: preempts jobs of deep learning with the cost of preemption in mind.

After PickyMan (IPCCC 2022). Its abstract states (A): preempting a job costs the wait for the end of its epoch and the
reload of model and data; execution times are predicted; the jobs to preempt are found greedily, as an ordered division
of the running set. The rules below are a hypothesis (H), as the body of the paper was not available:

1. Waiting jobs are considered by predicted remaining time, shortest first. A job that fits on free GPUs starts.
2. Otherwise its victims are selected from the running jobs by the least loss per released GPU, until it fits. Then
   those that are not necessary are spared, the most costly first. So the running set is divided into the victims of the
   first waiting job, those of the second, and so on; no job is in two of these sets.
3. A victim has more remaining time than the newcomer, so that no two jobs preempt each other in turn. It is not nearly
   finished: its remaining time is longer than its preemption takes.
4. A victim runs until the end of its epoch and then leaves. It loses the time of a save and of its restart; the
   newcomer waits for the last of its victims.
5. The newcomer preempts only if the waiting time that it saves is longer than all losses together. Without preemption
   it would start when enough GPUs are free, if jobs end as predicted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.scheduler_contract import How
from mirage.schedule.schedulers.exchange_plan import ExchangePlan
from mirage.schedule.schedulers.exchanging_scheduler import Exchange, ExchangingScheduler
from mirage.schedule.schedulers.preemption_loss import WAYS, PreemptionLoss

_UNBOUNDED = 1 << 62


class PickyMan(ExchangingScheduler):
    """PickyMan as published, as far as its rules are known.

    Args:
        near_end: A job with less remaining time than this multiple of the time that its preemption takes is nearly
            finished, and never a victim.
        width_power: Waiting jobs are considered by their remaining time times this power of their GPUs.
        preempt: How victims leave: boundary, save or kill. As published they run until the end of their epoch.

    Raises:
        ConfigurationError: A number is below 0.
        UnknownName: There is no such way to preempt.
    """

    name = "pickyman"

    def __init__(self, near_end: float = 1.0, width_power: float = 0.0, preempt: How = "boundary") -> None:
        super().__init__(min_run_s=0.0, most_preemptions=_UNBOUNDED)
        for name, value in (("near_end", near_end), ("width_power", width_power)):
            if value < 0:
                raise ConfigurationError(f"{name} is {value}; give a number of 0 or more")
        if preempt not in WAYS:
            raise UnknownName("way to preempt", preempt, WAYS)
        self.near_end, self.width_power, self.preempt = near_end, width_power, preempt

    def keys(self, plan: ExchangePlan) -> Floats:
        """Predicted remaining time, times a power of the GPUs."""
        keys: Floats = plan.left_s * plan.view.jobs.gpus**self.width_power
        return keys

    def prepare(self, plan: ExchangePlan) -> None:
        """Compute what each job loses, and when it could leave."""
        jobs = plan.view.jobs
        loss = PreemptionLoss.of(jobs, plan.speeds)
        way = WAYS.index(self.preempt)
        self._wait_s = loss.wait_s[way]
        self._lost_s = loss.lost_s[way] if self.preempt == "kill" else jobs.save_s + jobs.restart_s
        self._key = self.keys(plan)
        self._finishes_soon = jobs.left_s <= self._wait_s + self.near_end * self._lost_s

    def exchange(self, plan: ExchangePlan, k: int, may_leave: NDArray[np.bool_]) -> Exchange | None:
        """The victims with the least losses, if the waiting time saved is longer than these."""
        jobs = plan.view.jobs
        found = np.flatnonzero(may_leave & ~self._finishes_soon & (self._key > self._key[k]))
        order = found[np.lexsort((jobs.id[found], -jobs.left_s[found], self._lost_s[found]))]
        victims = plan.victims(k, order.tolist())
        if not victims:
            return None
        leave_s = float(self._wait_s[victims].max())
        saved_s = plan.ends.start_s(int(jobs.gpus[k]), plan.later_gpus(k)) - leave_s
        lost_s = float(self._lost_s[victims].sum())
        if saved_s <= lost_s:
            return None
        numbers = f"job={jobs.id[k]},victims={len(victims)},saved_s={saved_s:.0f},lost_s={lost_s:.0f}"
        return Exchange(victims, [self.preempt] * len(victims), f"waiting-saved:{numbers},leave_s={leave_s:.0f}")
