"""View of a real cluster for a policy, made from what Slurm reports.

Simplified on purpose: a job of several partitions waits in the first, and views do not contain which job runs on
which node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from mirage.duration import DAY_S, UNLIMITED_S
from mirage.job_state import MISSING, JobState
from mirage.policy.view import MOST_ENDED, MOST_PENDING, Ended, Nodes, QueueJobs, View
from mirage.slurm.records import AccountedJob, Machine, Queue, QueuedJob
from mirage.slurm_words.hostlist import expand_hosts
from mirage.slurm_words.job_names import fold_name

MOST_TASKS = 1_000
"""Most jobs shown for an array that waits as one record: more of them do not change a forecast."""

_BLOCKED = ("Held", "Dependency", "BeginTime", "Limit", "PerUser", "PerAccount", "Grp", "held state",
            "Reservation", "BadConstraints", "Invalid", "PartitionDown", "PartitionInactive")  # fmt: skip
"""Reasons for which a pending job does not compete for nodes now."""

_THROTTLED = "JobArrayTaskLimit"
"""Reason of tasks that wait until others of their array end."""

_Job = TypeVar("_Job", QueuedJob, AccountedJob)

_RANGE = re.compile(r"(\d+)(?:-(\d+))?(?::(\d+))?")


class Names:
    """Codes for names: a name has the same code for the lifetime of the process.

    Names of jobs are folded first; empty names of jobs and accounts, which Slurm may not report, are ``MISSING``.
    """

    def __init__(self) -> None:
        self.codes: dict[str, dict[str, int]] = {"user": {}, "partition": {}, "qos": {}, "name": {}, "account": {}}
        self._user_keys: list[int] = []

    def user_keys(self) -> tuple[int, ...]:
        """By code of the user, a number that follows from the name: the same in every process."""
        users = self.codes["user"]
        for name in islice(users, len(self._user_keys), None):
            self._user_keys.append(int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little"))
        return tuple(self._user_keys)

    def code(self, kind: str, name: str) -> int:
        """The code of a name."""
        known = self.codes[kind]
        return known.setdefault(name, len(known))

    def name_of(self, job: QueuedJob | AccountedJob) -> int:
        """The code of a job's folded name."""
        return self.code("name", fold_name(job.name)) if job.name.strip() else MISSING

    def account_of(self, job: QueuedJob | AccountedJob) -> int:
        """The code of a job's account."""
        return self.code("account", job.account) if job.account else MISSING


def view_of(
    queue: Queue,
    machine: Machine,
    ended: Ended,
    names: Names,
    options: Mapping[str, str] | None = None,
) -> View:
    """The view of a policy, without a chain.

    Args:
        ended: Of ``ended_of`` with the same names; its CPUs are left out where nodes are pools.
        options: The options of slurm.conf, keys in lower case, where they are known.
    """
    for partition in machine.partitions:
        names.code("partition", partition.name)
    known = names.codes["partition"]
    jobs = [job for job in queue.jobs if job.state in (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)]
    jobs = [job for job in jobs if _first(job.partition) in known]
    running = [job for job in jobs if job.state is not JobState.PENDING]
    waiting = [job for job in jobs if job.state is JobState.PENDING]
    pending = in_order((job for job in waiting if not is_blocked(job, queue.time_s)), machine)
    held = [job for job in waiting if is_blocked(job, queue.time_s)]
    shared = shares_nodes(machine, options or {})
    columns = _Columns(machine, names, shared, queue.time_s)
    return View(
        now_s=queue.time_s,
        nodes=node_rows(machine, running, known) if shared else pool_rows(machine, running, known),
        pending=columns.pending(tasks(pending[:MOST_PENDING])[:MOST_PENDING]),
        running=columns.running(running),
        held=columns.held(held),
        ended=ended if shared else replace(ended, cpus=_fixed(np.full(len(ended), MISSING))),
        tiers=tiers_of(machine, known),
        user_keys=names.user_keys(),
    )


def tiers_of(machine: Machine, known: Mapping[str, int]) -> tuple[int, ...]:
    """By code of the partition, its tier; empty where all are equal."""
    tiers = {known[partition.name]: partition.priority_tier for partition in machine.partitions}
    return tuple(tiers.get(code, 1) for code in range(len(known))) if len(set(tiers.values())) > 1 else ()


def in_order(pending: Iterable[QueuedJob], machine: Machine) -> list[QueuedJob]:
    """Jobs in Slurm's order: by tier of their partition, then by priority.

    Jobs equal in both stay in the given order.
    """
    tiers = {partition.name: partition.priority_tier for partition in machine.partitions}
    return sorted(pending, key=lambda job: (-tiers.get(_first(job.partition), 1), -job.priority))


