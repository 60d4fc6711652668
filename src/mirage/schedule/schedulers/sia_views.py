"""Sia on the successive views of a real cluster.

Sia learns how fast each job runs from where it has run. So one object decides on all views, and jobs have the same
numbers in all of them. A new object knows nothing of earlier views, and learns again from the jobs that run.

A real cluster has GPUs that others use, and nodes that are drained or lent. A view for Sia has only the GPUs of the
jobs' own pool that are free or that its jobs hold, and only the jobs that fit there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.schedule.rounds.configurations import server_kinds
from mirage.schedule.scheduler_contract import (
    ActiveJobs,
    GpuLend,
    GpuPlan,
    GpuReturn,
    GpuScheduler,
    GpuView,
    Held,
    Servers,
    Surroundings,
)

MOST_JOBS = 65_536
"""Jobs that one object can know; after that a new one begins."""


class SiaViews:
    """Sia for successive views.

    Args:
        scheduler: The scheduler; each of its calls is a round.
        pool: The pool of the jobs.
    """

    def __init__(self, scheduler: GpuScheduler, pool: int) -> None:
        self._scheduler: Any = scheduler
        self._pool = pool
        self._begun: tuple[object, ...] = ()
        self._numbers: dict[Hashable, int] = {}

    def decide(self, view: GpuView, surroundings: Surroundings, keys: Sequence[Hashable]) -> GpuPlan:
        """The plan for a view; equal successions of views give equal plans.

        Args:
            view: The view.
            surroundings: The facts of the cluster.
            keys: What identifies each job of the view in all views, by its id in the view.
        """
        news = sorted(int(job) for job in view.jobs.id if keys[int(job)] not in self._numbers)
        facts = (surroundings.gpu_types, surroundings.models, tuple(surroundings.speeds.type_speed.tolist()))
        if facts != self._begun or len(self._numbers) + len(news) > MOST_JOBS:
            self._begun, self._numbers = facts, {}
            self._scheduler.begin(replace(surroundings, jobs=MOST_JOBS))
            news = sorted(view.jobs.id.tolist())
        for job in news:
            self._numbers[keys[job]] = len(self._numbers)
        shown = usable_part(view, self._pool)
        if not len(shown.jobs):
            return GpuPlan()
        number = np.array([self._numbers[keys[int(job)]] for job in shown.jobs.id], np.int64)
        plan: GpuPlan = self._scheduler.decide(replace(shown, jobs=replace(shown.jobs, id=number)))
        job_of = dict(zip(number.tolist(), shown.jobs.id.tolist()))
        actions = tuple(
            action if isinstance(action, GpuLend | GpuReturn) else replace(action, job=job_of[action.job])
            for action in plan.actions
        )
        return replace(plan, actions=actions)


def usable_part(view: GpuView, pool: int) -> GpuView:
    """The part of a view that Sia decides on.

    Args:
        view: The view; the numbers of its servers do not change.
        pool: The pool of the jobs.
    """
    jobs, servers, held = view.jobs, view.servers, view.held
    job_of_row = np.repeat(np.arange(len(jobs)), np.diff(held.first[: len(jobs) + 1]))
    own = (servers.pool == pool) & (servers.home == pool)
    shown = np.ones(len(jobs), np.bool_)
    shown[job_of_row[~own[held.server]]] = False
    while True:
        rows = shown[job_of_row]
        gpus = servers.free + np.bincount(held.server[rows], held.gpus[rows], len(own)).astype(np.int64)
        usable = own & (gpus > 0)
        part = replace(
            servers,
            gpus=np.where(usable, gpus, servers.gpus),
            pool=np.where(usable, pool, np.where(own, pool - 1, servers.home)),
            home=np.where(usable, pool, np.where(own, pool - 1, servers.home)),
        )
        too_large = shown & (jobs.min_gpus > _most_gpus(part, pool))
        if not too_large.any():
            break
        shown &= ~too_large
    counts = np.where(shown, np.diff(held.first[: len(jobs) + 1]), 0)[shown]
    rest = Held(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]), held.server[rows], held.gpus[rows])
    columns: dict[str, NDArray[Any]] = {column.name: getattr(jobs, column.name)[shown] for column in fields(ActiveJobs)}
    return replace(view, jobs=ActiveJobs(**columns), servers=part, _held=lambda: rest)


def _most_gpus(servers: Servers, pool: int) -> int:
    """The GPUs of the largest kind of servers of a pool."""
    kinds, _, counts = server_kinds(servers.gpu_type, servers.gpus, servers.pool)
    capacity: Ints = np.where(kinds[2] == pool, kinds[1] * counts, 0)
    return int(capacity.max(initial=0))
