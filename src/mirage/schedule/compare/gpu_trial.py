"""A trial: plays one workload under one scheduler to its end."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from mirage.array_types import Ints
from mirage.duration import DAY_S, format_duration
from mirage.errors import ConfigurationError, ContractBroken, MirageError, PlanInfeasible, quantity
from mirage.schedule.compare.assumptions import Assumptions
from mirage.schedule.compare.gpu_comparison_row import BUSY_JOBS, GpuComparisonRow, policy_times_ms
from mirage.schedule.compare.inference_demand import DAILY, pool_of_jobs, read_demand
from mirage.schedule.compare.preemption_costs import PreemptionCosts
from mirage.schedule.compare.request_load import RequestLoad, read_request_load
from mirage.schedule.compare.run_time_predictions import with_predictions
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.compare.workload_names import workload_name
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.engine.gpu_world import Demand, KnownRunTimes, most_gpus
from mirage.schedule.engine.measures import completed, measures, submitted_in
from mirage.schedule.gpu_cluster import GpuCluster
from mirage.schedule.rounds.configurations import server_kinds
from mirage.schedule.scheduler_contract import GpuCancel, GpuPlan, GpuScheduler, GpuView, Surroundings
from mirage.schedule.speeds.profiles import Profiles
from mirage.schedule.speeds.speed_arrays import LINEAR, runs_on
from mirage.schedule.workload.gpu_jobs import ALL_TYPES, ANY_POOL, GpuJobs, allows_types
from mirage.schedule.workload.gpu_workload import GpuWorkload, read_any_profiles, read_workload
from mirage.study.executors.work_codec import sent_to_jobs
from mirage.study.trial import TrialFailure

WORST_ERROR = 100.0
"""Predictions with larger errors could be infinite."""

LATEST_S = 1e10
"""Seconds, about 300 years: doubles cannot resolve the engine's ticks at much later times."""

AFTER_LAST_S = 10 * DAY_S
"""The daily demand is simulated for this time after the last submission."""

USUAL_WAY = "save"
"""The way to preempt of schedulers without a rule of their own: the costs of the jobs may change it."""

WARM_UP_DECISIONS = 20
"""Enough for a scheduler in rounds to give jobs several GPUs and to observe the result."""


@dataclass(frozen=True, slots=True)
class GpuSetting:
    """The cluster and options of trials.

    Attributes:
        cluster: The servers.
        profiles: Folder or file of measured speeds; None for none.
        seed: Seed of the random costs.
        cost_spread: Coefficient of variation of the costs of starts, restarts and saving.
        later_s: Seconds by which every submission is postponed.
        first_jobs: Number of jobs to play of each workload, from the first; None for all.
        skip_impossible: Whether jobs that fit nowhere are left out; else they are refused.
        preemption_costs: Costs of preemption for jobs without measurements.
        one_kind: Whether jobs must fit on servers of one GPU type, one size and one pool.
        demand: Inference demand: a file, or ``DAILY``; None for none. Jobs then run in the pool without demand.
        window_s: Measures of jobs are over those submitted in this window; None for all.
        assumptions: Assumptions that change the jobs, the demand and the parameters of schedulers.
        gpus_per_node: GPUs of a node, for job tables without GPUs; None for one, with a remark.
        prediction_error: Standard deviation of the logarithm of predicted over true run times; 0 for no predictions.
        save_succeeds: Probability that a checkpoint on demand succeeds.

    Raises:
        ConfigurationError: A number is below 0, too large, or NaN.
    """

    cluster: GpuCluster
    profiles: str | None = None
    seed: int = 0
    cost_spread: float = 0.0
    later_s: float = 0.0
    first_jobs: int | None = None
    skip_impossible: bool = False
    preemption_costs: PreemptionCosts = field(default_factory=PreemptionCosts)
    one_kind: bool = False
    gpus_per_node: int | None = None
    demand: str | None = None
    window_s: tuple[float, float] | None = None
    assumptions: Assumptions = field(default_factory=Assumptions)
    prediction_error: float = 0.0
    save_succeeds: float = 1.0

    def __post_init__(self) -> None:
        for name, most in (("cost_spread", math.inf), ("later_s", LATEST_S), ("prediction_error", WORST_ERROR)):
            if not 0 <= getattr(self, name) < most:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; give a number of 0 or more, below {most:g}")
        if not 0 <= self.save_succeeds <= 1:
            raise ConfigurationError(f"save_succeeds is {self.save_succeeds}; give a probability from 0 to 1")

    def demand_of(self, jobs: GpuJobs) -> tuple[Demand, ...]:
        """Inference demand while these jobs run.

        Raises:
            MirageError: The file cannot be used, or the cluster has no pool for inference.
        """
        if self.demand is None:
            return ()
        first_s, last_s = float(jobs.submit_s.min()), float(jobs.submit_s.max())
        if self.demand == DAILY:
            return self.assumptions.daily_demand().over(self.cluster, last_s + AFTER_LAST_S, self.seed)
        if (load := self.request_load()) is not None:
            demand = load.demand(**self.assumptions.announcements, seed=self.seed)
        else:
            demand = read_demand(self.demand, self.cluster)
        begin_s, end_s = demand[0].time_s, demand[-1].time_s
        if begin_s > last_s or begin_s < end_s < first_s:
            raise ConfigurationError(
                f"{self.demand}: the demand changes from {begin_s:,.0f} s to {end_s:,.0f} s, and the jobs are "
                f"submitted from {first_s:,.0f} s to {last_s:,.0f} s; give the times of both on one clock"
            )
        return demand

    def request_load(self) -> RequestLoad | None:
        """Requests to inference; None if the demand is in servers.

        Raises:
            MirageError: The file cannot be used, or the servers are too few.
        """
        if self.demand in (None, DAILY):
            return None
        return read_request_load(self.demand, self.cluster, self.assumptions.serving())

    def under(self, schedulers: Iterable[SchedulerText]) -> GpuSetting:
        """The setting in which all these schedulers play the same jobs.

        These are the jobs that fit under each of the schedulers.
        """
        cluster = self.cluster
        kinds = len(server_kinds(cluster.gpu_type_of, cluster.gpus_of, cluster.pool_of)[2])
        strict = kinds > len(cluster.gpu_types) and any(scheduler.spec.one_kind for scheduler in schedulers)
        return replace(self, one_kind=strict)


