"""Gavel: a linear program gives shares of time on every GPU type, rounds implement them.

After Narayanan et al., OSDI'20, with the objectives ``max-sum`` (maximises the sum of steps per second over the jobs,
as in the published comparison with Sia: rounds of 360 s, with the size and the batch that users request) and
``max-min`` (maximises the smallest gain over an equal split). A round takes jobs by priority: the share from the
program over the share received so far; remaining GPUs go to any job that fits. Jobs that are chosen again stay on their
GPUs unless a larger job takes some of these; other jobs get the first free GPUs. A job that has made no progress yet on
its GPUs stays there, whatever its share: otherwise no job would end if a restart takes a whole round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from mirage.array_types import Floats, Ints
from mirage.errors import ConfigurationError
from mirage.kernel.compile import kernel
from mirage.schedule.rounds.configurations import JobColumns, refuse_too_large, server_kinds
from mirage.schedule.rounds.highs import minimise_linear
from mirage.schedule.scheduler_contract import (
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
from mirage.schedule.speeds.speed_law import local_batch, measure

Objective: TypeAlias = Literal["max-sum", "max-min"]


_DECIMALS = 5
_SPARE = 1e-3
"""Weight of the sum of all gains relative to the smallest gain, so that no GPU stays idle."""


class Gavel:
    """The scheduler.

    Args:
        objective: ``max-sum`` or ``max-min``.
        round_s: Seconds between two rounds.
        preempt: save, boundary or kill; a move to other GPUs saves in any case.

    Raises:
        ConfigurationError: There is no such objective, or ``round_s`` is not a whole number above 0.
        UnknownName: There is no such way to preempt.
    """

    def __init__(self, objective: Objective = "max-sum", round_s: float = 360.0, preempt: str = "save") -> None:
        if objective not in ("max-sum", "max-min"):
            raise ConfigurationError(f"Gavel has no objective {objective!r}; it has max-sum and max-min")
        if not (round_s > 0 and round_s % 1 == 0):
            raise ConfigurationError(f"round_s is {round_s}; give whole seconds above 0")
        self.objective, self.round_s, self.preempt = objective, round_s, checked_way(preempt)

    def begin(self, surroundings: Surroundings) -> None:
        """Reset the state for a new simulation."""
        self.surroundings = surroundings
        self._received_s: Floats = np.zeros((surroundings.jobs, 0))
        self._given_s: Floats = np.zeros(0)
        self._known = np.zeros(surroundings.jobs, np.bool_)
        self._began_at: Floats = np.full(surroundings.jobs, -1.0)

    def decide(self, view: GpuView) -> GpuPlan:
        """The plan of a round: shares, then priorities, then placement.

        Raises:
            ConfigurationError: A job fits on no kind of server.
        """
        jobs, servers = JobColumns(view), view.servers
        kinds, kind_of, count = server_kinds(servers.gpu_type, servers.gpus, servers.pool)
        if self._received_s.shape[1] != len(count):
            self.begin(self.surroundings)
            self._received_s = np.zeros((self.surroundings.jobs, len(count)))
            self._given_s = np.zeros(len(count))
        new = jobs.id[~self._known[jobs.id]]
        self._known[new] = True
        self._received_s[new] = self.round_s / 2
        self._given_s += len(new) * self.round_s / 2
        capacity = kinds[1] * count
        if len(new):
            refuse_too_large(jobs, jobs.gpus, servers, capacity, kinds[2], "Gavel")
        rate = self._rates(jobs, kinds, capacity)
        share = shares(rate, jobs.gpus, capacity, self.objective)
        fraction = self._received_s[jobs.id] / self._given_s
        kind = np.where(jobs.held > 0, kind_of[jobs.first_server], -1)
        # a restart may take a whole round or more: a job that is preempted before it makes progress never ends
        idle = (jobs.status != JobStatus.RUNNING) | (jobs.progress <= self._began_at[jobs.id])
        stays = (jobs.held > 0) & idle
        priority = share / fraction
        taken = by_priority(priority, share, rate > 0, jobs.gpus, capacity.copy(), kind, stays)
        for k in np.flatnonzero(taken >= 0):
            self._received_s[jobs.id[k], taken[k]] += self.round_s
            self._given_s[taken[k]] += self.round_s
        got = np.flatnonzero(taken >= 0)
        first = got[np.lexsort((-share[got, taken[got]], -priority[got, taken[got]]))]
        return self._plan(view, jobs, kind, taken, first, kind_of, stays)

    def _rates(self, jobs: JobColumns, kinds: Ints, capacity: Ints) -> Floats:
        """Steps per second of each job on each kind of server; 0 where it cannot run.

        Each job has its own size and batch.
        """
        rate = np.zeros((len(jobs.id), kinds.shape[1]))
        batch = jobs.batch
        _step_rates(self.surroundings.speeds, jobs.model, jobs.gpus, batch, jobs.progress, kinds[0], kinds[1], rate)
        rate[(jobs.gpus[:, None] > capacity) | ((jobs.pool[:, None] >= 0) & (jobs.pool[:, None] != kinds[2]))] = 0.0
        return rate

    def _plan(
        self, view: GpuView, jobs: JobColumns, kind: Ints, taken: Ints, first: Ints, kind_of: Ints, stays: Any
    ) -> GpuPlan:
        free = view.servers.gpus.tolist()
        for k in np.flatnonzero(stays).tolist():
            for server, gpus in jobs.places(k).items():
                free[server] -= gpus
        wanted = [(k, int(taken[k]), int(jobs.gpus[k])) for k in first.tolist() if not stays[k]]
        held = {k: jobs.places(k) for k, at, _ in wanted if kind[k] == at}
        servers = [np.flatnonzero(kind_of == at).tolist() for at in range(kind_of.max() + 1)]
        found = first_fit(wanted, held, free, servers)
        actions: list[GpuAction] = []
        for k in np.flatnonzero(~stays).tolist():
            job, places = int(jobs.id[k]), found.get(k)
            if places is None:
                if jobs.held[k]:
                    actions.append(GpuPreempt(job, self.preempt, reason="share-received"))
            elif not jobs.held[k]:
                self._began_at[job] = jobs.progress[k]
                actions.append(GpuStart(job, places, reason="share"))
            elif places != jobs.places(k):
                self._began_at[job] = jobs.progress[k]
                actions.append(GpuResize(job, places, reason="share" if taken[k] != kind[k] else "moved"))
        return GpuPlan(tuple(actions))


def shares(rate: Floats, gpus: Ints, capacity: Ints, objective: Objective) -> Floats:
    """The share of its time that each job should spend on each kind of server; (jobs, kinds).

    Identical jobs get equal shares: among all solutions this is the one that divides equally among them.

    Args:
        rate: Steps per second of each job on each kind.
        gpus: GPUs of each job.
        capacity: GPUs of each kind.
        objective: The objective to maximise.
    """
    from scipy.sparse import coo_array

    jobs, kinds = rate.shape
    n = jobs * kinds
    job, kind, variable = np.repeat(np.arange(jobs), kinds), np.tile(np.arange(kinds), jobs), np.arange(n)
    row, column, entry = [job, jobs + kind], [variable, variable], [np.ones(n), gpus[job]]
    limit = np.concatenate([np.ones(jobs), capacity])
    cost, upper = -rate.ravel(), (rate.ravel() > 0).astype(np.float64)
    if objective == "max-min":
        equal = rate @ (capacity / capacity.sum())
        gain = rate * (gpus / np.maximum(equal, 1e-12))[:, None]
        some = equal > 0
        row += [jobs + kinds + job, jobs + kinds + np.flatnonzero(some)]
        column += [variable, np.full(int(some.sum()), n)]
        entry += [-gain.ravel(), np.ones(int(some.sum()))]
        limit = np.concatenate([limit, np.zeros(jobs)])
        cost = np.append(-_SPARE * gain.ravel() / max(float(gain.sum()), 1e-12), -1.0)
        upper = np.append(upper, np.inf)
    rows = coo_array(
        (np.concatenate(entry), (np.concatenate(row), np.concatenate(column))), shape=(len(limit), len(cost))
    )
    solution = minimise_linear(cost, rows.tocsr(), limit, upper)
    if solution.x is None:
        raise ConfigurationError(f"Gavel's linear program of {jobs} jobs has no solution; HiGHS: {solution.status}")
    share = solution.x[:n].reshape(jobs, kinds)
    _, alike, count = np.unique(np.column_stack([rate, gpus]), axis=0, return_inverse=True, return_counts=True)
    alike = alike.reshape(-1)
    total = np.zeros((len(count), kinds))
    np.add.at(total, alike, share)
    divided: Floats = np.clip(np.round((total / count[:, None])[alike], _DECIMALS), 0.0, 1.0)
    return divided


def by_priority(priority: Floats, share: Floats, possible: Any, gpus: Ints, left: Ints, kind: Ints, stays: Any) -> Ints:
    """The kind of server that each job gets, −1 for none.

    The order is by priority, then share, then kind, then age.

    Args:
        priority: Priority of each job on each kind; (jobs, kinds).
        share: Share of time of each job on each kind; (jobs, kinds).
        possible: Whether each job can run on each kind; (jobs, kinds).
        gpus: GPUs of each job.
        left: Free GPUs of each kind; updated in place.
        kind: Present kind of each job, −1 for none.
        stays: Jobs that stay there, whatever their priority.
    """
    jobs = len(gpus)
    taken = np.full(jobs, -1)
    for k in np.flatnonzero(stays):
        taken[k] = kind[k]
        left[kind[k]] -= gpus[k]
    order = np.lexsort((-share.T.ravel(), -priority.T.ravel()))
    for entry in order.tolist():
        at, k = divmod(entry, jobs)
        if taken[k] < 0 and possible[k, at] and gpus[k] <= left[at]:
            taken[k] = at
            left[at] -= gpus[k]
    return taken


def first_fit(
    wanted: Iterable[tuple[int, int, int]],
    held: Mapping[int, Mapping[int, int]],
    free: list[int],
    servers: Sequence[Sequence[int]],
) -> dict[int, dict[int, int]]:
    """Server → GPUs of every job: larger jobs first, on the first servers with free GPUs.

    A job stays on its GPUs if no larger job took them. Jobs are not packed and not moved, so they may be spread over
    more servers than they need.

    Args:
        wanted: Jobs with their kind of server and their GPUs; among jobs of one size, the first in order chooses first.
        held: Present GPUs of jobs, on servers of the wanted kind.
        free: Free GPUs of each server; updated in place.
        servers: Servers of each kind, in the order in which they are filled.
    """
    places: dict[int, dict[int, int]] = {}
    queue = sorted(wanted, key=lambda entry: -entry[2])
    for size in dict.fromkeys(gpus for _, _, gpus in queue):
        same = [entry for entry in queue if entry[2] == size]
        for job, _, _ in same:
            before = held.get(job)
            if before and all(free[server] >= gpus for server, gpus in before.items()):
                places[job] = dict(before)
                _take(free, before)
        for job, kind, gpus in same:
            if job not in places:
                places[job] = _first_free(free, servers[kind], gpus)
                _take(free, places[job])
    return places


def _first_free(free: Sequence[int], servers: Sequence[int], gpus: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for server in servers:
        taken = min(gpus, free[server])
        if taken:
            found[server] = taken
            gpus -= taken
    return found


def _take(free: list[int], places: Mapping[int, int]) -> None:
    for server, gpus in places.items():
        free[server] -= gpus


@kernel()
def _step_rates(
    speeds: Any, model: Any, gpus: Any, batch: Any, progress: Any, gpu_type: Any, per_server: Any, rate: Any
) -> None:
    for i in range(len(model)):
        for k in range(len(gpu_type)):
            if model[i] < 0:
                rate[i, k] = speeds.type_speed[gpu_type[k]]
                continue
            servers = -(-gpus[i] // per_server[k])
            step_s, sync_s, _, _ = measure(speeds, model[i], gpu_type[k], servers, gpus[i], batch[i], progress[i])
            if step_s > 0:
                _, passes = local_batch(speeds, model[i], gpu_type[k], servers, gpus[i], batch[i])
                rate[i, k] = 1.0 / (step_s + (step_s - sync_s) * (passes - 1)) / speeds.slowdown[model[i]]
