"""The poller: one squeue for all chains, and at most one more command a poll."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from mirage.agent.cycle.own_jobs import Key, OwnJobs, own_jobs, tag_of
from mirage.agent.settings import AgentSettings
from mirage.errors import SlurmError
from mirage.job_state import MISSING, JobState
from mirage.policy.view import MOST_ENDED
from mirage.slurm.backend import Backend
from mirage.slurm.hidden_jobs import unexplained_nodes
from mirage.slurm.records import AccountedJob, Machine, Node, Queue, QueuedJob, SlurmPartition, SlurmReservation
from mirage.slurm_words.states import ALIVE

log = logging.getLogger("mirage.agent")

OPTIONS, MACHINE, ACCOUNTING = "the scheduler's options", "nodes and partitions", "accounting"
RESERVATIONS = "reservations"

OVERLAP_S = 600
"""Each query of accounting begins this long before the last one: records arrive late and incomplete."""

_IN_BOTH = tuple({each.name for each in fields(AccountedJob)} & {each.name for each in fields(QueuedJob)})
"""What queue and accounting report of a job."""


@dataclass(slots=True)
class Snapshot:
    """The state of the cluster after a poll.

    Attributes:
        own: Our jobs in the queue.
        accounted: Our jobs in accounting by id; empty where this poll did not query it.
        accounted_tags: Our jobs that this or an earlier poll has found in accounting, by link.
        has_accounting: Whether this poll queried accounting.
    """

    queue: Queue
    own: OwnJobs = field(default_factory=OwnJobs)
    accounted: dict[int, AccountedJob] = field(default_factory=dict)
    accounted_tags: dict[Key, AccountedJob] = field(default_factory=dict)
    has_accounting: bool = False

    @property
    def by_id(self) -> dict[int, QueuedJob]:
        """Jobs of our user by number."""
        return self.own.by_id


class Poller:
    """The poller stores the machine, its options and the jobs that ended.

    Attributes:
        unexplained: ``unexplained_nodes`` of the machine and the queue of the same poll.
        reservations: Reservations as last queried.
        ended: The latest jobs that ran and ended, by id.
        ended_changed: Whether ``ended`` has other jobs than when this was last set to False.
    """

    def __init__(self, backend: Backend, settings: AgentSettings) -> None:
        self.backend, self.settings = backend, settings
        self.machine: Machine | None = None
        self.unexplained = ""
        self.options: Mapping[str, str] | None = None
        self.reservations: tuple[SlurmReservation, ...] = ()
        self.ended: dict[int, AccountedJob] = {}
        self.ended_changed = False
        self._tags: dict[Key, AccountedJob] = {}
        self._queue: Queue | None = None
        self._queue_s = 0
        self._machine_s = self._accounts_s = self._options_s = self._reservations_s = self._extended_s = -1
        self._searched_missing = self._identified = False
        self._back_s = settings.history_s
        self._not_before: dict[str, int] = {}

    def poll(self, now_s: int, store: str, *, missing_since_s: int | None) -> Snapshot:
        """One poll; within the site's least time between polls, the last snapshot again.

        Args:
            now_s: The agent's clock.
            store: Identity of the store of our jobs.
            missing_since_s: Submission time of the oldest open link that was not in the queue last time; None where all
                were.

        Raises:
            SlurmUnreachable: No queue; the last known state stays.
        """
        known, least_s = self._queue, self.settings.site.least_poll_s
        if known is not None and 0 <= now_s - self._queue_s < least_s:
            return Snapshot(known, own_jobs(known.jobs, self.backend.user, store), accounted_tags=self._tags)
        self._queue = queue = self.backend.observe()
        self._queue_s = now_s
        self._add_ended(queue)
        snapshot = Snapshot(queue, own_jobs(queue.jobs, self.backend.user, store), accounted_tags=self._tags)
        self._run_second_command(snapshot, now_s, store, missing_since_s)
        return snapshot

    def planned_starts_s(self) -> dict[int, int]:
        """By job of our user that waits, its start in Slurm's plan as last polled."""
        jobs = [] if self._queue is None else [job for job in self._queue.jobs if job.user == self.backend.user]
        return {job.id: job.start_s for job in jobs if job.state is JobState.PENDING and job.start_s != MISSING}

    def identify(self, now_s: int) -> None:
        """Query which cluster this is, unless this process has done so.

        The memory may be of a process on another cluster.

        Raises:
            SlurmError: No answer.
        """
        if not self._identified:
            self._refresh_options(now_s)

    def forget_silence(self) -> None:
        """Query again what had no answer before an outage, and which cluster this is."""
        self._not_before.clear()
        self.options = None

    def _run_second_command(self, snapshot: Snapshot, now_s: int, store: str, missing_since_s: int | None) -> None:
        """Run the second command of this poll, the most urgent one.

        A command without an answer is postponed, and nothing else waits for it: the queue alone is enough to follow
        links. Only the first query of the options identifies the cluster.

        Raises:
            SlurmError: No answer about the options, and none are known.
        """
        for source, refresh in self._wanted(snapshot, now_s, store, missing_since_s):
            if now_s < self._not_before.get(source, now_s):
                continue
            try:
                refresh()
            except SlurmError as error:
                if source == OPTIONS and self.options is None:
                    raise
                self._not_before[source] = now_s + self.settings.sight_s
                log.warning("no answer", extra={"detail": f"{source}: {error}"})
            return

    def _wanted(
        self, snapshot: Snapshot, now_s: int, store: str, missing_since_s: int | None
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        """The queries that are due, the most urgent first.

        The options come first, because they identify the cluster. Then the query that was run the longest time ago: so
        each has its turn, also where polls are as rare as in passes. A missing link takes every other turn from these.
        Accounting is read backwards in growing steps, each with at most twice the jobs of the last one, until policies
        have their maximum of ended jobs, or the longest history.
        """
        if self.options is None or now_s - self._options_s >= self.settings.options_s:
            yield OPTIONS, partial(self._refresh_options, now_s)
        due = self._due(snapshot, now_s, store)
        if missing_since_s is not None and not (due and self._searched_missing):
            yield ACCOUNTING, partial(self._find_missing, snapshot, now_s, store, missing_since_s - OVERLAP_S)
        for _, source, refresh in due:
            yield source, partial(self._take_turn, refresh)

    def _due(self, snapshot: Snapshot, now_s: int, store: str) -> list[tuple[int, str, Callable[[], None]]]:
        """The queries for all chains that are due, the one that was run longest ago first.

        For each: when it was last run, its source, and the query.
        """
        settings, due = self.settings, list[tuple[int, str, Callable[[], None]]]()
        if self.machine is None or now_s - self._machine_s >= settings.sight_s:
            due.append((self._machine_s, MACHINE, partial(self._refresh_machine, snapshot.queue, now_s)))
        if self._accounts_s < 0 or now_s - self._accounts_s >= settings.sight_s:
            since_s = now_s - settings.history_s if self._accounts_s < 0 else self._accounts_s - OVERLAP_S
            due.append((self._accounts_s, ACCOUNTING, partial(self._account, snapshot, now_s, store, since_s)))
        if self._reservations_s < 0 or now_s - self._reservations_s >= settings.sight_s:
            due.append((self._reservations_s, RESERVATIONS, partial(self._refresh_reservations, now_s)))
        if self._needs_earlier_history():
            due.append((self._extended_s, ACCOUNTING, partial(self._extend_history, snapshot, now_s, store)))
        return sorted(due, key=lambda query: query[0])

    def _take_turn(self, refresh: Callable[[], None]) -> None:
        """Run a query that all chains need."""
        self._searched_missing = False
        refresh()

    def _refresh_options(self, now_s: int) -> None:
        self.options, self._options_s, self._identified = self.backend.configuration(), now_s, True

    def _refresh_machine(self, queue: Queue, now_s: int) -> None:
        self.machine, self._machine_s = self.backend.machine(), now_s
        self.unexplained = unexplained_nodes(self.machine, queue, self.backend.user)

    def _refresh_reservations(self, now_s: int) -> None:
        self.reservations, self._reservations_s = self.backend.reservations(), now_s

    def _find_missing(self, snapshot: Snapshot, now_s: int, store: str, since_s: int) -> None:
        self._searched_missing = True
        self._account(snapshot, now_s, store, since_s)

    def _extend_history(self, snapshot: Snapshot, now_s: int, store: str) -> None:
        back_s = min(2 * self._back_s, self.settings.longest_history_s)
        self._account(snapshot, now_s, store, now_s - back_s)
        self._back_s, self._extended_s = back_s, now_s

    def _account(self, snapshot: Snapshot, now_s: int, store: str, since_s: int) -> None:
        found = self.backend.accounting(since_s)
        snapshot.has_accounting = True
        for job in found:
            tag = tag_of(job) if job.user == self.backend.user else None
            if job.user == self.backend.user and (tag is None or tag.store == store):
                snapshot.accounted[job.id] = job
            if tag is not None and tag.store == store and not job.was_refused:
                snapshot.accounted_tags[tag.key, tag.link] = job
            if MISSING not in (job.end_s, job.start_s):
                if self.ended.pop(job.id, None) != job:
                    self.ended_changed = True
                self.ended[job.id] = job
        if self._accounts_s >= 0 or since_s <= now_s - self.settings.history_s:
            self._accounts_s = now_s
        self._drop_oldest()

    def _add_ended(self, queue: Queue) -> None:
        """Add the jobs of the queue that have run and ended, without waiting for accounting.

        Otherwise the use of a link that has just ended would be missing, and its user would seem to come first.
        """
        for job in queue.jobs:
            if job.state in ALIVE or MISSING in (job.start_s, job.end_s) or job.start_s >= job.end_s:
                continue
            if job.id not in self.ended or self.ended[job.id].end_s < job.end_s:
                self.ended[job.id] = AccountedJob(**{name: getattr(job, name) for name in _IN_BOTH})
                self.ended_changed = True
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        too_many = max(len(self.ended) - MOST_ENDED, 0)
        for old in sorted(self.ended, key=lambda job: self.ended[job].end_s)[:too_many]:
            del self.ended[old]

    def memory(self) -> dict[str, Any]:
        """All that is known besides the queue, as JSON: a later process starts with it."""
        machine = self.machine
        return {
            "machine": None if machine is None else [[*map(_row, machine.nodes)], [*map(_row, machine.partitions)]],
            "unexplained": self.unexplained,
            "options": None if self.options is None else dict(self.options),
            "reservations": [*map(_row, self.reservations)],
            "ended": [*map(_row, self.ended.values())],
            "times_s": [
                self._machine_s,
                self._accounts_s,
                self._options_s,
                self._back_s,
                self._reservations_s,
                self._extended_s,
            ],
            "searched_missing": self._searched_missing,
            "not_before": self._not_before,
        }

    def recall(self, memory: Mapping[str, Any]) -> None:
        """Start with the knowledge of an earlier process.

        Raises:
            ValueError, KeyError, TypeError: It is not what ``memory`` returns; nothing has changed.
        """
        machine = None
        if memory["machine"] is not None:
            nodes, partitions = memory["machine"]
            machine = Machine(
                tuple(Node(*map(_hashable, row)) for row in nodes),
                tuple(SlurmPartition(*map(_hashable, row)) for row in partitions),
            )
        ended = {row[0]: AccountedJob(row[0], JobState(row[1]), *row[2:]) for row in memory["ended"]}
        reservations = tuple(SlurmReservation(*map(_hashable, row)) for row in memory["reservations"])
        machine_s, accounts_s, options_s, back_s, reservations_s, extended_s = map(int, memory["times_s"])
        searched_missing, not_before = bool(memory["searched_missing"]), dict(memory["not_before"])
        self.unexplained = str(memory["unexplained"])
        self.machine, self.options, self.ended, self.ended_changed = machine, memory["options"], ended, True
        self._machine_s, self._accounts_s, self._options_s, self._back_s = machine_s, accounts_s, options_s, back_s
        self._searched_missing, self._not_before = searched_missing, not_before
        self.reservations, self._reservations_s, self._extended_s = reservations, reservations_s, extended_s

    @property
    def complete(self) -> bool:
        """Whether policies can be called: machine, options and the latest ended jobs are known.

        Without ended jobs, every job would be expected to run until its limit.
        """
        return self.machine is not None and self.options is not None and self.has_history

    @property
    def has_history(self) -> bool:
        """Whether accounting was read at least once, or gives no answer."""
        return self._accounts_s >= 0 or ACCOUNTING in self._not_before

    @property
    def has_whole_history(self) -> bool:
        """Whether accounting was read as far back as policies use it, or gives no answer."""
        return not self._needs_earlier_history() or ACCOUNTING in self._not_before

    def _needs_earlier_history(self) -> bool:
        """Whether an earlier part of accounting is of use to policies."""
        return self._back_s < self.settings.longest_history_s and len(self.ended) < MOST_ENDED


def _row(record: Node | SlurmPartition | SlurmReservation | AccountedJob) -> list[Any]:
    """The fields of a record; they contain no other record, so nothing is copied."""
    return [getattr(record, name) for name in record.__slots__]


def _hashable(value: Any) -> Any:
    """A value of a row, with a tuple in place of JSON's list."""
    return tuple(value) if isinstance(value, list) else value
