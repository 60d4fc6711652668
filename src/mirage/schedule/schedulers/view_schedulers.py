"""Schedulers for views of a real cluster, where nothing is certain to be executed.

Each decides on a view alone: a compiled one through ``ViewScheduler``, one in Python as a new object for each view. An
elastic job changes its size by a requeue, and is in one reservation: it has no extra workers on lent servers. No job
leaves at the end of an epoch: Slurm does not know epochs, and the controller requests a checkpoint by a signal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.view_scheduler import ViewScheduler
from mirage.schedule.scheduler_contract import GpuPlan, GpuView, Surroundings
from mirage.schedule.schedulers.aryl_memory import BASE
from mirage.schedule.schedulers.gpu_scheduler_registry import known_schedulers, make_scheduler
from mirage.schedule.schedulers.open_parts import merged, split_servers

VIEW_SCHEDULERS: Mapping[str, Mapping[str, Any]] = {
    "fifo": {},
    "sjf": {},
    "aryl": {"extra_on_loans": False, "least_gain_s": 300.0},
    "aryl-plus": {"extra_on_loans": False, "moves": False},
    "pickyman": {"preempt": "save"},
    "pickyman-plus": {},
    "fitgpp": {},
    "kueue": {},
    "slurm-preempt": {},
}
"""Name → parameters that are fixed on a real cluster."""

ELASTIC_SCHEDULERS = frozenset({"aryl", "aryl-plus"})
"""Schedulers that change the size of elastic jobs."""


def decide_on_view(name: str, view: GpuView, surroundings: Surroundings, pool: int) -> GpuPlan:
    """The plan of a scheduler for one view; equal views give equal plans.

    Args:
        name: One of ``VIEW_SCHEDULERS``.
        view: The view; its jobs are numbered from 0 in the order of submission.
        surroundings: The facts of the cluster.
        pool: The pool of the jobs.

    Raises:
        UnknownName: There is no such scheduler.
        ConfigurationError: It needs what a view of a real cluster lacks.
    """
    check_view_scheduler(name)
    made = make_scheduler(name, **VIEW_SCHEDULERS[name])
    if isinstance(made, CompiledScheduler) and name in ELASTIC_SCHEDULERS:
        scheduler = ViewScheduler(made, pool, BASE)
        scheduler.begin(surroundings)
        split = split_servers(view, pool)
        return merged(scheduler.decide(split.view), split.real)
    if isinstance(made, CompiledScheduler):
        made = ViewScheduler(made, pool)
    begin = getattr(made, "begin", None)
    if begin is not None:
        begin(surroundings)
    return made.decide(view)


def check_view_scheduler(name: str) -> None:
    """Check that a scheduler can decide on views of a real cluster.

    Raises:
        UnknownName: There is no such scheduler.
        ConfigurationError: It needs what such a view lacks.
    """
    if name not in known_schedulers():
        raise UnknownName("GPU scheduler", name, VIEW_SCHEDULERS)
    if name not in VIEW_SCHEDULERS:
        raise ConfigurationError(
            f"the scheduler {name} needs measured speeds or a memory of running jobs, which Slurm does not have; "
            f"choose one of {', '.join(VIEW_SCHEDULERS)}"
        )