def is_blocked(job: QueuedJob, now_s: int) -> bool:
    """Whether a pending job does not compete now.

    It may be held, wait for another job or for a time, or be over a limit.
    """
    if job.dependency or job.priority == 0 or job.eligible_s == MISSING or job.eligible_s > now_s:
        return not (job.array and job.eligible_s == MISSING and not any(word in job.reason for word in _BLOCKED))
    return any(word in job.reason for word in _BLOCKED)


def tasks(pending: Iterable[QueuedJob]) -> list[QueuedJob]:
    """Arrays that wait as one record, expanded to the jobs they will be."""
    return [job for one in pending for job in [one] * (array_tasks(one.array) if one.array else 1)]


def array_tasks(expression: str) -> int:
    """Number of tasks in ``4-9,12%4``, 1 … ``MOST_TASKS``, at most its own maximum at once."""
    at_once = expression.partition("%")[2]
    count = _listed_tasks(expression)
    if at_once.isdecimal():
        count = min(count, int(at_once) or 1)
    return min(max(count, 1), MOST_TASKS)


def throttled_tasks(queue: Queue) -> int:
    """Number of tasks that wait for others of their array (``0-99%4``), in no view."""
    throttled = [job for job in queue.jobs if job.state is JobState.PENDING and "%" in job.array]
    count = sum(_listed_tasks(job.array) for job in throttled if _THROTTLED in job.reason)
    free = [job for job in throttled if not is_blocked(job, queue.time_s)]
    return count + sum(_listed_tasks(job.array) - array_tasks(job.array) for job in free)