@dataclass(frozen=True, slots=True)
class GpuTrial:
    """One workload, by its file, under one scheduler."""

    workload: str
    scheduler: SchedulerText


@dataclass(frozen=True, slots=True)
class GpuOutcome:
    """The result of a trial.

    Attributes:
        row: Its measures.
        jct_s: Time from submission to completion of every job that ended, in order of submission.
        left_out: Jobs of the workload that were not played: reason and count.
        notes: Remarks on the workload's file.
    """

    row: GpuComparisonRow
    jct_s: tuple[float, ...]
    left_out: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Reads back what ``asdict`` returned.

        Raises:
            KeyError: A value is missing.
            TypeError: These are not the values of an outcome.
            ValueError: A count is none.
        """
        left_out = tuple((str(reason), int(count)) for reason, count in plain["left_out"])
        return cls(GpuComparisonRow(**plain["row"]), tuple(plain["jct_s"]), left_out, tuple(plain["notes"]))


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Report an unexpected error in one line with its file and line.

    A scheduler may come from another package.
    """
    try:
        yield
    except MirageError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        message = " ".join(str(error).split())
        raise ContractBroken(
            f"{type(error).__name__}: {message} ({where.filename}:{where.lineno}); fix the scheduler, or leave it out"
        ) from error


@errors_in_one_line()
def play(setting: GpuSetting, workload: GpuWorkload, scheduler: SchedulerText) -> tuple[GpuOutcome, GpuLog]:
    """Play a workload to its end; returns its measures and its log.

    Raises:
        MirageError: The run does not complete; or the scheduler fails, and the message names the file and line.
    """
    if scheduler.spec.one_kind and (workload.jobs.types != ALL_TYPES).any():
        raise ConfigurationError(
            f"{workload.path}: its jobs name GPU types, which {scheduler.name} cannot respect; remove the column "
            "gpu_types, or choose another scheduler"
        )
    if scheduler.spec.one_kind and (setting.cluster.gpus_for_one() > 1).any():
        raise ConfigurationError(
            f"{scheduler.name} does not support several GPUs for one (gpus_for_one); choose another scheduler"
        )
    known: KnownRunTimes = "run-time" if scheduler.spec.knows_run_s else "estimate"
    defaults: dict[str, Any] = {"save_succeeds": setting.save_succeeds, **setting.assumptions.of_schedulers}
    if scheduler.spec.parameters.get("preempt") == USUAL_WAY:
        in_rounds = "round_s" in scheduler.spec.parameters
        defaults["preempt"] = setting.preemption_costs.preempt(workload.jobs, in_rounds)
    demand, load = setting.demand_of(workload.jobs), setting.request_load()

    def simulated(jobs: GpuJobs, made: GpuScheduler | CompiledScheduler) -> GpuSimulation:
        return GpuSimulation(
            setting.cluster,
            jobs,
            made,
            speeds=workload.profiles.speeds,
            costs=setting.preemption_costs.life_costs(jobs),
            demand=demand,
            known=known,
            seed=setting.seed,
            cost_spread=setting.cost_spread,
            save_succeeds=setting.save_succeeds,
        )

    made = scheduler.make(defaults)
    if not isinstance(made, CompiledScheduler):
        _warm_up(made, workload.jobs, simulated)
        made = scheduler.make(defaults)  # without memory of the warm-up
    simulation = simulated(workload.jobs, made)
    log = simulation.run()
    found = measures(log, setting.window_s)
    policy_ms, policy_p95_ms = policy_times_ms(simulation.policy_s, getattr(made, "round_s", None))
    row = GpuComparisonRow(
        workload=workload_name(workload.path),
        scheduler=scheduler.text,
        mean_jct_s=found.mean_jct_s,
        p99_jct_s=found.p99_jct_s,
        mean_wait_s=found.mean_wait_s,
        makespan_s=found.makespan_s,
        gpu_h=found.gpu_h,
        preemptions=found.preemptions,
        lost_gpu_h=found.lost_gpu_h,
        policy_ms=policy_ms,
        policy_p95_ms=policy_p95_ms,
        restarts=found.restarts,
        overhead_gpu_h=found.overhead_gpu_h,
        jobs=found.jobs,
        lent_server_h=found.lent_server_h,
        breaches=found.breaches,
        unmet_server_h=found.unmet_server_h,
        late_requests=None if load is None else load.late_share(log.loans),
        late_unlent=None if load is None else load.late_share(),
    )
    done = completed(log.rows, setting.window_s)
    jct_s = tuple((done.due_s - done.submit_s).tolist())
    return GpuOutcome(row, jct_s, tuple(workload.left_out.items()), workload.notes), log


