"""PickyMan with all waits weighed, the cheapest way for each victim, and bounds.

It differs from ``pickyman`` in these rules:

1. *All waits.* Of two jobs that want the same GPUs, one waits for the other. Jobs are ordered by remaining time times a
   power of their GPUs, by default the square root: a wide job makes more jobs wait. A newcomer takes GPUs only from
   jobs that come after it by more than a margin, even if their remaining time is reduced by what they lose.
2. *The last in that order are victims first*, and those that are not necessary are spared.
3. *Each victim leaves in its cheapest way*: at the end of its epoch, after a save, or at once, by the least sum of the
   newcomer's wait and the victim's expected loss. A save that may fail costs the work since the last epoch,
   times the probability of failure. If one victim takes long to leave, the others use this time to lose less.
4. *The waiting time saved* must exceed the losses of all victims by the margin. A weight on the losses makes
   preemptions rare: most of the gain comes from few of them.
5. *Bounds.* A job runs for a minimum time after each start, and is preempted a limited number of times. A victim cannot
   preempt its newcomer in turn, as it comes after it by the margin and the newcomer only gets shorter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats, Ints
from mirage.errors import ConfigurationError
from mirage.schedule.schedulers.exchange_plan import ExchangePlan
from mirage.schedule.schedulers.exchanging_scheduler import Exchange, ExchangingScheduler
from mirage.schedule.schedulers.preemption_loss import WAYS, PreemptionLoss


class PickyManPlus(ExchangingScheduler):
    """PickyMan with all waits weighed, and bounds on preemption.

    Args:
        margin: A newcomer comes before its victims, and its waiting time saved exceeds the losses, by this share.
        loss_weight: Weight of the losses against the waiting time saved.
        width_power: Jobs are ordered by remaining time times this power of their GPUs.
        save_succeeds: Probability that a checkpoint on demand succeeds.
        most_preemptions: Number of times that a job can be preempted.
        min_run_s: Seconds for which a job runs after each start before it can be preempted.

    Raises:
        ConfigurationError: A number is below 0, or ``save_succeeds`` above 1.
    """

    name = "pickyman-plus"

    def __init__(
        self,
        margin: float = 0.3,
        loss_weight: float = 1.0,
        width_power: float = 0.5,
        save_succeeds: float = 1.0,
        most_preemptions: int = 50,
        min_run_s: float = 60.0,
    ) -> None:
        super().__init__(min_run_s, most_preemptions)
        for name, value in (("margin", margin), ("loss_weight", loss_weight), ("width_power", width_power)):
            if value < 0:
                raise ConfigurationError(f"{name} is {value}; give a number of 0 or more")
        if not 0 <= save_succeeds <= 1:
            raise ConfigurationError(f"save_succeeds is {save_succeeds}; give a probability from 0 to 1")
        self.margin, self.loss_weight = margin, loss_weight
        self.width_power, self.save_succeeds = width_power, save_succeeds

    def keys(self, plan: ExchangePlan) -> Floats:
        """Remaining time, times a power of the GPUs."""
        return self._weighed(plan, plan.left_s)

    def prepare(self, plan: ExchangePlan) -> None:
        """Compute the losses of each job and its key after them."""
        self._loss = PreemptionLoss.of(plan.view.jobs, plan.speeds, self.save_succeeds)
        self._key = self.keys(plan)
        self._way = np.argmin(self._loss.wait_s + self._loss.lost_s, axis=0)
        lost_s = self._loss.lost_s[self._way, np.arange(len(self._way))]
        self._key_after_loss = self._weighed(plan, plan.left_s - lost_s)

    def exchange(self, plan: ExchangePlan, k: int, may_leave: NDArray[np.bool_]) -> Exchange | None:
        """The last in the order, if the waiting time saved exceeds the losses by the margin."""
        jobs = plan.view.jobs
        found = np.flatnonzero(may_leave & (self._key_after_loss > (1.0 + self.margin) * self._key[k]))
        order = found[np.lexsort((jobs.id[found], -self._key[found]))]
        victims = plan.victims(k, order.tolist())
        if not victims:
            return None
        leave_s, ways = self._ways(victims)
        saved_s = plan.ends.start_s(int(jobs.gpus[k]), plan.later_gpus(k)) - leave_s
        lost_s = float(self._loss.lost_s[ways, victims].sum())
        if saved_s <= (1.0 + self.margin) * self.loss_weight * lost_s:
            return None
        numbers = f"job={jobs.id[k]},victims={len(victims)},saved_s={saved_s:.0f},lost_s={lost_s:.0f}"
        reason = f"comes-first:{numbers},leave_s={leave_s:.0f}"
        return Exchange(victims, [WAYS[way] for way in ways.tolist()], reason)

    def _weighed(self, plan: ExchangePlan, left_s: Floats) -> Floats:
        weighed: Floats = left_s * plan.view.jobs.gpus**self.width_power
        return weighed

    def _ways(self, victims: Sequence[int]) -> tuple[float, Ints]:
        """When the last victim has left, and the way of each that loses least until then."""
        wait_s, lost_s = self._loss.wait_s[:, victims], self._loss.lost_s[:, victims]
        leave_s = float(wait_s[self._way[victims], np.arange(len(victims))].max())
        ways: Ints = np.argmin(np.where(wait_s <= leave_s, lost_s, np.inf), axis=0)
        return leave_s, ways
