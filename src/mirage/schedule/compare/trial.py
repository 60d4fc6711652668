"""A trial: plays one workload under one scheduler to its end."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from mirage.errors import ConfigurationError, ContractBroken, MirageError
from mirage.job_state import Ints
from mirage.schedule.cluster import GpuCluster
from mirage.schedule.compare.own_costs import OwnCosts
from mirage.schedule.compare.row import Row, policy_times_ms
from mirage.schedule.compare.scheduler_text import SchedulerText
from mirage.schedule.compare.warm_up import warm_up
from mirage.schedule.contract import Scheduler
from mirage.schedule.engine.compiled import CompiledScheduler
from mirage.schedule.engine.log import GpuLog
from mirage.schedule.engine.measures import measures
from mirage.schedule.engine.simulation import GpuSimulation
from mirage.schedule.engine.world import Known, most_gpus
from mirage.schedule.goodput.configurations import server_kinds
from mirage.schedule.speeds.arrays import LINEAR, runs_on
from mirage.schedule.speeds.profiles import Profiles
from mirage.schedule.workload.jobs import ANY_POOL, GpuJobs
from mirage.schedule.workload.read import Workload, read_any_profiles, read_workload

LATEST_S = 1e10
"""Seconds, about 300 years: doubles cannot resolve the engine's ticks at much later times."""


