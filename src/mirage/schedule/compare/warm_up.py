"""Warm-up of a scheduler, so that imports and compilation are not part of its timings.

The scheduler first decides on a few jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import numpy as np

from mirage.errors import PlanInfeasible
from mirage.schedule.compare.row import BUSY_JOBS
from mirage.schedule.contract import Cancel, Plan, Scheduler, Surroundings, View
from mirage.schedule.engine.simulation import GpuSimulation
from mirage.schedule.workload.jobs import GpuJobs

DECISIONS = 20
"""Enough for a scheduler in rounds to give jobs several GPUs and to observe the result."""


def warm_up(scheduler: Scheduler, jobs: GpuJobs, simulated: Callable[[GpuJobs, Scheduler], GpuSimulation]) -> None:
    """Let a scheduler decide a few times on the first jobs of a workload.

    All these jobs are submitted at once.

    Args:
        scheduler: A scheduler that is not used afterwards, as it has a memory.
        jobs: The workload.
        simulated: Makes a simulation of jobs under a scheduler.
    """
    few = jobs[: 2 * BUSY_JOBS]
    simulation = simulated(replace(few, submit_s=np.zeros(len(few))), _Brief(scheduler))
    with suppress(PlanInfeasible):  # it may wait for jobs that are not part of the warm-up; the real run reports this
        simulation.run()


class _Brief:
    """A scheduler that cancels all jobs after ``DECISIONS`` decisions."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler, self.left = scheduler, DECISIONS
        self.name = getattr(scheduler, "name", type(scheduler).__name__)
        self.round_s = getattr(scheduler, "round_s", None)
        self.asked_on = getattr(scheduler, "asked_on", None)

    def begin(self, surroundings: Surroundings) -> None:
        begin = getattr(self.scheduler, "begin", None)
        if begin is not None:
            begin(surroundings)

    def decide(self, view: View) -> Plan:
        self.left -= 1
        if self.left < 0:
            return Plan(tuple(Cancel(job_id) for job_id in view.jobs.id.tolist()))
        return self.scheduler.decide(view)
