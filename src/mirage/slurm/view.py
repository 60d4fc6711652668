"""The real cluster's side of the contract: the view a policy sees, made from what Slurm tells.

What the view cannot hold is left out on purpose: nodes that are down are no nodes, a job of several partitions waits in
the first, and who sits on which node is not said.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from mirage.duration import DAY_S, UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.policy.view import Ended, Jobs, Nodes, View
from mirage.slurm.values import AccountedJob, Machine, Queue, QueuedJob
from mirage.slurm_words.hostlist import expand_hosts

MOST_TASKS = 1_000
"""An array that waits as one is shown as so many jobs at most: what lies behind them tells a forecast nothing more."""

MOST_PENDING = 1_000
"""So many of the pending jobs are shown, those of the highest priority: a forecast for one link takes long enough with
these, and who stands behind a thousand others competes with it only as a newcomer would."""

_BLOCKED = ("Held", "Dependency", "BeginTime", "Limit", "held state", "Reservation", "BadConstraints", "Invalid")
"""Reasons for which a pending job does not compete for nodes now."""

_RANGE = re.compile(r"(\d+)(?:-(\d+))?(?::(\d+))?")


class Names:
    """Numbers for names: the same name has the same number as long as the process lives."""

    def __init__(self) -> None:
        self.codes: dict[str, dict[str, int]] = {"user": {}, "partition": {}, "qos": {}}

    def code(self, kind: str, name: str) -> int:
        """The number of a name."""
        known = self.codes[kind]
        return known.setdefault(name, len(known))


def view_of(queue: Queue, machine: Machine, ended: Sequence[AccountedJob], names: Names) -> View:
    """What a policy may know, without a chain."""
    for partition in machine.partitions:
        names.code("partition", partition.name)
    known = names.codes["partition"]
    jobs = [job for job in queue.jobs if job.state in (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)]
    jobs = [job for job in jobs if _first(job.partition) in known]
    running = [job for job in jobs if job.state is not JobState.PENDING]
    waiting = [job for job in jobs if job.state is JobState.PENDING]
    pending = sorted((job for job in waiting if not is_blocked(job, queue.time_s)), key=lambda job: -job.priority)
    held = [job for job in waiting if is_blocked(job, queue.time_s)]
    shared = shares_nodes(machine, running, pending)
    nodes = node_rows(machine, running, known) if shared else pool_rows(machine, running, known)
    form = _Form(machine, names, shared)
    return View(
        now_s=queue.time_s,
        nodes=nodes,
        pending=form.jobs(tasks(pending[:MOST_PENDING])[:MOST_PENDING], queue.time_s),
        running=form.jobs(running, queue.time_s),
        held=form.jobs(held, queue.time_s),
        ended=ended_of(ended, names),
    )


def is_blocked(job: QueuedJob, now_s: int) -> bool:
    """Whether a pending job does not compete now: held, waiting for another job or for a time, over a limit."""
    if job.dependency or job.priority == 0 or job.eligible_s == MISSING or job.eligible_s > now_s:
        return not (job.array and job.eligible_s == MISSING and not any(word in job.reason for word in _BLOCKED))
    return any(word in job.reason for word in _BLOCKED)


def tasks(pending: Iterable[QueuedJob]) -> list[QueuedJob]:
    """Arrays that wait as one, written out as the jobs they will be."""
    return [job for one in pending for job in [one] * (array_tasks(one.array) if one.array else 1)]


def array_tasks(expression: str) -> int:
    """How many tasks ``4-9,12%4`` names, 1 … ``MOST_TASKS``; no more at once than it allows itself."""
    listed, _, at_once = expression.partition("%")
    count = 0
    for part in listed.split(","):
        if found := _RANGE.match(part):
            first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
            count += max((last - first) // max(step, 1) + 1, 1)
    if at_once.isdecimal():
        count = min(count, int(at_once) or 1)
    return min(max(count, 1), MOST_TASKS)


def shares_nodes(machine: Machine, running: Sequence[QueuedJob], pending: Sequence[QueuedJob]) -> bool:
    """Whether jobs share nodes here: some job asks for less than all GPUs, or all CPUs, of its nodes."""
    gpus = max((node.gpus for node in machine.nodes), default=0)
    cpus = max((node.cpus for node in machine.nodes), default=1)
    exclusive = {partition.name for partition in machine.partitions if partition.whole_nodes}
    for job in (*running, *pending):
        if job.whole_nodes or _first(job.partition) in exclusive:
            continue
        if job.gpus < gpus * job.nodes if gpus and job.gpus else job.cpus < cpus * job.nodes:
            return True
    return False


def pool_rows(machine: Machine, running: Sequence[QueuedJob], partitions: dict[str, int]) -> Nodes:
    """Pools of whole nodes: nodes that the same partitions may use are one."""
    pools: dict[tuple[int, ...], list[str]] = {}
    for node in machine.nodes:
        if node.usable:
            pools.setdefault(_codes(node.partitions, partitions), []).append(node.name)
    rows = list(pools)
    where = {name: k for k, key in enumerate(rows) for name in pools[key]}
    capacity = np.array([[len(pools[key]), 0] for key in rows] or np.zeros((0, 2)), dtype=np.int64).reshape(-1, 2)
    free = capacity.copy()
    for name, _, _ in _held_shares(running):
        if name in where:
            free[where[name], 0] -= 1
    return Nodes(True, _fixed(capacity), _fixed(np.maximum(free, 0)), _fixed(_allowed(rows, len(partitions))))


def node_rows(machine: Machine, running: Sequence[QueuedJob], partitions: dict[str, int]) -> Nodes:
    """A row a node: its GPUs and CPUs."""
    nodes = [node for node in machine.nodes if node.usable]
    where = {node.name: k for k, node in enumerate(nodes)}
    capacity = np.array([[node.gpus, node.cpus] for node in nodes], dtype=np.int64).reshape(-1, 2)
    free = capacity.copy()
    for name, gpus, cpus in _held_shares(running):
        if name in where:
            free[where[name]] -= (gpus, cpus)
    rows = [_codes(node.partitions, partitions) for node in nodes]
    return Nodes(False, _fixed(capacity), _fixed(np.maximum(free, 0)), _fixed(_allowed(rows, len(partitions))))


def ended_of(jobs: Sequence[AccountedJob], names: Names) -> Ended:
    """Jobs that have run and ended, in order of their end."""
    ran = sorted((job for job in jobs if job.start_s > 0 and job.end_s >= job.start_s), key=lambda job: job.end_s)
    columns: dict[str, Any] = {
        "user": [names.code("user", job.user) for job in ran],
        "limit_s": [_limit(job.limit_s) for job in ran],
        **{name: [getattr(job, name) for job in ran] for name in ("nodes", "submit_s", "start_s", "end_s")},
    }
    return Ended(**{name: _fixed(np.array(column, dtype=np.int64)) for name, column in columns.items()})


class _Form:
    """Writes jobs as columns."""

    def __init__(self, machine: Machine, names: Names, shared: bool) -> None:
        self.names, self.shared = names, shared
        self.default_s = {
            p.name: p.default_time_s if p.default_time_s > 0 else p.max_time_s for p in machine.partitions
        }

    def jobs(self, jobs: Sequence[QueuedJob], now_s: int) -> Jobs:
        def column(of: Callable[[QueuedJob], float], kind: type = np.int64) -> Any:
            return _fixed(np.fromiter((of(job) for job in jobs), kind, len(jobs)))

        runs = bool(jobs) and jobs[0].state is not JobState.PENDING
        eligible = column(lambda job: job.submit_s if job.eligible_s == MISSING else job.eligible_s)
        return Jobs(
            id=column(lambda job: job.id),
            user=column(lambda job: self.names.code("user", job.user)),
            partition=column(lambda job: self.names.code("partition", _first(job.partition))),
            qos=column(lambda job: self.names.code("qos", job.qos)),
            nodes=column(lambda job: job.nodes),
            gpus=column(lambda job: -(-job.gpus // max(job.nodes, 1)) if self.shared and not job.whole_nodes else -1),
            cpus=column(lambda job: max(-(-job.cpus // max(job.nodes, 1)), 1) if self.shared else 1),
            limit_s=column(lambda job: _limit(job.limit_s, self.default_s.get(_first(job.partition), DAY_S))),
            submit_s=column(lambda job: job.submit_s),
            eligible_s=eligible,
            start_s=column(
                lambda job: min(job.start_s, now_s) if runs and job.start_s > 0 else (now_s if runs else -1)
            ),
            width=column(lambda job: job.nodes if runs else 0),
            done_s=column(lambda job: max(now_s - job.start_s, 0) if runs and job.start_s > 0 else 0.0, np.float64),
            priority=column(lambda job: job.priority, np.float64),
        )


def _held_shares(running: Sequence[QueuedJob]) -> Iterable[tuple[str, int, int]]:
    """Node, GPUs and CPUs of every share of a node in use; what a job has is taken to be spread evenly."""
    for job in running:
        try:
            hosts = expand_hosts(job.nodelist)
        except ValueError:
            hosts = []
        for host in hosts:
            yield host, -(-job.gpus // len(hosts)), -(-job.cpus // len(hosts))


def _first(partitions: str) -> str:
    return partitions.partition(",")[0]


def _codes(names: Iterable[str], known: dict[str, int]) -> tuple[int, ...]:
    return tuple(sorted(known[name] for name in names if name in known))


def _allowed(rows: Sequence[tuple[int, ...]], partitions: int) -> Any:
    allowed = np.zeros((partitions, len(rows)), dtype=np.bool_)
    for k, codes in enumerate(rows):
        allowed[list(codes), k] = True
    return allowed


def _limit(limit_s: int, otherwise_s: int = DAY_S) -> int:
    return min(limit_s if limit_s > 0 else otherwise_s, UNLIMITED_S)


def _fixed(array: Any) -> Any:
    array.setflags(write=False)
    return array