def _warm_up(
    scheduler: GpuScheduler, jobs: GpuJobs, simulated: Callable[[GpuJobs, GpuScheduler], GpuSimulation]
) -> None:
    """Let a scheduler decide a few times on the first jobs of a workload.

    Imports and compilation are then not part of its timings. All these jobs are submitted at once.

    Args:
        scheduler: A scheduler that is not used afterwards, as it has a memory.
        jobs: The workload.
        simulated: Makes a simulation of jobs under a scheduler.
    """
    few = jobs[: 2 * BUSY_JOBS]
    simulation = simulated(replace(few, submit_s=np.zeros(len(few))), _WarmUpScheduler(scheduler))
    with suppress(PlanInfeasible):  # it may wait for jobs that are not part of the warm-up; the real run reports this
        simulation.run()


class _WarmUpScheduler:
    """A scheduler that cancels all jobs after ``WARM_UP_DECISIONS`` decisions."""

    def __init__(self, scheduler: GpuScheduler) -> None:
        self.scheduler, self.left = scheduler, WARM_UP_DECISIONS
        self.name = getattr(scheduler, "name", type(scheduler).__name__)
        self.round_s = getattr(scheduler, "round_s", None)
        self.called_on = getattr(scheduler, "called_on", None)

    def begin(self, surroundings: Surroundings) -> None:
        begin = getattr(self.scheduler, "begin", None)
        if begin is not None:
            begin(surroundings)

    def decide(self, view: GpuView) -> GpuPlan:
        self.left -= 1
        if self.left < 0:
            return GpuPlan(tuple(GpuCancel(job_id) for job_id in view.jobs.id.tolist()))
        return self.scheduler.decide(view)


def read(setting: GpuSetting, path: str, profiles: Profiles) -> GpuWorkload:
    """A workload, prepared for a setting.

    Raises:
        MirageError: The workload cannot be read, or cannot be played under this setting.
    """
    workload = read_workload(path, setting.cluster, profiles, setting.gpus_per_node)
    if setting.first_jobs is not None:
        left_out = {f"{reason} (of the whole file)": count for reason, count in workload.left_out.items()}
        workload = replace(workload, jobs=workload.jobs[: setting.first_jobs], left_out=left_out)
    workload = replace(workload, jobs=assumed(workload.jobs, setting))
    workload = fitting(workload, setting)
    setting.preemption_costs.check(workload.path, workload.jobs)
    jobs = with_predictions(workload.path, workload.jobs, setting.prediction_error, setting.seed)
    jobs = replace(jobs, submit_s=jobs.submit_s + setting.later_s)
    _check_times(workload.path, jobs)
    if setting.window_s is not None and not submitted_in(jobs.submit_s, setting.window_s).any():
        times_s = (*setting.window_s, jobs.submit_s.min(), jobs.submit_s.max())
        begin, end, first, last = (format_duration(int(time_s)) for time_s in times_s)
        raise ConfigurationError(
            f"{workload.path}: no job is submitted between {begin} and {end}; the jobs are submitted from {first} to "
            f"{last}: give another --window"
        )
    return replace(workload, jobs=jobs)


