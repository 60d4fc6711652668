"""The executor: carries out plan files within the allow-list of a file of pools.

It has no policy and no network of its own, and the names of reservations follow from the nodes. Before it acts, it
writes what undoes the act into a journal. The state of all loans is Slurm's own; the journal is a log.
"""

from __future__ import annotations

import fcntl
import math
import os
import secrets
from collections import deque
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mirage.control.allow_list import AllowList, plan_rows, read_verb, runs
from mirage.control.begun_evictions import (
    EVICT,
    LONGEST_S,
    RESIZE,
    Leaving,
    Requeued,
    kind_of,
    requeued_jobs,
    stops_in,
    warned_jobs,
)
from mirage.control.controller_lease import ControllerLease
from mirage.control.executor_folder import append_row, lease_mark, locked, read_journal
from mirage.control.pools_file import Pools
from mirage.control.progress_files import ProgressFiles
from mirage.control.verbs import LOAN, Verb, command_of
from mirage.control.worker_jobs import only_holds, undo_of, unfinished_ids, workers_by_main
from mirage.duration import MINUTE_S
from mirage.errors import SlurmError, SlurmRefused, SlurmUnreachable, quantity
from mirage.job_state import JobState
from mirage.slurm.client import SlurmClient
from mirage.slurm.gpu_snapshot import GpuSnapshot, all_reservations
from mirage.slurm.records import SlurmReservation
from mirage.slurm.text.gpu_queue import GpuQueueJob, gpu_queue_command, read_gpu_queue

_FRESH_S = 10
"""Seconds in which a snapshot serves the plan that was made with it."""

_SHORT_S = 2.0


