"""Sia: the fairest assignment of configurations in every round, by the jobs' goodput.

After Jayaram Subramanya et al., SOSP'23, with the parameters, the table of restart costs and the rounding of its
published simulator. A round of 60 s chooses at most one configuration per job, within the GPUs of every type:

    min Σ_i [Σ_j A_ij·G_ij^p + λ(1 − ‖A_i‖)],  p = −0.5, λ = 1.1,

where a row of G is the job's goodput over its smallest possible goodput, times (T − N·S)/(T + S) in configurations
other than the present one: T is the job's age, N the number of its restarts, S the cost of a restart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.errors import ConfigurationError
from mirage.job_state import Floats, Ints
from mirage.schedule.goodput.configurations import Configurations, configurations
from mirage.schedule.goodput.goodput_table import GoodputTable
from mirage.schedule.goodput.throughput_history import ThroughputHistory
from mirage.schedule.rounds.job_columns import JobColumns, refuse_too_large
from mirage.schedule.rounds.placement import Placement
from mirage.schedule.scheduler_contract import (
    ActiveJobs,
    GpuAction,
    GpuPlan,
    GpuPreempt,
    GpuResize,
    GpuStart,
    GpuView,
    JobStatus,
    Surroundings,
)
from mirage.schedule.schedulers.preemption import checked_way
from mirage.schedule.solver.knapsack import choose
from mirage.schedule.solver.knapsack_kernels import NONE

RESTART_S = {"deepspeech2": 25.0, "imagenet": 250.0, "cifar10": 30.0, "bert": 120.0, "yolov3": 45.0}
"""Restart costs of the published scheduler, in seconds; two of them differ from those of its simulator."""

OTHER_RESTART_S = 30.0
NOTHING = 1e-4
"""Goodput that represents none."""

_LARGEST = 3000.0
_DECIMALS = 2
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

    decimals: int | None = _DECIMALS
    bounded_by_user = True

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
        types = len(surroundings.gpu_types)
        self.surroundings = surroundings
        self.history = ThroughputHistory(surroundings.speeds, types, surroundings.jobs)
        self.user_batch: Ints = np.full(surroundings.jobs, -1, np.int64)
        self.believed_restart_s: Floats = np.array(
            [RESTART_S.get(model, OTHER_RESTART_S) for model in surroundings.models]
        )
        self._shapes: Configurations | None = None
        self._pool: Ints = np.zeros(0, np.int64)
        self._sizes: set[int] = set()

    def decide(self, view: GpuView) -> GpuPlan:
        """The plan of a round; between rounds, better batches for jobs in a new epoch.

        Raises:
            ConfigurationError: A job fits on no kind of server.
        """
        actions = self._round(view) if self._is_round(view.now_s) else self._between(view)
        again_s = view.now_s + self.tune_s
        tunes = bool((view.jobs.model >= 0).any()) and not self._is_round(again_s)
        return GpuPlan(actions, wake_s=again_s if tunes else None)

    def _is_round(self, time_s: float) -> bool:
        return abs(time_s - round(time_s / self.round_s) * self.round_s) < _AT_ONCE_S

    def _between(self, view: GpuView) -> tuple[GpuAction, ...]:
        """Running jobs choose the best batch for now; nothing else changes."""
        jobs = view.jobs
        runs = np.flatnonzero((jobs.status == JobStatus.RUNNING) & (jobs.model >= 0))
        if self._shapes is None or not len(runs):
            return ()
        rows = self.history.rows(jobs.id)
        self.learn(jobs, rows, runs)
        model, rows = jobs.model[runs], rows[runs]
        tuned = self._goodput_table.batches(
            rows, self.learnt(rows, model), model, jobs.gpu_type[runs], jobs.servers[runs], jobs.held[runs]
        )
        changed = np.flatnonzero(tuned != jobs.batch[runs])
        return tuple(
            GpuResize(int(jobs.id[runs[k]]), batch=int(tuned[k]), reason="batch:epoch") for k in changed.tolist()
        )

    def _round(self, view: GpuView) -> tuple[GpuAction, ...]:
        """Update measurements, compute values, choose configurations, place jobs."""
        jobs = JobColumns(view)
        new = self.user_batch[jobs.id] < 0
        self.user_batch[jobs.id[new]] = jobs.batch[new]
        shapes = self._shapes_of(view, jobs)
        if new.any():
            refuse_too_large(jobs, jobs.min_gpus, view.servers, shapes.capacity, shapes.pool, "Sia")
        rows = self.history.rows(jobs.id)
        self.learn(jobs, rows, np.flatnonzero((jobs.status == JobStatus.RUNNING) & (jobs.model >= 0)))
        kind = np.where(jobs.held > 0, shapes.kind_of[jobs.first_server], -1)
        present = shapes.find(kind, jobs.held)
        paused = (jobs.held > 0) & ((jobs.paused_until_s > view.now_s + _AT_ONCE_S) | (jobs.status > JobStatus.RUNNING))
        value = self.value(view, jobs, rows, present, shapes)
        chosen = self._choose(value, jobs, kind, paused, shapes)
        return self._plan(view, jobs, rows, present, kind, chosen, paused, shapes)

    def learn(self, jobs: JobColumns | ActiveJobs, rows: Ints, runs: Ints) -> None:
        """Record the measurements of running jobs.

        Args:
            jobs: All active jobs.
            rows: Row of each job in the throughput history.
            runs: Indices of the running jobs.
        """
        self.history.observe(
            rows[runs],
            jobs.model[runs],
            jobs.gpu_type[runs],
            jobs.servers[runs],
            jobs.held[runs],
            jobs.batch[runs],
            jobs.progress[runs],
            self.learnt(rows[runs], jobs.model[runs]),
        )

    def learnt(self, rows: Ints, model: Ints) -> Ints:
        """Rows of the throughput history that store step times: here each job's own."""
        return rows

    def value(self, view: GpuView, jobs: JobColumns, rows: Ints, present: Ints, shapes: Configurations) -> Floats:
        """Value of each configuration for each job, relative to none; (jobs, configurations)."""
        relative = self.relative_goodput(jobs, rows, shapes)
        remaining_share = self.remaining_share(view, jobs)
        held = np.flatnonzero(present >= 0)
        stays = relative[held, present[held]].copy()
        relative[held] *= remaining_share[held, None]
        relative[held, present[held]] = stays
        np.maximum(relative, 1e-12, out=relative)
        cost = relative**self.fairness
        if self.decimals is not None:
            cost = np.round(cost, self.decimals)
        value: Floats = self.waiting - np.minimum(cost, _LARGEST)
        return value

    def relative_goodput(self, jobs: JobColumns, rows: Ints, shapes: Configurations) -> Floats:
        """Goodput of each job over its smallest possible goodput.

        If nothing is known, it is 1 per GPU on the smallest number of GPUs.
        """
        measured = jobs.model >= 0
        goodput = np.zeros((len(jobs.id), len(shapes)))
        goodput[measured] = self._goodput_table.goodput(
            rows[measured],
            jobs.model[measured],
            self.user_batch[jobs.id[measured]],
            self.learnt(rows[measured], jobs.model[measured]),
            jobs.min_gpus[measured],
            jobs.max_gpus[measured],
        )
        linear = np.flatnonzero(~measured)
        if len(linear):
            fits = (shapes.gpus >= jobs.min_gpus[linear, None]) & (shapes.gpus <= jobs.max_gpus[linear, None])
            rate = shapes.gpus * self.surroundings.speeds.type_speed[shapes.gpu_type[shapes.kind]]
            goodput[linear] = np.where(fits, rate, 0.0)
        elsewhere = (jobs.pool[:, None] >= 0) & (shapes.pool[shapes.kind] != jobs.pool[:, None])
        goodput[elsewhere] = 0.0
        blind: NDArray[np.bool_] = np.any(goodput < 0, axis=1)
        least: Floats = np.where(goodput > NOTHING, goodput, np.inf).min(axis=1, initial=np.inf)
        least = np.where(np.isinf(least), 1.0, least)
        # the smallest goodput of a job that needs n GPUs counts as n
        least /= jobs.min_gpus
        unmeasured = np.where(goodput < 0, jobs.min_gpus[:, None], NOTHING)
        relative: Floats = np.where(blind[:, None], unmeasured, goodput / least[:, None])
        return np.maximum(relative, NOTHING)

    def remaining_share(self, view: GpuView, jobs: JobColumns) -> Floats:
        """The assumed share of goodput that remains to a job if it restarts now."""
        age_s, restart_s = view.now_s - jobs.submit_s, self.restart_s(jobs)
        share = np.maximum(age_s - jobs.restarts * restart_s, 0.0) / np.maximum(age_s + restart_s, _AT_ONCE_S)
        return np.where(age_s < restart_s, 1.0, share)

    def restart_s(self, jobs: JobColumns) -> Floats:
        """The assumed cost of a restart of each job."""
        restart_s = jobs.restart_s.copy()
        measured = jobs.model >= 0
        restart_s[measured] = self.believed_restart_s[jobs.model[measured]]
        return restart_s

    def _shapes_of(self, view: GpuView, jobs: JobColumns) -> Configurations:
        """The configurations of the present servers.

        They are made again when servers change pools or jobs have new sizes.
        """
        sizes = set(jobs.gpus[jobs.model < 0].tolist()) | set(jobs.min_gpus.tolist())
        servers = view.servers
        if self._shapes is None or not (sizes <= self._sizes and np.array_equal(self._pool, servers.pool)):
            self._sizes |= sizes
            self._pool = servers.pool.copy()
            shapes = configurations(
                servers.gpu_type, servers.gpus, servers.pool, self.most_gpus, tuple(sorted(self._sizes))
            )
            self._shapes = shapes
            self._goodput_table = GoodputTable(self.history, shapes, self.most_gpus, self.bounded_by_user)
        return self._shapes

    def _choose(self, value: Floats, jobs: JobColumns, kind: Ints, paused: Any, shapes: Configurations) -> Ints:
        """A configuration for each job; jobs that start or stop do not change."""
        taken = np.bincount(kind[paused], weights=jobs.held[paused], minlength=len(shapes.capacity))
        free = np.flatnonzero(~paused)
        tolerance = 1e-4 * len(free) if self.decimals is None else 0.99 * 10.0**-self.decimals
        found = choose(value[free], shapes.gpus, shapes.kind, shapes.capacity - taken.astype(np.int64), tolerance)
        chosen = np.full(len(jobs.id), NONE, np.int64)
        chosen[free] = found.configuration
        return chosen

    def _plan(
        self,
        view: GpuView,
        jobs: JobColumns,
        rows: Ints,
        present: Ints,
        kind: Ints,
        chosen: Ints,
        paused: Any,
        shapes: Configurations,
    ) -> tuple[GpuAction, ...]:
        """The actions that implement the choice."""
        placement = Placement.of(view.servers.gpus, shapes.kind_of, len(shapes.capacity))
        wanted = []
        for k in range(len(jobs.id)):
            if paused[k] or (chosen[k] == present[k] >= 0):
                placement.leave_in_place(k, jobs.places(k), int(kind[k]), movable=not paused[k])
            elif chosen[k] >= 0:
                wanted.append((k, int(shapes.kind[chosen[k]]), int(shapes.gpus[chosen[k]])))
        placement.place(wanted)
        tuned = self._tuned(jobs, rows, chosen, shapes)
        actions: list[GpuAction] = []
        for k in range(len(jobs.id)):
            if paused[k]:
                continue
            action = self._action(k, jobs, present, chosen, placement, tuned, shapes)
            if action is not None:
                actions.append(action)
        return tuple(actions)

    def _tuned(self, jobs: JobColumns, rows: Ints, chosen: Ints, shapes: Configurations) -> Ints:
        """The batch of each job in its chosen configuration."""
        tuned = jobs.batch.copy()
        some = np.flatnonzero((chosen >= 0) & (jobs.model >= 0))
        at = chosen[some]
        gpu_type = shapes.gpu_type[shapes.kind[at]]
        learnt = self.learnt(rows[some], jobs.model[some])
        tuned[some] = self._goodput_table.batches(
            rows[some], learnt, jobs.model[some], gpu_type, shapes.servers[at], shapes.gpus[at]
        )
        return tuned

    def _action(
        self,
        k: int,
        jobs: JobColumns,
        present: Ints,
        chosen: Ints,
        placement: Placement,
        tuned: Ints,
        shapes: Configurations,
    ) -> GpuAction | None:
        job, batch = int(jobs.id[k]), int(tuned[k])
        places = placement.places.get(k)
        if places is None:
            return GpuPreempt(job, self.preempt, reason="others-gain-more") if jobs.held[k] else None
        if chosen[k] == present[k] and k not in placement.moved:
            return GpuResize(job, batch=batch, reason="batch") if batch != jobs.batch[k] else None
        gpu_type = self.surroundings.gpu_types[shapes.gpu_type[shapes.kind[chosen[k]]]]
        if not jobs.held[k]:
            return GpuStart(job, places, batch=batch, reason=f"goodput:gpu_type={gpu_type},gpus={sum(places.values())}")
        if places == jobs.places(k):
            return None
        why = "moved" if chosen[k] == present[k] else "goodput"
        return GpuResize(job, places, batch=batch, reason=f"{why}:gpu_type={gpu_type},gpus={sum(places.values())}")
