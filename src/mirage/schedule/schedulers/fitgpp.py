"""FitGpp: short jobs preempt one long job that is small and leaves quickly.

After FitGpp (Yabuuchi et al., OpML 2019), as far as known without its text: trial jobs have priority over best-effort
jobs; the victim is small and has a short grace period; a job is preempted a limited number of times. The details are a
hypothesis (H): trial jobs are those with a short run time, the grace period is the time of a save and a restart, and
the score is the sum of both, each divided by its largest value, with a weight of 4 on the grace period.

Without the limit, and without a minimum run time, victims that return preempt each other's successors in circles.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.schedule.schedulers.exchange_plan import ExchangePlan
from mirage.schedule.schedulers.exchanging_scheduler import Exchange, ExchangingScheduler


class FitGpp(ExchangingScheduler):
    """Trial jobs before best-effort jobs, each in order of submission.

    Args:
        trial_s: Run time up to which a job is a trial job.
        grace_weight: Weight of the grace period against the size.
        most_preemptions: Number of times that a job can be preempted.
        min_run_s: Seconds for which a job runs after each start before it can be preempted.

    Raises:
        ConfigurationError: A number is below 0.
    """

    name = "fitgpp"

    def __init__(
        self, trial_s: float = 1800.0, grace_weight: float = 4.0, most_preemptions: int = 1, min_run_s: float = 600.0
    ) -> None:
        super().__init__(min_run_s, most_preemptions)
        self.trial_s, self.grace_weight = trial_s, grace_weight

    def keys(self, plan: ExchangePlan) -> Floats:
        """Trial jobs first, then by submission."""
        jobs = plan.view.jobs
        keys: Floats = np.where(jobs.run_s <= self.trial_s, 0.0, 1.0) * (float(jobs.id.max()) + 1.0) + jobs.id
        return keys

    def exchange(self, plan: ExchangePlan, k: int, may_leave: NDArray[np.bool_]) -> Exchange | None:
        """The best-effort job with the lowest score that makes room alone; else several."""
        jobs = plan.view.jobs
        if jobs.run_s[k] > self.trial_s:
            return None
        found = np.flatnonzero(may_leave & (jobs.run_s > self.trial_s))
        if len(found) == 0:
            return None
        grace_s = (jobs.save_s + jobs.restart_s)[found]
        longest_s = max(float(grace_s.max()), 1e-9)
        score = jobs.held[found] / jobs.held[found].max() + self.grace_weight * grace_s / longest_s
        order = found[np.lexsort((jobs.id[found], score))].tolist()
        alone = (plan.victims(k, [victim]) for victim in order)
        victims = next((one for one in alone if one), None) or plan.victims(k, order)
        if not victims:
            return None
        score_of = dict(zip(found.tolist(), score.tolist()))
        numbers = f"job={jobs.id[k]},victims={len(victims)},score={sum(score_of[v] for v in victims):.2f}"
        return Exchange(victims, ["save"] * len(victims), f"small-and-quick:{numbers}")
