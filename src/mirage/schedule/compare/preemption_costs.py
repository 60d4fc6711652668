"""Costs of preemption given by the user, for workloads without measurements."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from mirage.errors import ConfigurationError
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.schedulers.preemption import CHEAPER
from mirage.schedule.workload.gpu_jobs import GpuJobs


@dataclass(frozen=True, slots=True)
class PreemptionCosts:
    """Costs of preemption for each job; None if not given.

    A first start costs nothing, as run times of traces contain it.

    Attributes:
        restart_s: Seconds without work at every later start, and at a change of size or location.
        save_s: Seconds to save the work of a preempted job.
        checkpoint_s: Seconds of run time between two checkpoints that a job writes in any case, at a GPU speed of 1.
            Without ``save_s``, work is safe only at these checkpoints.

    Raises:
        ConfigurationError: A time is below 0 or not a finite number, or ``checkpoint_s`` is 0.
    """

    restart_s: float | None = None
    save_s: float | None = None
    checkpoint_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and not (0 <= value < math.inf and (value > 0 or name != "checkpoint_s")):
                least = "above 0" if name == "checkpoint_s" else "of 0 or more"
                raise ConfigurationError(f"{name} is {value}; give a number of seconds {least}")

    def preempt(self, in_rounds: bool) -> str:
        """The default way in which a scheduler preempts.

        Schedulers in rounds let jobs take turns, and would kill some jobs again and again before they reach a
        checkpoint. If jobs cannot save on demand, they leave at the next checkpoint.
        """
        if self.checkpoint_s is None or (in_rounds and self.save_s is not None):
            return "save"
        if in_rounds:
            return "boundary"
        return "kill" if self.save_s is None else CHEAPER

    def life_costs(self, jobs: GpuJobs) -> LifeCosts:
        """The costs of jobs; costs that are not given are those of the jobs."""
        return LifeCosts.of(
            jobs,
            first_start_s=None if self.restart_s is None else 0.0,
            restart_s=self.restart_s,
            rescale_s=self.restart_s,
            save_s=self.save_s or 0.0,
            checkpoint_work=np.inf if self.checkpoint_s is None else np.multiply(jobs.gpus, float(self.checkpoint_s)),
        )

    def check(self, workload: str, jobs: GpuJobs) -> None:
        """Refuse jobs with measured models, which have costs of their own.

        Raises:
            ConfigurationError: There are such jobs, and costs were given.
        """
        given = [f"--{name.replace('_', '-')}" for name, value in asdict(self).items() if value is not None]
        if given and (jobs.model >= 0).any():
            raise ConfigurationError(
                f"{workload}: the measured speeds of its jobs include the cost of restarts; leave out "
                f"{', '.join(given)}, or change models.toml if the speeds are a folder of profiles"
            )
