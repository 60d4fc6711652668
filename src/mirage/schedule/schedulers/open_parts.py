"""Split views: the open part of a server is a server of its own.

Aryl gives the extra workers of a job other servers than its base. Slurm gives an elastic job all its GPUs by one
request, also on the servers of its base. In a split view each server of the jobs' own pool is two: one with the GPUs
that jobs have as their base or that others use, and one with its *open part*, the GPUs that are free or that extra
workers have. So an open part is another server than any base, and has all GPUs that may change hands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mirage.array_types import Ints
from mirage.schedule.scheduler_contract import GpuPlan, GpuResize, GpuStart, GpuView, Held, Places, Servers


class SplitView(NamedTuple):
    """A split view.

    Attributes:
        view: The view.
        real: By server of this view, the server that it is a part of.
    """

    view: GpuView
    real: Ints


def split_servers(view: GpuView, pool: int) -> SplitView:
    """Split the servers that a pool owns and has; lent ones are left as they are.

    Args:
        view: The view. A job that holds more GPUs than it requests has extra workers: its last ones.
        pool: The pool of the jobs.
    """
    servers = view.servers
    split = np.flatnonzero((servers.pool == pool) & (servers.home == pool))
    base_of = dict(zip(split.tolist(), range(len(servers.gpus), len(servers.gpus) + len(split))))
    rows, widths = list[tuple[int, int]](), np.zeros(len(view.jobs), np.int64)
    real = np.concatenate([np.arange(len(servers.gpus)), split])
    gpus = servers.gpus[real]
    gpus[split] = servers.free[split]
    held = view.held
    for k, requested in enumerate(view.jobs.gpus.tolist()):
        base, extra = _parts(held.of(k), requested, base_of)
        widths[k] = len(base) + len(extra)
        rows += [*base, *extra]
        for server, count in extra:
            gpus[server] += count
    gpus[len(servers.gpus) :] -= gpus[split]
    free = servers.free[real]
    free[len(servers.gpus) :] = 0
    columns = {name: getattr(servers, name)[real] for name in ("gpu_type", "pool", "home", "lent_until_s")}
    parted = Held(
        np.concatenate([np.zeros(1, np.int64), np.cumsum(widths)]),
        np.array([server for server, _ in rows], np.int64),
        np.array([count for _, count in rows], np.int64),
    )
    made: Servers = replace(servers, gpus=gpus, free=free, **columns)
    jobs = replace(view.jobs, servers=widths)
    return SplitView(replace(view, jobs=jobs, servers=made, _held=lambda: parted), real)


def _parts(
    places: Places, base: int, base_of: Mapping[int, int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The servers and GPUs of a job's base, and those of its extra workers on open parts."""
    of_base, of_extra, left = [], [], base
    for server, gpus in places.items():
        here = min(gpus, left) if server in base_of else gpus
        left -= min(here, left)
        if here:
            of_base.append((base_of.get(server, server), here))
        if gpus > here:
            of_extra.append((server, gpus - here))
    return of_base, of_extra


def merged(plan: GpuPlan, real: Ints) -> GpuPlan:
    """A plan for a split view as one for the view itself.

    Args:
        plan: The plan.
        real: As in ``SplitView``.
    """
    actions = tuple(
        replace(action, places=_merged(action.places, real))
        if isinstance(action, GpuStart | GpuResize) and action.places is not None
        else action
        for action in plan.actions
    )
    return replace(plan, actions=actions)


def _merged(places: Places, real: Ints) -> Places:
    found: dict[int, int] = {}
    for server, gpus in places.items():
        at = int(real[server])
        found[at] = found.get(at, 0) + gpus
    return found
