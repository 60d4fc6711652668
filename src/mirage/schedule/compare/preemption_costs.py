"""Costs of preemption given by the user or by the workload, for jobs without measurements."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

import numpy as np

from mirage.errors import ConfigurationError
from mirage.schedule.engine.gpu_world import LifeCosts
from mirage.schedule.schedulers.preemption import CHEAPER
from mirage.schedule.speeds.speed_arrays import LINEAR
from mirage.schedule.workload.gpu_jobs import GpuJobs


@dataclass(frozen=True, slots=True)
class PreemptionCosts:
    """Costs of preemption for all jobs alike; None leaves each job its own.

    A first start of a job without measurements costs nothing, as run times of traces contain it.

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

    def preempt(self, jobs: GpuJobs, in_rounds: bool) -> str:
        """The default way in which a scheduler preempts these jobs.

        Schedulers in rounds let jobs take turns, and would kill some jobs again and again before they reach a
        checkpoint. If jobs cannot save on demand, they leave at the next checkpoint.
        """
        has_checkpoints = self.checkpoint_s is not None or bool(np.isfinite(jobs.checkpoint_s).any())
        can_save = self.save_s is not None or bool((jobs.save_s > 0).any())
        if not has_checkpoints or (in_rounds and can_save):
            return "save"
        if in_rounds:
            return "boundary"
        return CHEAPER if can_save else "kill"

    def life_costs(self, jobs: GpuJobs) -> LifeCosts:
        """The costs of jobs; costs that are not given are those of the jobs."""
        return LifeCosts.of(
            jobs,
            first_start_s=np.where(jobs.model == LINEAR, 0.0, jobs.restart_s),
            restart_s=self.restart_s,
            rescale_s=self.restart_s,
            save_s=self.save_s,
            checkpoint_work=None if self.checkpoint_s is None else np.multiply(jobs.gpus, float(self.checkpoint_s)),
        )

    def check(self, workload: str, jobs: GpuJobs) -> None:
        """Refuse costs that jobs have already, by measured models or by columns of their file.

        Raises:
            ConfigurationError: A cost was given twice.
        """
        given = [f"--{name.replace('_', '-')}" for name, value in asdict(self).items() if value is not None]
        if given and (jobs.model >= 0).any():
            raise ConfigurationError(
                f"{workload}: the measured speeds of its jobs include the cost of restarts; leave out "
                f"{', '.join(given)}, or change models.toml if the speeds are a folder of profiles"
            )
        own = {
            "restart_s": ("restart_s", (jobs.restart_s > 0).any()),
            "save_s": ("save_s", (jobs.save_s > 0).any()),
            "checkpoint_s": ("checkpoint_every_s", np.isfinite(jobs.checkpoint_s).any()),
        }
        for name, value in asdict(self).items():
            column, has_own = own[name]
            if value is not None and has_own:
                raise ConfigurationError(
                    f"{workload}: its jobs have their own {column}; leave out --{name.replace('_', '-')}, or remove "
                    "the column"
                )
