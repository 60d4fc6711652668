"""Sia: the fairest assignment of configurations in every round, by the jobs' goodput.

After Jayaram Subramanya et al., SOSP'23, with the parameters, the table of restart costs and the rounding of its
published simulator. A round of 60 s chooses at most one configuration per job, within the GPUs of every type:

    min Σ_i [Σ_j A_ij·G_ij^p + λ(1 − ‖A_i‖)],  p = −0.5, λ = 1.1,

where a row of G is the job's goodput over its smallest possible goodput, times (T − N·S)/(T + S) in configurations
other than the present one: T is the job's age, N the number of its restarts, S the cost of a restart.

``sia-plus`` differs from the published scheduler:

* Step times are stored by model, not by job. A new job of a known model is placed at once on a suitable GPU type and
  number of GPUs, while Sia starts it on one GPU of any type and doubles it round by round, each time at the cost of a
  restart. The gradient noise of a new job is assumed to be that of the job of the model that was observed earliest in
  its life.
* The assumed cost of a restart is the world's expected cost; the published table is wrong for two models.
* Goodput is maximised over all batches that the model allows, as the running job will do; Sia stops at the batch that
  the user requested.
* Powers of goodput are not rounded to two decimals, which hides small differences between large configurations.
"""

from __future__ import annotations

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.errors import ConfigurationError
from mirage.schedule.rounds.configurations import JobColumns, OfferedConfigurations, refuse_too_large
from mirage.schedule.rounds.goodput_table import GoodputTable
from mirage.schedule.rounds.knapsack import NONE, choose
from mirage.schedule.rounds.placement import Choice
from mirage.schedule.rounds.throughput_history import ThroughputHistory
from mirage.schedule.scheduler_contract import (
    ActiveJobs,
    GpuAction,
    GpuPlan,
    GpuResize,
    GpuView,
    JobStatus,
    Surroundings,
)
from mirage.schedule.schedulers.preemption import checked_way

RESTART_S = {"deepspeech2": 25.0, "imagenet": 250.0, "cifar10": 30.0, "bert": 120.0, "yolov3": 45.0}
"""Restart costs of the published scheduler, in seconds; two of them differ from those of its simulator."""

OTHER_RESTART_S = 30.0

_AT_ONCE_S = 1e-6