@dataclass(frozen=True, slots=True)
class Setting:
    """The cluster and options of trials.

    Attributes:
        cluster: The servers.
        profiles: Folder or file of measured speeds; None for none.
        seed: Seed of the random costs.
        cost_spread: Coefficient of variation of the costs of starts, restarts and saving.
        later_s: Seconds by which every submission is postponed.
        first_jobs: Number of jobs to play of each workload, from the first; None for all.
        skip_impossible: Whether jobs that fit nowhere are left out; else they are refused.
        own_costs: Costs of preemption for jobs without measurements.
        one_kind: Whether jobs must fit on servers of one GPU type, one size and one pool.

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
    own_costs: OwnCosts = field(default_factory=OwnCosts)
    one_kind: bool = False

    def __post_init__(self) -> None:
        for name, most in (("cost_spread", math.inf), ("later_s", LATEST_S)):
            if not 0 <= getattr(self, name) < most:
                raise ConfigurationError(f"{name} is {getattr(self, name)}; give a number of 0 or more, below {most:g}")

    def under(self, schedulers: Iterable[SchedulerText]) -> Setting:
        """The setting in which all these schedulers play the same jobs.

        These are the jobs that fit under each of the schedulers.
        """
        cluster = self.cluster
        kinds = len(server_kinds(cluster.gpu_type_of, cluster.gpus_of, cluster.pool_of)[2])
        strict = kinds > len(cluster.gpu_types) and any(scheduler.spec.one_kind for scheduler in schedulers)
        return replace(self, one_kind=strict)


@dataclass(frozen=True, slots=True)
class Trial:
    """One workload, by its file, under one scheduler."""

    workload: str
    scheduler: SchedulerText


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a trial.

    Attributes:
        row: Its measures.
        jct_s: Time from submission to completion of every job, in order of submission.
        left_out: Jobs of the workload that were not played: reason and count.
    """

    row: Row
    jct_s: tuple[float, ...]
    left_out: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a trial did not complete."""

    error: str


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """Report an unexpected error in one line with its file and line.

    A scheduler may come from another package.
    """
    try:
        yield
    except MirageError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(str(error).split())
        raise ContractBroken(
            f"{type(error).__name__}: {said} ({where.filename}:{where.lineno}); fix the scheduler, or leave it out"
        ) from error


@told_in_one_line()
def play(setting: Setting, workload: Workload, scheduler: SchedulerText) -> tuple[Outcome, GpuLog]:
    """Play a workload to its end; returns its measures and its log.

    Raises:
        MirageError: The run does not complete; or the scheduler fails, and the message names the file and line.
    """
    known: Known = "run-time" if scheduler.spec.knows_run_s else "estimate"
    preempt = {"preempt": setting.own_costs.preempt(in_rounds="round_s" in scheduler.spec.parameters)}

    def simulated(jobs: GpuJobs, made: Scheduler | CompiledScheduler) -> GpuSimulation:
        return GpuSimulation(
            setting.cluster,
            jobs,
            made,
            speeds=workload.profiles.speeds,
            costs=setting.own_costs.life_costs(jobs),
            known=known,
            seed=setting.seed,
            cost_spread=setting.cost_spread,
        )

    made = scheduler.make(preempt)
    if not isinstance(made, CompiledScheduler):
        warm_up(made, workload.jobs, simulated)
        made = scheduler.make(preempt)  # without memory of the warm-up
    simulation = simulated(workload.jobs, made)
    log = simulation.run()
    found = measures(log)
    policy_ms, policy_p95_ms = policy_times_ms(simulation.policy_s, getattr(made, "round_s", None))
    row = Row(
        workload=workload.name,
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
        jobs=len(workload.jobs),
    )
    jct_s = tuple((log.rows.due_s - log.rows.submit_s).tolist())
    return Outcome(row, jct_s, tuple(workload.left_out.items())), log


def read(setting: Setting, path: str, profiles: Profiles) -> Workload:
    """A workload, prepared for a setting.

    Raises:
        MirageError: The workload cannot be read, or cannot be played under this setting.
    """
    workload = read_workload(path, setting.cluster, profiles)
    if setting.first_jobs is not None:
        left_out = {f"{reason} (of the whole file)": count for reason, count in workload.left_out.items()}
        workload = replace(workload, jobs=workload.jobs[: setting.first_jobs], left_out=left_out)
    workload = fitting(workload, setting)
    setting.own_costs.check(workload.name, workload.jobs)
    jobs = workload.jobs
    return replace(workload, jobs=replace(jobs, submit_s=jobs.submit_s + setting.later_s))


def fitting(workload: Workload, setting: Setting) -> Workload:
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
        raise ConfigurationError(
            f"{workload.name}: job {jobs.name[k]!r} needs {jobs.min_gpus[k]} GPUs, but there are {most[k]} of {alike}"
            f"{_for_its_model(jobs, k)}; give --skip-impossible to leave such jobs out, or a larger cluster"
        )
    if impossible.all():
        raise ConfigurationError(
            f"{workload.name}: no job fits on the {most.max()} GPUs of {alike}; give a larger cluster"
        )
    jobs = replace(jobs, gpus=np.minimum(jobs.gpus, most), max_gpus=np.minimum(jobs.max_gpus, most))
    kept = jobs[~impossible]
    shortfalls = np.unique(most[impossible], return_counts=True)
    told = {f"more than {gpus} GPUs needed": int(count) for gpus, count in zip(*shortfalls, strict=True)}
    return replace(workload, jobs=kept, left_out={**workload.left_out, **told})


def _for_its_model(jobs: GpuJobs, k: int) -> str:
    return "" if jobs.model[k] == LINEAR else f" on which {jobs.models[jobs.model[k]]} runs"


def _most_gpus(setting: Setting, workload: Workload) -> Ints:
    """The largest number of GPUs that each job can have."""
    cluster, jobs, speeds = setting.cluster, workload.jobs, workload.profiles.speeds
    if not setting.one_kind:
        return most_gpus(cluster, jobs, speeds)
    kinds, _, servers = server_kinds(cluster.gpu_type_of, cluster.gpus_of, cluster.pool_of)
    in_pool = (jobs.pool[:, None] == ANY_POOL) | (jobs.pool[:, None] == kinds[2])
    may_use = in_pool & runs_on(speeds, jobs.model)[:, kinds[0]]
    most: Ints = np.where(may_use, kinds[1] * servers, 0).max(axis=1)
    return most


def begin(setting: Setting) -> Callable[[Trial], tuple[Trial, Outcome | Failure]]:
    """A function that plays one trial; a trial that fails returns a ``Failure``.

    Profiles are read once, and a workload once while it is in use.
    """
    profiles = read_any_profiles(setting.profiles, setting.cluster)

    @lru_cache(maxsize=2)
    def workload(path: str) -> Workload:
        return read(setting, path, profiles)

    def one(trial: Trial) -> tuple[Trial, Outcome | Failure]:
        try:
            return trial, play(setting, workload(trial.workload), trial.scheduler)[0]
        except MirageError as error:
            return trial, Failure(str(error))

    return one