def _listed_tasks(expression: str) -> int:
    """Number of tasks in ``4-9,12%4``, however many may run at once."""
    count = 0
    for part in expression.partition("%")[0].split(","):
        if found := _RANGE.match(part):
            first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
            count += max((last - first) // max(step, 1) + 1, 1)
    return count


def shares_nodes(machine: Machine, options: Mapping[str, str]) -> bool:
    """Whether jobs may share nodes.

    They may not under ``select/linear``, nor where every partition gives out whole nodes.
    """
    if options.get("selecttype", "").lower() == "select/linear":
        return False
    return not all(partition.whole_nodes for partition in machine.partitions)


def pool_rows(machine: Machine, running: Sequence[QueuedJob], partitions: dict[str, int]) -> Nodes:
    """Pools of whole nodes: nodes that the same partitions may use form one pool."""
    rows = list(dict.fromkeys(_codes(node.partitions, partitions) for node in machine.nodes))
    usable = {
        node.name: rows.index(_codes(node.partitions, partitions)) for node in machine.nodes if node.usable
    }  # fmt: skip
    capacity = np.zeros((len(rows), 2), dtype=np.int64)
    for k in usable.values():
        capacity[k, 0] += 1
    free = capacity.copy()
    completing = {node.name for node in machine.nodes if "completing" in node.state.lower()}  # in use without a job
    for name in ({name for job in running for name in _hosts(job)} | completing) & usable.keys():
        free[usable[name], 0] -= 1
    return Nodes(True, _fixed(capacity), _fixed(free), _fixed(_allowed(rows, len(partitions))))


def node_rows(machine: Machine, running: Sequence[QueuedJob], partitions: dict[str, int]) -> Nodes:
    """One row per node, with its GPUs and CPUs; 0 of both while it is down."""
    where = {node.name: k for k, node in enumerate(machine.nodes)}
    capacity = np.array(
        [(node.gpus, node.cpus) if node.usable else (0, 0) for node in machine.nodes], dtype=np.int64
    ).reshape(-1, 2)
    free = capacity.copy()
    for job in running:
        hosts = _hosts(job)
        for k in (where[name] for name in hosts if name in where):
            free[k] -= capacity[k] if job.whole_nodes else (-(-job.gpus // len(hosts)), -(-job.cpus // len(hosts)))
    rows = [_codes(node.partitions, partitions) for node in machine.nodes]
    return Nodes(False, _fixed(capacity), _fixed(np.maximum(free, 0)), _fixed(_allowed(rows, len(partitions))))


def ended_of(jobs: Iterable[AccountedJob], names: Names) -> Ended:
    """Jobs that have run and ended, in order of their end."""
    ran = [job for job in jobs if job.start_s != MISSING and job.end_s >= job.start_s]
    ran = sorted(ran, key=lambda job: job.end_s)[-MOST_ENDED:]
    columns: dict[str, Any] = {
        "user": [names.code("user", job.user) for job in ran],
        "limit_s": [_limit(job.limit_s) for job in ran],
        **{name: [getattr(job, name) for job in ran] for name in ("nodes", "submit_s", "start_s", "end_s")},
        "name": [names.name_of(job) for job in ran],
        "account": [names.account_of(job) for job in ran],
        "cpus": [MISSING if job.cpus == MISSING else -(-job.cpus // max(job.nodes, 1)) for job in ran],
    }
    return Ended(**{name: _fixed(np.array(column, dtype=np.int64)) for name, column in columns.items()})


def waits_from_release(queue: Queue, ended: Iterable[AccountedJob]) -> tuple[Queue, list[AccountedJob]]:
    """A queue and ended jobs with submission times from which each job could start.

    A wait then does not include the time in which a dependency held the job, as it holds the links of a chain.
    """
    jobs = (_from_release(job) if job.state is JobState.RUNNING else job for job in queue.jobs)
    return replace(queue, jobs=tuple(jobs)), [_from_release(job) for job in ended]


def _from_release(job: _Job) -> _Job:
    return replace(job, submit_s=max(job.submit_s, min(job.eligible_s, job.start_s)))


class _Columns:
    """Writes jobs as columns: those that compete, run or are held."""

    def __init__(self, machine: Machine, names: Names, shared: bool, now_s: int) -> None:
        self.names, self.shared, self.now_s = names, shared, now_s
        self.default_s = {
            p.name: p.default_time_s if p.default_time_s > 0 else p.max_time_s for p in machine.partitions
        }

    def pending(self, jobs: Sequence[QueuedJob]) -> QueueJobs:
        """Jobs that compete; age counts from the submission where Slurm reports no other time."""
        return self._jobs(jobs, eligible_s=_eligible_s, start_s=_missing, width=_none, done_s=_none)

    def running(self, jobs: Sequence[QueuedJob]) -> QueueJobs:
        """Jobs that run; one without a start counts as started now."""
        return self._jobs(
            jobs,
            eligible_s=_eligible_s,
            start_s=self._start_s,
            width=lambda job: job.nodes,
            done_s=lambda job: self.now_s - self._start_s(job),
        )

    def held(self, jobs: Sequence[QueuedJob]) -> QueueJobs:
        """Jobs that do not compete: without priority; with age only if eligible before."""
        return self._jobs(jobs, eligible_s=_accrues_s, start_s=_missing, width=_none, done_s=_none, priority=_none)

    def _start_s(self, job: QueuedJob) -> int:
        return self.now_s if job.start_s == MISSING else min(job.start_s, self.now_s)

    def _jobs(self, jobs: Sequence[QueuedJob], **further: Callable[[QueuedJob], float]) -> QueueJobs:
        default_s, code = self.default_s, self.names.code
        columns: dict[str, Callable[[QueuedJob], float]] = {
            "id": lambda job: job.id,
            "user": lambda job: code("user", job.user),
            "partition": lambda job: code("partition", _first(job.partition)),
            "qos": lambda job: code("qos", job.qos),
            "nodes": lambda job: job.nodes,
            "gpus": lambda job: self._a_node(job, job.gpus),
            "cpus": lambda job: self._a_node(job, max(job.cpus, 1)),
            "limit_s": lambda job: _limit(job.limit_s, default_s.get(_first(job.partition), DAY_S)),
            "submit_s": lambda job: job.submit_s,
            "priority": lambda job: job.priority if job.priority > 1 or job.nice > 0 else 0.0,
            "name": self.names.name_of,
            "account": self.names.account_of,
            "nice": lambda job: job.nice,
            **further,
        }
        kinds = {name: np.float64 if name in ("done_s", "priority") else np.int64 for name in columns}
        return QueueJobs(**{
            name: _fixed(np.fromiter(map(of, jobs), kinds[name], len(jobs))) for name, of in columns.items()
        })  # fmt: skip

    def _a_node(self, job: QueuedJob, count: int) -> int:
        """A job's GPUs or CPUs on each of its nodes; −1 where it takes whole nodes."""
        return -(-count // max(job.nodes, 1)) if self.shared and not job.whole_nodes else -1


def _eligible_s(job: QueuedJob) -> int:
    """Since when age counts; where Slurm does not report it, since the job is eligible."""
    known_times_s = (time_s for time_s in (job.accrues_s, job.eligible_s) if time_s != MISSING)
    return next(known_times_s, job.submit_s)


def _accrues_s(job: QueuedJob) -> int:
    return job.accrues_s


def _missing(job: QueuedJob) -> int:
    return MISSING


def _none(job: QueuedJob) -> int:
    return 0


def _hosts(job: QueuedJob) -> list[str]:
    """Names of the nodes of a job; none where Slurm's list cannot be read."""
    try:
        return expand_hosts(job.nodelist)
    except ValueError:
        return []


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