class Sia:
    """The scheduler as published.

    Args:
        fairness: The power p; below 0, so that gains of the jobs with the smallest goodput count most.
        waiting: λ, the cost of a job without GPUs; a job with its smallest goodput costs 1.
        most_gpus: No job gets more GPUs, unless it requests more and cannot run on fewer.
        round_s: Seconds between two rounds.
        tune_s: Seconds between updates of the batches of running jobs, also between rounds: jobs choose a better batch
            by themselves after each epoch.
        preempt: save, boundary or kill; a move to other GPUs saves in any case.

    Raises:
        ConfigurationError: The power is not below 0, or a time is not a whole number of seconds above 0; or ``waiting``
            is not above 0, or ``most_gpus`` is below 1.
        UnknownName: There is no such way to preempt.
    """

    decimals: int | None = 2
    """Digits to which powers of goodput are rounded; None for all."""
    bounded_by_user = True
    """Whether a job's goodput counts only up to the batch that its user requested."""
    shares_measurements = False
    """Whether the jobs of a model share their step times."""
    knows_restart_s = False
    """Whether the assumed cost of a restart is the world's expected cost, and not that of the published table."""

    def __init__(
        self,
        fairness: float = -0.5,
        waiting: float = 1.1,
        most_gpus: int = 64,
        round_s: float = 60.0,
        tune_s: float = 15.0,
        preempt: str = "save",
    ) -> None:
        if fairness >= 0:
            raise ConfigurationError(f"the power of goodputs is {fairness}; give a number below 0, such as -0.5")
        if not (round_s > 0 and tune_s > 0 and round_s % 1 == 0 and tune_s % 1 == 0):
            raise ConfigurationError(f"round_s is {round_s} and tune_s {tune_s}; give whole seconds above 0")
        if waiting <= 0:
            raise ConfigurationError(f"waiting is {waiting}; give a number above 0, such as 1.1, else no job starts")
        if most_gpus < 1:
            raise ConfigurationError(f"most_gpus is {most_gpus}; give 1 or more")
        self.fairness, self.waiting, self.most_gpus = fairness, waiting, most_gpus
        self.round_s, self.tune_s, self.preempt = round_s, tune_s, checked_way(preempt)

    def begin(self, surroundings: Surroundings) -> None:
        """Reset the state for a new simulation."""
        types, models = len(surroundings.gpu_types), surroundings.models
        shared = len(models) if self.shares_measurements else 0
        self.gpu_types = surroundings.gpu_types
        self.user_batch: Ints = np.full(surroundings.jobs, -1)
        self.believed_restart_s: Floats = np.array([RESTART_S.get(model, OTHER_RESTART_S) for model in models])
        self.offered = OfferedConfigurations(self.most_gpus)
        self.history = ThroughputHistory(surroundings.speeds, types, surroundings.jobs, shared)
        self.goodput_table = GoodputTable(
            self.history, self.most_gpus, self.bounded_by_user, self.fairness, self.waiting, self.decimals
        )

    def decide(self, view: GpuView) -> GpuPlan:
        """The plan of a round; between rounds, better batches for jobs in a new epoch.

        Raises:
            ConfigurationError: A job fits on no kind of server.
        """
        choice = self._choose(view) if self._is_round(view.now_s) else None
        jobs: JobColumns | ActiveJobs
        if choice is None:  # all jobs stay on the GPUs that they hold
            jobs = view.jobs
            rows = self.history.rows(jobs.id)
            tuned = np.flatnonzero((jobs.status == JobStatus.RUNNING) & (jobs.model >= 0))
            if len(tuned):
                self.history.observe(jobs, rows, tuned)
            gpu_type, servers, gpus = jobs.gpu_type[tuned], jobs.servers[tuned], jobs.held[tuned]
        else:
            jobs, rows, shapes = choice.jobs, choice.rows, choice.shapes
            tuned = np.flatnonzero((choice.chosen >= 0) & (jobs.model >= 0))
            chosen = choice.chosen[tuned]
            gpu_type, servers, gpus = shapes.gpu_type[shapes.kind[chosen]], shapes.servers[chosen], shapes.gpus[chosen]
        batch = jobs.batch.copy()
        batch[tuned] = self.goodput_table.batches(rows[tuned], jobs.model[tuned], gpu_type, servers, gpus)
        if choice is None:
            changed = tuned[batch[tuned] != jobs.batch[tuned]].tolist()
            actions: tuple[GpuAction, ...] = tuple(
                GpuResize(int(jobs.id[k]), batch=int(batch[k]), reason="batch:epoch") for k in changed
            )
        else:
            actions = choice.actions(view.servers.gpus, batch, self.gpu_types, self.preempt)
        again_s = view.now_s + self.tune_s
        tunes = bool((view.jobs.model >= 0).any()) and not self._is_round(again_s)
        return GpuPlan(actions, wake_s=again_s if tunes else None)

    def _is_round(self, time_s: float) -> bool:
        return abs(time_s - round(time_s / self.round_s) * self.round_s) < _AT_ONCE_S

    def _choose(self, view: GpuView) -> Choice:
        """Update measurements, compute values, and choose a configuration for each job.

        Jobs that start or stop do not change.
        """
        jobs, servers = JobColumns(view), view.servers
        shapes = self.offered.offer(jobs, servers)
        batch = self.user_batch[jobs.id]
        new = (batch < 0) | ((batch == 0) & (jobs.model >= 0))  # a real job may name its model later
        self.user_batch[jobs.id[new]] = jobs.batch[new]
        if new.any():
            refuse_too_large(jobs, jobs.min_gpus, servers, shapes.capacity, shapes.pool, "Sia")
        kind = np.where(jobs.held > 0, shapes.kind_of[jobs.first_server], -1)
        present = shapes.find(kind, jobs.held)
        paused = (jobs.held > 0) & ((jobs.paused_until_s > view.now_s + _AT_ONCE_S) | (jobs.status > JobStatus.RUNNING))

        rows, measured = self.history.rows(jobs.id), jobs.model >= 0
        self.history.observe(jobs, rows, np.flatnonzero((jobs.status == JobStatus.RUNNING) & measured))
        restart_s = jobs.restart_s.copy()
        if not self.knows_restart_s:
            restart_s[measured] = self.believed_restart_s[jobs.model[measured]]
        age_s, user_batch = view.now_s - jobs.submit_s, self.user_batch[jobs.id]
        value = self.goodput_table.configuration_values(jobs, rows, user_batch, shapes, present, age_s, restart_s)

        taken = np.bincount(kind[paused], weights=jobs.held[paused], minlength=len(shapes.capacity))
        free = np.flatnonzero(~paused)
        tolerance = 1e-4 * len(free) if self.decimals is None else 0.99 * 10.0**-self.decimals
        found = choose(value[free], shapes.gpus, shapes.kind, shapes.capacity - taken.astype(np.int64), tolerance)
        chosen = np.full(len(jobs.id), NONE)
        chosen[free] = found.configuration
        return Choice(jobs, rows, shapes, kind, present, chosen, paused)


class SiaPlus(Sia):
    """Sia with shared measurements, true restart costs, all batches, and no rounding.

    Its parameters are those of ``Sia``.
    """

    decimals = None
    bounded_by_user = False
    shares_measurements = True
    knows_restart_s = True
