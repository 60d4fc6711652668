"""Costs of preempting running jobs now: the wait for their GPUs, and the time lost.

A preempted job loses the time to save, if it saves, the time of its restart, and the work that it does again. Waiting
for the next checkpoint is useful work.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.array_types import Floats
from mirage.schedule.scheduler_contract import ActiveJobs, How, JobStatus
from mirage.schedule.speeds.speed_arrays import LINEAR, Speeds
from mirage.schedule.speeds.speed_law import speed

WAYS: tuple[How, ...] = ("boundary", "save", "kill")
"""The ways to preempt, in the order of the rows of ``PreemptionLoss``."""

_AT_BOUNDARY = 1e-9
"""As the engine: progress this close to a checkpoint has reached it."""


@dataclass(frozen=True, slots=True)
class PreemptionLoss:
    """Costs of preempting each job now; shapes (3, jobs), one row for each of ``WAYS``.

    Attributes:
        wait_s: Expected seconds until its GPUs are free; infinite if it would end first.
        lost_s: Expected seconds for which it will hold GPUs without useful work.
    """

    wait_s: Floats
    lost_s: Floats

    @classmethod
    def of(cls, jobs: ActiveJobs, speeds: Speeds, save_succeeds: float = 1.0) -> PreemptionLoss:
        """The costs of all jobs of a view.

        Args:
            jobs: Jobs with known run times.
            speeds: The speeds of the world; a running job's own speed can be observed.
            save_succeeds: Probability that a checkpoint on demand can be read later; if not, the job repeats the work
                since its last regular checkpoint.
        """
        running = jobs.status == JobStatus.RUNNING
        s_per_work = seconds_per_work(jobs, speeds)
        unsafe_s = np.where(running, (jobs.progress - jobs.safe_progress) * s_per_work, 0.0)
        save_s = np.where(unsafe_s > 0, jobs.save_s, 0.0)
        wait_s = np.stack([until_checkpoint_s(jobs, s_per_work, unsafe_s), save_s, np.zeros(len(jobs))])
        lost_s = jobs.restart_s + np.stack([np.zeros(len(jobs)), save_s + (1.0 - save_succeeds) * unsafe_s, unsafe_s])
        return cls(wait_s, lost_s)


def seconds_per_work(jobs: ActiveJobs, speeds: Speeds) -> Floats:
    """Seconds that each job takes for a unit of work on its present GPUs; 0 without GPUs."""
    found: Floats = np.zeros(len(jobs))
    holds = jobs.held > 0
    linear = holds & (jobs.model == LINEAR)
    found[linear] = 1.0 / (jobs.held[linear] * speeds.type_speed[jobs.gpu_type[linear]])
    for k in np.flatnonzero(holds & ~linear).tolist():
        placement = int(jobs.gpu_type[k]), int(jobs.servers[k]), int(jobs.held[k])
        found[k] = 1.0 / speed(speeds, int(jobs.model[k]), *placement, int(jobs.batch[k]), float(jobs.progress[k]))
    return found


def until_checkpoint_s(jobs: ActiveJobs, s_per_work: Floats, unsafe_s: Floats) -> Floats:
    """Expected seconds until the next regular checkpoint; infinite if a job ends before."""
    every = jobs.checkpoint_work
    regular = (every > 0) & np.isfinite(every)
    passed = np.floor(np.divide(jobs.progress, every, out=np.zeros(len(jobs)), where=regular) + _AT_BOUNDARY)
    left = np.where(regular, (passed + 1.0) * np.where(regular, every, 0.0) - jobs.progress, np.inf)
    with np.errstate(invalid="ignore"):
        wait_s = np.where(unsafe_s > 0, left * s_per_work, 0.0)
    waits: Floats = np.where(wait_s < jobs.left_s, wait_s, np.inf)
    return waits
