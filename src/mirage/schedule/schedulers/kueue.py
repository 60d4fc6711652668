"""The preemption rule of Kueue, with priorities from the order of submission.

1. Workloads are considered by priority, then by submission; one that does not fit does not block the others (Kueue's
   *BestEffortFIFO*).
2. Candidates for preemption have a lower priority (*LowerPriority*): the lowest first, then the newest start first.
   They are selected until the workload fits.
3. Then those that still fit are added back, in reverse order.
4. A victim is killed, and continues from its last checkpoint when it is admitted again.

Jobs of a workload have no priority, so a number of successive submissions is a class, and an earlier class has the
higher priority: the rule then protects long waiting jobs. Victims precede no job of a higher class, so it cannot
livelock.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.errors import ConfigurationError
from mirage.schedule.schedulers.exchange_plan import ExchangePlan
from mirage.schedule.schedulers.exchanging_scheduler import Exchange, ExchangingScheduler

_UNBOUNDED = 1 << 62


class Kueue(ExchangingScheduler):
    """Kueue's rule: the lowest priority and the newest first.

    Args:
        class_jobs: Number of successive submissions with one priority.
        min_run_s: Seconds for which a job runs after each start before it can be preempted.

    Raises:
        ConfigurationError: ``class_jobs`` is below 1, or ``min_run_s`` below 0.
    """

    name = "kueue"

    def __init__(self, class_jobs: int = 50, min_run_s: float = 0.0) -> None:
        super().__init__(min_run_s, _UNBOUNDED)
        if class_jobs < 1:
            raise ConfigurationError(f"class_jobs is {class_jobs}; give a whole number of 1 or more")
        self.class_jobs = class_jobs

    def keys(self, plan: ExchangePlan) -> Floats:
        """The order of submission, which contains that of the classes."""
        return plan.view.jobs.id.astype(np.float64)

    def exchange(self, plan: ExchangePlan, k: int, may_leave: NDArray[np.bool_]) -> Exchange | None:
        """Jobs of later classes, the newest first."""
        jobs = plan.view.jobs
        of_job = jobs.id // self.class_jobs
        found = np.flatnonzero(may_leave & (of_job > of_job[k]))
        order = found[np.lexsort((-jobs.id[found], -self._works_from_s[jobs.id[found]], -of_job[found]))]
        victims = plan.victims(k, order.tolist())
        if not victims:
            return None
        numbers = f"job={jobs.id[k]},class={of_job[k]},victims={len(victims)}"
        return Exchange(victims, ["kill"] * len(victims), f"lower-priority:{numbers}")
