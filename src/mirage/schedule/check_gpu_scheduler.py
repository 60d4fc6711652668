"""Check of a GPU scheduler; run it on your own scheduler before you plug it in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np

from mirage.effects import Watched, no_effects
from mirage.errors import ConfigurationError, ContractBroken, MirageError, shown
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.gpu_log import GpuLog
from mirage.schedule.engine.gpu_simulation import GpuSimulation
from mirage.schedule.gpu_cluster import GpuCluster, ServerGroup
from mirage.schedule.scheduler_contract import GpuPlan, GpuScheduler, GpuView
from mirage.schedule.schedulers.gpu_scheduler_registry import GpuSchedulerSpec, scheduler_spec
from mirage.schedule.workload.gpu_jobs import GpuJobs

JOBS = 30

_WATCHED = Watched("the scheduler", "decides", "use view.now_s", "do that when the scheduler is made")


def check_gpu_scheduler(scheduler: str | GpuSchedulerSpec, seeds: int = 2, **parameters: Any) -> None:
    """Run a scheduler on small clusters and check what it does.

    Every job ends, and no action is refused. A second run gives the same schedule, with views in memory of their own
    that is overwritten after each decision: a scheduler must copy what it stores. In that run a scheduler in Python
    may open no file and read no clock while it decides. Every action has a reason.

    Args:
        scheduler: Its name or its specification.
        seeds: Number of workloads on each cluster.
        parameters: Parameters that have no usable default.

    Raises:
        ContractBroken: The first violation found.
        ConfigurationError: The scheduler cannot be made, or there is no workload.
    """
    spec = scheduler_spec(scheduler) if isinstance(scheduler, str) else scheduler
    if not isinstance(spec, GpuSchedulerSpec):
        raise ConfigurationError(f"a scheduler is checked by its name or its GpuSchedulerSpec; got {shown(spec)}")
    if seeds < 1:
        raise ConfigurationError(f"a check needs a workload, got {seeds} seeds; give at least 1")
    for kind, cluster in _clusters():
        for seed in range(seeds):
            run = f"{spec.entry} on {kind}, seed {seed}"
            first = _played(run, cluster, seed, spec.make(**parameters))
            again = _played(run, cluster, seed, _watched(spec.make(**parameters)))
            if first.segments.tobytes() != again.segments.tobytes():
                raise ContractBroken(
                    f"{run}: a second run gives another schedule; decide by the views alone, and copy what you store "
                    "of them (view.copy())"
                )


def _played(run: str, cluster: GpuCluster, seed: int, scheduler: GpuScheduler | CompiledScheduler) -> GpuLog:
    try:
        return GpuSimulation(cluster, _jobs(seed), scheduler, strict=True).run()
    except MirageError as error:
        raise ContractBroken(f"{run}: {error}") from error


def _clusters() -> Iterator[tuple[str, GpuCluster]]:
    yield "three servers", GpuCluster((ServerGroup("a", "t4", 3, 4),))
    yield "two GPU types", GpuCluster((ServerGroup("a", "t4", 2, 4, speed=0.5), ServerGroup("b", "v100", 1, 8)))


def _jobs(seed: int) -> GpuJobs:
    """Jobs that fit the smaller cluster, each with an estimate of its run time."""
    random = np.random.default_rng(seed)
    run_s = random.integers(60, 7200, JOBS)
    return GpuJobs.linear(
        np.sort(random.integers(0, 20_000, JOBS)),
        random.choice([1, 2, 3, 4], JOBS, p=[0.5, 0.3, 0.1, 0.1]),
        run_s,
        estimate_s=run_s * 1.5,
        restart_s=random.integers(0, 60, JOBS),
    )


def _watched(scheduler: GpuScheduler | CompiledScheduler) -> GpuScheduler | CompiledScheduler:
    return scheduler if isinstance(scheduler, CompiledScheduler) else _Watching(scheduler)


class _Watching:
    """Refuses effects of a scheduler, and overwrites each view after the decision."""

    def __init__(self, scheduler: GpuScheduler) -> None:
        self._scheduler = scheduler
        for name in ("round_s", "called_on", "begin", "name"):
            if hasattr(scheduler, name):
                setattr(self, name, getattr(scheduler, name))

    def decide(self, view: GpuView) -> GpuPlan:
        """Returns the scheduler's plan.

        Raises:
            ContractBroken: It has an effect, or plans an action without a reason.
        """
        copied = view.copy()
        with no_effects(_WATCHED):
            plan = self._scheduler.decide(copied)
        for action in getattr(plan, "actions", ()):
            if not action.reason:
                raise ContractBroken(f"it plans {action!r} without a reason; give one as word or word:key=value,…")
        _overwrite(copied.jobs)
        _overwrite(copied.servers)
        return plan


def _overwrite(columns: Any) -> None:
    for column in fields(columns):
        getattr(columns, column.name)[...] = -7
