"""The allow-list: which verbs of a plan the executor carries out.

It believes nothing that a plan says: nodes are those of the file of pools, jobs are those that take part by Slurm's own
report, and the number of commands, evictions and resizes is limited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from mirage.control.begun_evictions import EVICT, RESIZE, why_over_budget
from mirage.control.job_sizes import job_sizes
from mirage.control.pools_file import Pools
from mirage.control.verbs import HETEROGENEOUS, LOAN, PLAN_VERBS, TASKS_UNKNOWN, Verb, fits_loan, lost_loan
from mirage.control.worker_jobs import is_orphan, main_job_of, only_holds, worker_changes
from mirage.duration import MINUTE_S
from mirage.job_state import JobState
from mirage.slurm.text.gpu_queue import GpuQueueJob

PLAN_FORMAT = "mirage-control-plan-1"

_RESERVED = 4
"""A quarter of the commands of a minute is not for nice values: an owner's node must not wait for the order of jobs."""

_NICE = 2**31 - 3
_LARGEST = 2**53
_KINDS = {
    "name": str, "job": int, "submit_s": int, "node": str, "nice": int, "minutes": int, "warns": bool, "gpus": int,
}  # fmt: skip
"""Operands that a plan may give, and their types."""


@dataclass(slots=True)
class AllowList:
    """What a file of pools allows at a moment.

    Attributes:
        pools: The file.
        clock: The present time, in seconds since 1970.
        stops: Times of evictions and of resizes, with the jobs.
        leaving: Ids of jobs that are being stopped.
        loans: Ends of loans by name, in seconds since 1970.
        workers: Worker jobs, by the id of their main job.
        unfinished: Ids of all jobs that have not ended; None if they are not known.
        sent: Times of the commands of the last minute.
    """

    pools: Pools
    clock: Callable[[], float]
    stops: Mapping[str, deque[tuple[float, int]]]
    leaving: Container[int]
    loans: dict[str, int] = field(default_factory=dict)
    workers: Mapping[int, tuple[GpuQueueJob, ...]] = field(default_factory=dict)
    unfinished: Container[int] | None = None
    sent: deque[float] = field(default_factory=deque)

    def why_not(self, verb: Verb, jobs: Mapping[int, GpuQueueJob], unsent: int = 0) -> str:
        """Why a verb of a plan is not carried out; empty if it is.

        Args:
            verb: The verb.
            jobs: The jobs that take part, by id.
            unsent: Number of commands of this plan that will be sent later.
        """
        now_s = self.clock()
        if verb.name not in PLAN_VERBS:
            return f"{verb.name[:20]} is no verb of a plan"
        if (verb.node or verb.name in ("lend", "return", "enter")) and verb.node not in self.pools.owner_nodes:
            return "not a node of the owner"
        while self.sent and not now_s - MINUTE_S < self.sent[0] <= now_s:  # the clock may have been set back
            self.sent.popleft()
        of_workers = len(self.changes(verb, jobs.get(verb.job)))
        commands, most = len(self.sent) + unsent + max(of_workers - 1, 0), self.pools.commands_per_minute
        if verb.name == "nice":
            most -= most // _RESERVED
        if commands >= most:
            return f"{commands} commands in a minute"
        if verb.name == "lend":
            if not any(jobs):
                return "no job takes part"
            return "" if 1 <= verb.minutes <= self.pools.promise_s // MINUTE_S else "longer than the promise"
        if verb.name == "return":
            return ""
        one = jobs.get(verb.job)
        if one is None or one.job.submit_s != verb.submit_s:
            return "not a job that takes part, or requeued since"
        return self._why_not_for_job(verb, one, jobs, now_s)

    def _why_not_for_job(self, verb: Verb, one: GpuQueueJob, jobs: Mapping[int, GpuQueueJob], now_s: float) -> str:
        """Why a verb for a job that takes part is not carried out; empty if it is."""
        if one.heterogeneous:
            return HETEROGENEOUS
        if one.tasks_unknown:
            return TASKS_UNKNOWN
        if verb.name == "end":
            is_known = self.unfinished is not None and is_orphan(one, self.unfinished)
            return "" if is_known else "not a worker whose main job has ended, or that is not known now"
        if main_job_of(one.job):
            return "a worker job: only its main job changes"
        if verb.name in (EVICT, RESIZE):
            return self._why_no_stop(verb, one, now_s)
        if verb.name == "unhold":
            return "" if lost_loan(one.job.reason, self.pools.owner_nodes) else "not held because its loan has ended"
        return self._why_not_waiting(verb, one, jobs, now_s)

    def _why_not_waiting(self, verb: Verb, one: GpuQueueJob, jobs: Mapping[int, GpuQueueJob], now_s: float) -> str:
        """Why a verb for waiting jobs is not carried out; empty if it is."""
        if one.job.state is not JobState.PENDING or (one.reservation and not one.reservation.startswith(LOAN)):
            return "not pending, or in a reservation of its own"
        if verb.name == "size":
            return self.why_not_size(verb, one)
        if verb.name == "enter" and not fits_loan(one.job.limit_s, now_s, self.loans.get(LOAN + verb.node, 0)):
            return "longer than the rest of the loan, or no loan"
        highest = max(other.job.priority for other in jobs.values() if other.job.state is JobState.PENDING)
        priority = one.job.priority + one.job.nice - verb.nice
        if verb.name == "nice" and not (abs(verb.nice) <= _NICE and 1 <= priority <= highest):
            return "above the highest job that takes part, or below Slurm's lowest priority"
        return ""

    def why_not_size(self, verb: Verb, one: GpuQueueJob) -> str:
        """Why a job does not get another size; empty if it does."""
        workers = self.workers.get(one.job.id, ())
        sizes = job_sizes(one, self.pools, workers)
        waits = one.job.state is JobState.PENDING
        most = sizes.least if sizes.of_worker and waits else sizes.most
        if not sizes.elastic or not sizes.least <= verb.gpus <= most:
            return "not an elastic job, or not a size of its range"
        if sizes.of_worker:
            return "" if self.changes(verb, one) else "it has this size"
        if verb.gpus == one.job.gpus:
            return "it has this size"
        return "a job in a reservation does not change its size" if verb.name == RESIZE and one.reservation else ""

    def changes(self, verb: Verb, one: GpuQueueJob | None) -> tuple[Verb, ...]:
        """The verbs of the worker jobs that change the size of a job, or leave with it."""
        workers = self.workers.get(verb.job, ())
        if one is None or not workers:
            return ()
        if verb.name == EVICT:
            return worker_changes(workers, 0)
        of_worker = job_sizes(one, self.pools, workers).of_worker * (verb.name in (RESIZE, "size"))
        return worker_changes(workers, max(verb.gpus - one.job.gpus, 0) // of_worker) if of_worker else ()

    def _why_no_stop(self, verb: Verb, one: GpuQueueJob, now_s: float) -> str:
        """Why a running job is not requeued, for an eviction or a new size; empty if it is."""
        if verb.name == RESIZE and (why := self.why_not_size(verb, one)):
            return why
        if not runs(one) or one.job.id in self.leaving:
            return "not running, or leaving already"
        if only_holds(self.changes(verb, one)):
            return ""
        return why_over_budget(verb.name, verb.job, self.stops[verb.name], self.pools, now_s)


def runs(one: GpuQueueJob) -> bool:
    """Whether a job runs, and its processes have not ended."""
    return one.job.state is JobState.RUNNING and not one.job.completing


def plan_rows(plan: object, now_s: float, oldest_s: float) -> tuple[int, list[object]] | None:
    """Time and rows of a plan, as parsed from JSON; None if it is not one, or too old.

    Args:
        plan: Of any form.
        now_s: The present time, in seconds since 1970.
        oldest_s: Age of the oldest plan that is carried out, in seconds.
    """
    if not isinstance(plan, dict) or plan.get("format") != PLAN_FORMAT:
        return None
    made_s, rows = plan.get("time_s", ""), plan.get("verbs")
    is_fresh = _is(made_s, int) and 0 <= now_s - made_s <= oldest_s
    return (made_s, rows) if is_fresh and isinstance(rows, list) else None


def read_verb(row: object) -> Verb | None:
    """The verb of a row of a plan; None if it is not one."""
    if not isinstance(row, dict) or "name" not in row or not set(row) <= set(_KINDS):
        return None
    if not all(_is(value, _KINDS[name]) for name, value in row.items()):
        return None
    return Verb(**row)


def _is(value: object, kind: type) -> bool:
    """Whether a value is of a type; numbers are neither True and False nor huge."""
    if isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
        return False
    return isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