class PlanExecutor:
    """Carries out plans; made by one process at a time.

    Args:
        slurm: The cluster, with the rights of an operator.
        pools: The allow-list.
        folder: The folder of the journal and the lock.
        clock: The present time, in seconds since 1970.

    Attributes:
        journal: The file of the journal.
        lease: The controller's lease in Slurm.
        allowed: The verbs of plans that are carried out.
        on_outcome: Called with each outcome, for a log.

    Raises:
        ConfigurationError: Another process has the lock of the folder, or it cannot be written.
    """

    def __init__(self, slurm: SlurmClient, pools: Pools, folder: Path, clock: Callable[[], float]) -> None:
        self.slurm, self.pools, self.clock = slurm, pools, clock
        self.on_outcome: Callable[[Mapping[str, Any]], None] = lambda outcome: None
        self._lock = locked(folder)
        self.journal = folder / "journal.jsonl"
        self._progress = ProgressFiles(pools.progress_file)
        rows = read_journal(self.journal)
        self._stops = {kind: deque(stops) for kind, stops in stops_in(rows).items()}
        self._snapshot: GpuSnapshot | None = None  # the last one, until a plan has used it
        self._leaving: dict[int, Leaving] = {}  # by job
        self._unsent: list[Leaving] = []  # those of a plan with signals that have not been sent
        self._requeued = requeued_jobs(rows, clock())
        self.allowed = AllowList(pools, clock, self._stops, self._leaving)
        self.lease = ControllerLease(slurm, pools, clock, lease_mark(rows), self.send)

    def close(self) -> None:
        """Release the lock of the folder.

        A thread with a file that hangs may outlast the process, and its descriptors with it.
        """
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        os.close(self._lock)

    def begin(self) -> None:
        """Take the lease in Slurm, and make the fence if there is none.

        Evictions and resizes that a former process has begun with this folder go on.

        Raises:
            SlurmRefused: Another controller has the lease, or the rights are missing.
            ConfigurationError: There is no fence, and the file does not name the users of the owner.
        """
        self.lease.take()
        warned = warned_jobs(read_journal(self.journal), self.clock(), self.pools.grace_s)
        self._leaving.update({job: Leaving(due_s, verb) for job, (due_s, verb) in warned.items()})

    def observe(self, snapshot: GpuSnapshot) -> None:
        """Hold the lease, and use a snapshot for the plan that is made with it.

        Args:
            snapshot: The present snapshot, which this process has taken.

        Raises:
            SlurmError: The lease cannot be renewed: the executor must end.
        """
        self.lease.check()
        self.lease.renew(snapshot.reservations)
        self._snapshot = snapshot

    # -- plans ---------------------------------------------------------------------------------------------------------

    def run_plan(self, plan: object) -> int:
        """Carry out a plan; returns the number of verbs that were refused.

        A verb that is refused, here or by Slurm, does not stop the others.

        Args:
            plan: As parsed from JSON; of any form.

        Raises:
            SlurmUnreachable: Slurm does not answer; the rest of the plan is not carried out.
            SlurmRefused: The lease has ended, or another controller has one.
        """
        self.lease.check()
        if (read := plan_rows(plan, self.clock(), 2 * self.pools.poll_s)) is None:
            self._report("plan", "refused: not a plan, or too old", {})
            return 1
        made_s, rows = read
        jobs, reservations = self._observed(made_s) if rows else ((), ())
        of_plan = {one.job.id: one for one in jobs}
        self.allowed.loans = {one.name: one.end_s for one in reservations}
        self.allowed.workers = workers_by_main(jobs)
        refused = 0
        for row in rows:
            verb = read_verb(row)
            if verb is None or verb.name not in (EVICT, RESIZE):
                refused += self._begin_stops()
            why = "not a verb" if verb is None else self.allowed.why_not(verb, of_plan, len(self._unsent))
            if verb is None or why:
                refused += 1
                self._report("verb", f"refused: {why}", row)
                continue
            try:
                self._carry_out(verb, of_plan)
            except SlurmRefused as error:
                refused += 1
                self._report(verb.name, f"refused by Slurm: {error}", asdict(verb))
        return refused + self._begin_stops()

    def _observed(self, time_s: int) -> tuple[Sequence[GpuQueueJob], Iterable[SlurmReservation]]:
        """The jobs that take part and the reservations, of the plan's snapshot or of now.

        A snapshot serves one plan: another one must know what this one has changed.

        Args:
            time_s: Time of the plan's snapshot, in seconds since 1970.
        """
        snapshot, self._snapshot = self._snapshot, None
        self.allowed.unfinished = None
        if snapshot is not None and snapshot.time_s == time_s and self.clock() - time_s <= _FRESH_S:
            self.allowed.unfinished = unfinished_ids(snapshot.jobs)
            return self._taking_part(snapshot.jobs), snapshot.reservations
        jobs, reservations = self.jobs(), all_reservations(self.slurm)
        self.lease.renew(reservations)
        return jobs, reservations

    def _carry_out(self, verb: Verb, jobs: Mapping[int, GpuQueueJob]) -> None:
        one = jobs.get(verb.job)
        verb = replace(verb, task=one.task if one is not None else "", workers=self.allowed.changes(verb, one))
        if verb.workers and verb.name != EVICT:
            self._change_workers(verb)
        elif verb.name in (EVICT, RESIZE) and one is not None:
            lent = one.reservation.removeprefix(LOAN) if one.reservation.startswith(LOAN) else ""
            node, gpus = lent if lent in self.pools.owner_nodes else "", verb.gpus if verb.name == RESIZE else 0
            verb = replace(verb, node=node, gpus=gpus, gpu_type=one.gpu_type, per_node=one.gpus_on_one_node)
            before = self._progress.read(one.job)
            read_s = math.inf if self._progress.hangs(one.job) else 0.0  # what it had saved before is not known
            self._stops[kind_of(verb)].append((self.clock(), verb.job))
            leaving = self._leaving[verb.job] = Leaving(math.inf, verb, 0.0, one.job, one.restarts, before, read_s)
            self._unsent.append(leaving)
        elif verb.name == "size" and one is not None:
            verb = replace(verb, gpu_type=one.gpu_type, per_node=one.gpus_on_one_node)
            self.send(verb, undo=replace(verb, gpus=one.job.gpus))
        elif verb.name == "lend":
            users = tuple(sorted({other.job.user for other in jobs.values()}))
            self.send(replace(verb, users=users), undo=Verb("return", node=verb.node))
            self.allowed.loans[LOAN + verb.node] = int(self.clock()) + MINUTE_S * verb.minutes
        elif verb.name == "nice" and one is not None:
            self.send(verb, undo=replace(verb, nice=one.job.nice))
        elif verb.name in ("enter", "leave") and one is not None:
            former = one.reservation.removeprefix(LOAN)
            self.send(verb, undo=replace(verb, name="enter" if former else "leave", node=former))
        else:
            self.send(verb)

    def _change_workers(self, verb: Verb) -> None:
        """Change the size of a job by its workers; of a running job this counts as one resize."""
        if verb.name == RESIZE and not only_holds(verb.workers):
            self._stops[RESIZE].append((self.clock(), verb.job))
            append_row(self.journal, {"time_s": self.clock(), "verb": asdict(verb), "undo": None})
        for change in verb.workers:
            self.send(change, undo=undo_of(change))

    def _begin_stops(self) -> int:
        """Begin the evictions and resizes of a plan so far; returns the number that Slurm refused.

        One command signals all jobs: it queries Slurm, too.
        """
        begun, self._unsent = self._unsent, []
        warned = [one for one in begun if one.verb.warns]
        try:
            if warned:
                self._signal([one.verb for one in warned])
        except SlurmError as error:
            for one in warned:
                del self._leaving[one.verb.job]
            if not isinstance(error, SlurmRefused):
                raise
            for one in warned:
                self._report(kind_of(one.verb), f"refused by Slurm: {error}", asdict(one.verb))
            begun, refused = [one for one in begun if one not in warned], len(warned)
        else:
            refused = 0
        for one in begun:
            one.since_s = self.clock()
            one.due_s = one.since_s + self.pools.grace_s * one.verb.warns
        if begun:
            self.finish_evictions()
        return refused

    # -- the passage of time -------------------------------------------------------------------------------------------

    def tick(self) -> float:
        """Renew the lease, and requeue jobs after their grace; called at least every second.

        Returns the seconds until it queries Slurm about a requeued job; infinity if there is none.

        Raises:
            SlurmError: The lease cannot be renewed: the executor must end.
        """
        self.lease.tick()
        self.finish_evictions()
        return max(min((one.check_s for one in self._requeued.values()), default=math.inf) - self.clock(), 0.0)

    def releases(self) -> bool:
        """Whether the release of a job is near: a snapshot would delay it."""
        now_s = self.clock()
        return any(0 <= now_s - one.since_s < _SHORT_S for one in self._requeued.values())

    def finish_evictions(self) -> None:
        """Requeue jobs that have saved or used up their grace; release requeued ones."""
        now_s = self.clock()
        due = [one for one in self._leaving.values() if one.due_s <= now_s or one.has_saved(self._progress.read, now_s)]
        if not due and all(one.check_s > now_s for one in self._requeued.values()):
            return
        jobs = {one.job.id: one for one in self.jobs()}
        for leaving in due:
            self._stop(leaving, jobs.get(leaving.verb.job))
            self._leaving.pop(leaving.verb.job, None)
        self._release(jobs, but=[leaving.verb.job for leaving in due])

    def release_requeued(self) -> tuple[int, ...]:
        """Release the requeued jobs that have left their nodes; returns the ids of the others.

        No job is evicted, and none gets another size.
        """
        if self._requeued:
            jobs = {one.job.id: one for one in self.jobs()}
            self._requeued = {job: one for job, one in self._requeued.items() if not _is_on(one, jobs.get(job))}
            self._release(jobs, resizes=False)
        return tuple(self._requeued)

    def _stop(self, leaving: Leaving, one: GpuQueueJob | None) -> None:
        """Requeue a job; one that is to change its size may have requeued itself."""
        verb, now_s = leaving.verb, self.clock()
        if one is not None and runs(one) and one.job.submit_s == verb.submit_s:
            self._requeue(verb)
        elif (
            one is not None and leaving.job is not None and kind_of(verb) == RESIZE
            and one.job.state is JobState.PENDING and one.restarts > leaving.restarts
        ):  # fmt: skip
            self._requeued[verb.job] = Requeued(verb, now_s, now_s)
        else:
            self._report(kind_of(verb), "left by itself", asdict(verb))

    def _requeue(self, verb: Verb) -> None:
        requeued = self._requeued[verb.job] = Requeued(verb, self.clock(), 0.0)
        requeued.wait(requeued.since_s)
        self._leaving.pop(verb.job, None)
        try:
            self.send(replace(verb, name="requeue"))
        except SlurmRefused as error:
            del self._requeued[verb.job]
            self._report(kind_of(verb), f"refused by Slurm: {error}", asdict(verb))
            return
        for change in (*verb.workers, *([replace(verb, name="leave")] if verb.node else [])):
            self._send_if_allowed(change)

    def _release(self, jobs: Mapping[int, GpuQueueJob], but: Container[int] = (), *, resizes: bool = True) -> None:
        """Release those requeued jobs that have left their nodes.

        A job first leaves its loan: it would start there again. It gets its new size. It may start in the second after
        the one in which it left: its node refuses an earlier start, and the job then fails (``Job credential revoked``,
        22.05.8).

        Args:
            jobs: The jobs that take part, by id.
            but: Jobs that have been requeued since.
            resizes: Whether jobs get their new size.
        """
        now_s = self.clock()
        for job, requeued in list(self._requeued.items()):
            verb, one = requeued.verb, jobs.get(job)
            if job in but:
                continue
            if one is not None and one.job.completing and now_s - requeued.since_s <= LONGEST_S:
                requeued.wait(now_s)
            elif _is_on(requeued, one):
                self._requeue(verb)  # the process died before, or slurmctld has lost it
            else:
                if one is not None and one.job.state is JobState.PENDING and one.restarts:
                    if one.reservation.startswith(LOAN):
                        self._send_if_allowed(replace(verb, name="leave"))
                    size = replace(verb, name="size", gpu_type=one.gpu_type, per_node=one.gpus_on_one_node)
                    if resizes and kind_of(verb) == RESIZE and not self.allowed.why_not_size(size, one):
                        self._send_if_allowed(size, undo=replace(size, gpus=one.job.gpus))
                    if one.job.eligible_s > now_s:
                        self._send_if_allowed(replace(verb, name="release", start_s=one.job.submit_s + 1))
                del self._requeued[job]

    def _send_if_allowed(self, verb: Verb, undo: Verb | None = None) -> None:
        try:
            self.send(verb, undo)
        except SlurmRefused as error:
            self._report(kind_of(verb), f"refused by Slurm: {error}", asdict(verb))

    # -- effects -------------------------------------------------------------------------------------------------------

    def jobs(self) -> list[GpuQueueJob]:
        """The jobs that take part, as Slurm reports them now."""
        mark = secrets.token_hex(4)
        command = (*gpu_queue_command(mark), f"--partition={self.pools.borrower_partition}")
        found, unreadable = read_gpu_queue(self.slurm.output(command), mark)
        if unreadable:
            raise SlurmUnreachable(
                f"squeue printed {quantity(len(unreadable), 'record')} that cannot be read; nothing is done"
            )
        return self._taking_part(found)

    def _taking_part(self, jobs: Iterable[GpuQueueJob]) -> list[GpuQueueJob]:
        alive, partition = (JobState.PENDING, JobState.RUNNING), self.pools.borrower_partition
        return [
            one
            for one in jobs
            if one.job.state in alive and partition in one.job.partition.split(",") and self.pools.takes_part(one.job)
        ]

    def _signal(self, verbs: Sequence[Verb]) -> None:
        """Send the signal to some jobs with one command.

        Raises:
            SlurmError: The command failed; a job that has ended is no failure.
        """
        signals = [replace(verb, name="signal") for verb in verbs]
        for verb in signals:
            self._record(verb)
        self.slurm.signal([verb.job_name for verb in signals], self.pools.signal)
        for verb in signals:
            self._report(verb.name, "done", asdict(verb))

    def send(self, verb: Verb, undo: Verb | None = None) -> None:
        """Write a verb with its undo into the journal, then run its command.

        Raises:
            SlurmError: The command failed.
        """
        self._record(verb, undo)
        self.slurm.output(command_of(verb, self.pools))
        self._report(verb.name, "done", asdict(verb))

    def _record(self, verb: Verb, undo: Verb | None = None) -> None:
        row = {"time_s": self.clock(), "verb": asdict(verb), "undo": None if undo is None else asdict(undo)}
        append_row(self.journal, row)
        self.allowed.sent.append(self.clock())

    def _report(self, what: str, outcome: str, detail: object) -> None:
        self.on_outcome({"time_s": self.clock(), "what": what, "outcome": outcome, "detail": detail})


def _is_on(requeued: Requeued, one: GpuQueueJob | None) -> bool:
    """Whether a job still runs as before its requeue."""
    return one is not None and runs(one) and one.job.submit_s == requeued.verb.submit_s
