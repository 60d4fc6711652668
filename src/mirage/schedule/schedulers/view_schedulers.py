"""Schedulers for views of a real cluster, where nothing is certain to be executed.

Each but Sia decides on a view alone: a compiled one through ``ViewScheduler``, one in Python as a new object. An
elastic job changes its size by a requeue, and is in one reservation: it has no extra workers on lent servers. No job
leaves at the end of an epoch: Slurm does not know epochs, and the controller requests a checkpoint by a signal.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from mirage.errors import ConfigurationError, UnknownName
from mirage.schedule.engine.compiled_scheduler import CompiledScheduler
from mirage.schedule.engine.view_scheduler import ViewScheduler
from mirage.schedule.scheduler_contract import GpuPlan, GpuView, Surroundings
from mirage.schedule.schedulers.aryl_memory import BASE
from mirage.schedule.schedulers.gpu_scheduler_registry import known_schedulers, make_scheduler
from mirage.schedule.schedulers.open_parts import merged, split_servers
from mirage.schedule.schedulers.sia_views import SiaViews

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
    "sia": {"round_s": 1.0},
    "sia-plus": {"round_s": 1.0},
}
"""Name → parameters that are fixed on a real cluster."""

REMEMBERING = frozenset({"sia", "sia-plus"})
"""Schedulers that learn from all views; they need measured speeds, and jobs with models."""

ELASTIC_SCHEDULERS = frozenset({"aryl", "aryl-plus", *REMEMBERING})
"""Schedulers that change the size of elastic jobs."""


class ViewDecider:
    """A scheduler for the successive views of one cluster.

    Most schedulers are made for each view, and a plan depends on the view alone. Those of ``REMEMBERING`` learn
    from all views: equal successions of views give equal plans.

    Args:
        name: One of ``VIEW_SCHEDULERS``.
        pool: The pool of the jobs.

    Raises:
        UnknownName: There is no such scheduler.
        ConfigurationError: It needs what a view of a real cluster lacks.
    """

    def __init__(self, name: str, pool: int) -> None:
        check_view_scheduler(name)
        self.name, self.pool = name, pool
        made = make_scheduler(name, **VIEW_SCHEDULERS[name])
        self._made = None if isinstance(made, CompiledScheduler) or name not in REMEMBERING else SiaViews(made, pool)

    def decide(self, view: GpuView, surroundings: Surroundings, keys: Sequence[Hashable] = ()) -> GpuPlan:
        """The plan for a view.

        Args:
            view: The view; its jobs are numbered from 0 in the order of submission.
            surroundings: The facts of the cluster.
            keys: What identifies each job in all views, by its id in this view; needed by schedulers that remember.
        """
        if self._made is not None:
            return self._made.decide(view, surroundings, keys)
        made = make_scheduler(self.name, **VIEW_SCHEDULERS[self.name])
        if isinstance(made, CompiledScheduler) and self.name in ELASTIC_SCHEDULERS:
            scheduler = ViewScheduler(made, self.pool, BASE)
            scheduler.begin(surroundings)
            split = split_servers(view, self.pool)
            return merged(scheduler.decide(split.view), split.real)
        if isinstance(made, CompiledScheduler):
            made = ViewScheduler(made, self.pool)
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
            f"the scheduler {name} needs a memory of running jobs, which Slurm does not have; "
            f"choose one of {', '.join(VIEW_SCHEDULERS)}"
        )