def _check_times(workload: str, jobs: GpuJobs) -> None:
    """Refuse times that the engine cannot resolve."""
    lasts_s = np.where(np.isfinite(jobs.run_s), jobs.run_s, 0.0) + jobs.restart_s + jobs.save_s
    for k in np.flatnonzero(jobs.submit_s + lasts_s >= LATEST_S)[:1].tolist():
        raise ConfigurationError(
            f"{workload}: job {jobs.name[k]!r} is submitted at {jobs.submit_s[k]:g} s and lasts {lasts_s[k]:g} s, but "
            f"all times must be below {LATEST_S:g} s; give seconds from the start of the workload"
        )


def assumed(jobs: GpuJobs, setting: GpuSetting) -> GpuJobs:
    """The jobs under the assumptions of a setting, in the pool that has no inference demand.

    Raises:
        ConfigurationError: It is not clear which pool this is.
    """
    demand = setting.demand_of(jobs)
    if demand:
        pool = pool_of_jobs(setting.cluster, demand)
        jobs = replace(jobs, pool=np.where(jobs.pool == ANY_POOL, pool, jobs.pool))
    return setting.assumptions.jobs(jobs, setting.cluster, setting.seed)


def fitting(workload: GpuWorkload, setting: GpuSetting) -> GpuWorkload:
    """A workload in which every job fits on the GPUs of one type, or on one kind of server.

    No job runs on two GPU types. Types on which a job's model does not run do not count. A job that can run on fewer
    GPUs requests at most those that exist.

    Raises:
        ConfigurationError: A job fits nowhere, and such jobs are not to be left out.
    """
    jobs = workload.jobs
    most = _most_gpus(setting, workload)
    alike = "one type, one size and one pool" if setting.one_kind else "one type"
    impossible = jobs.min_gpus > most
    if impossible.any() and not setting.skip_impossible:
        k = int(np.flatnonzero(impossible)[0])
        for_model = "" if jobs.model[k] == LINEAR else f" on which {jobs.models[jobs.model[k]]} runs"
        raise ConfigurationError(
            f"{workload.path}: job {jobs.name[k]!r} needs {quantity(int(jobs.min_gpus[k]), 'GPU')}, but there are "
            f"{most[k]} of {alike}{for_model}; give --skip-impossible to leave such jobs out, or a larger --cluster"
        )
    if impossible.all():
        raise ConfigurationError(
            f"{workload.path}: no job fits on the {quantity(int(most.max()), 'GPU')} of {alike}; give a larger "
            "--cluster"
        )
    jobs = replace(jobs, gpus=np.minimum(jobs.gpus, most), max_gpus=np.minimum(jobs.max_gpus, most))
    retained = jobs[~impossible]
    shortfalls = np.unique(most[impossible], return_counts=True)
    reasons = {f"more than {quantity(int(gpus), 'GPU')} needed": int(count) for gpus, count in zip(*shortfalls)}
    return replace(workload, jobs=retained, left_out={**workload.left_out, **reasons})


def _most_gpus(setting: GpuSetting, workload: GpuWorkload) -> Ints:
    """The largest number of GPUs that each job can have."""
    cluster, jobs, speeds = setting.cluster, workload.jobs, workload.profiles.speeds
    if not setting.one_kind:
        return most_gpus(cluster, jobs, speeds)
    kinds, _, servers = server_kinds(cluster.gpu_type_of, cluster.gpus_of, cluster.pool_of)
    in_pool = (jobs.pool[:, None] == ANY_POOL) | (jobs.pool[:, None] == kinds[2])
    on_type = runs_on(speeds, jobs.model) & allows_types(jobs.types, len(cluster.gpu_types))
    may_use = in_pool & on_type[:, kinds[0]]
    most: Ints = np.where(may_use, kinds[1] * servers, 0).max(axis=1)
    return most


@sent_to_jobs
def begin(setting: GpuSetting) -> Callable[[GpuTrial], tuple[GpuTrial, GpuOutcome | TrialFailure]]:
    """A function that plays one trial; a trial that fails returns a ``TrialFailure``.

    Profiles are read once, and a workload once while it is in use.
    """
    profiles = read_any_profiles(setting.profiles, setting.cluster)

    @lru_cache(maxsize=2)
    def workload(path: str) -> GpuWorkload:
        return read(setting, path, profiles)

    def one(trial: GpuTrial) -> tuple[GpuTrial, GpuOutcome | TrialFailure]:
        try:
            return trial, play(setting, workload(trial.workload), trial.scheduler)[0]
        except MirageError as error:
            return trial, TrialFailure(str(error))

    return one
