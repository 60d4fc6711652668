"""The frame of preemptive schedulers in Python: which jobs leave for which waiting job.

Waiting jobs are considered in the order of the scheduler:

1. A job that fits on free GPUs starts.
2. A job that fits when leaving jobs have left reserves their GPUs, so that no later job takes them. An earlier one may,
   also if it has arrived since.
3. For any other job the scheduler may exchange some running jobs. They are preempted, each in its own way.

A running job is *exempt* from preemption before it has run for a guaranteed time since its start, and when it has been
preempted as often as a job may be.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Floats
from mirage.errors import ConfigurationError
from mirage.schedule.scheduler_contract import GpuPlan, GpuView, How, JobStatus, Surroundings
from mirage.schedule.schedulers.exchange_plan import ExchangePlan, start_costs_s


class Exchange(NamedTuple):
    """Running jobs that leave for a waiting one.

    Attributes:
        victims: Their indices in the view.
        ways: How each of them leaves.
        reason: Why, as in an action.
    """

    victims: Sequence[int]
    ways: Sequence[How]
    reason: str


class ExchangingScheduler(ABC):
    """A preemptive scheduler; subclasses define the order and the exchange.

    Args:
        min_run_s: Seconds for which a job may run after each start before it can be preempted.
        most_preemptions: Number of times that a job can be preempted.

    Raises:
        ConfigurationError: A number is below 0.
    """

    def __init__(self, min_run_s: float, most_preemptions: int) -> None:
        for name, value in (("min_run_s", min_run_s), ("most_preemptions", most_preemptions)):
            if value < 0:
                raise ConfigurationError(f"{name} is {value}; give a number of 0 or more")
        self.min_run_s, self.most_preemptions = min_run_s, most_preemptions

    def begin(self, surroundings: Surroundings) -> None:
        """Reset the state for a new simulation."""
        self._speeds, self._gpus_for_one = surroundings.speeds, surroundings.gpus_for_one
        self._claims: dict[int, float] = {}
        self._works_from_s = np.full(surroundings.jobs, -math.inf)

    def decide(self, view: GpuView) -> GpuPlan:
        """Start what fits, reserve what is leaving, exchange what the scheduler wants."""
        jobs = view.jobs
        waiting = np.flatnonzero(jobs.pending)
        if len(waiting) == 0:
            return GpuPlan()
        plan = ExchangePlan(view, self._speeds, self._gpus_for_one)
        ids = jobs.id.tolist()
        self._claims = {ids[k]: self._claims[ids[k]] for k in waiting.tolist() if ids[k] in self._claims}
        self._note_starts(view)
        keys = self.keys(plan)
        may_leave = self._may_leave(view)
        self.prepare(plan)
        for k in sorted(waiting.tolist(), key=lambda k: (keys[k], ids[k])):
            if self._start(plan, k, len(waiting)) or plan.reserve(k):
                continue
            exchange = self.exchange(plan, k, may_leave)
            if exchange is None:
                continue
            for victim, how in zip(exchange.victims, exchange.ways, strict=True):
                may_leave[victim] = False
                plan.preempt(victim, how, exchange.reason)
            self._claims[ids[k]] = view.now_s
            if not self._start(plan, k, len(waiting)):
                plan.reserve(k)
        return plan.plan()

    @abstractmethod
    def keys(self, plan: ExchangePlan) -> Floats:
        """The key of every job of the view; waiting jobs with the lowest come first."""

    @abstractmethod
    def exchange(self, plan: ExchangePlan, k: int, may_leave: NDArray[np.bool_]) -> Exchange | None:
        """The running jobs that leave for a waiting one that does not fit; None to let it wait.

        Args:
            plan: The plan so far.
            k: The waiting job.
            may_leave: Which jobs of the view are running and not exempt.
        """

    def prepare(self, plan: ExchangePlan) -> None:  # noqa: B027  optional
        """Compute what all exchanges of one plan need."""

    def _note_starts(self, view: GpuView) -> None:
        """Note the starts of jobs that this object has not started, as on a real cluster."""
        jobs = view.jobs
        unknown = (jobs.status == JobStatus.RUNNING) & np.isneginf(self._works_from_s[jobs.id])
        self._works_from_s[jobs.id[unknown]] = jobs.start_s[unknown]

    def _may_leave(self, view: GpuView) -> NDArray[np.bool_]:
        jobs = view.jobs
        mask: NDArray[np.bool_] = jobs.status == JobStatus.RUNNING
        mask &= jobs.preemptions < self.most_preemptions
        mask &= view.now_s - self._works_from_s[jobs.id] >= self.min_run_s
        return mask

    def _start(self, plan: ExchangePlan, k: int, waiting: int) -> bool:
        view = plan.view
        job, left_s = int(view.jobs.id[k]), float(plan.left_s[k])
        reason = f"fits:waiting={waiting},left_s={left_s:.0f}"
        if job in self._claims:
            reason = f"victims-left:after_s={view.now_s - self._claims[job]:.0f},left_s={left_s:.0f}"
        if not plan.start(k, reason):
            return False
        self._claims.pop(job, None)
        self._works_from_s[job] = view.now_s + start_costs_s(view)[k]
        return True
