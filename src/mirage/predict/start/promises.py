"""Promises: every prediction that was told, kept in a file with what became of it."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mirage.duration import DAY_S, MINUTE_S
from mirage.errors import StoreError
from mirage.job_state import MISSING, JobState
from mirage.predict.start.ranges import Kept, size_class
from mirage.slurm_words.states import ALIVE, cancelled_while_pending

SUBMITTED_WITHIN_S = 15 * MINUTE_S
"""A script that was asked about becomes the job of its name and size that is submitted within so long."""

FORGOTTEN_S = 35 * DAY_S
"""A promise without an outcome for so long never gets one: nobody remembers the job."""

OPEN, KEPT, VOID = "open", "kept", "void"
"""Waits for its outcome; has one; will have none: cancelled before its start, or never submitted."""

_SCHEMA = """
create table if not exists promise (
    id integer primary key, cluster text not null, made_s integer not null, job integer not null,
    submit_s integer not null, user text not null, name text not null, partition text not null,
    nodes integer not null, limit_s integer not null, raw text not null, told text not null, slurm_s real,
    state text not null, wait_s real
);
create index if not exists promise_by_state on promise (cluster, state);
"""
_COLUMNS = (
    "cluster", "made_s", "job", "submit_s", "user", "name", "partition", "nodes", "limit_s", "raw", "told", "slurm_s",
    "state", "wait_s",
)  # fmt: skip
_PATIENCE_S = 10


class SeenJob(Protocol):
    """A job as the queue or accounting shows it."""

    @property
    def id(self) -> int:
        """Its number."""

    @property
    def state(self) -> JobState:
        """How it stands."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def user(self) -> str:
        """Its user's name."""

    @property
    def partition(self) -> str:
        """Its partition, or several with commas between them."""

    @property
    def nodes(self) -> int:
        """Nodes asked for or held."""

    @property
    def limit_s(self) -> int:
        """Its time limit."""

    @property
    def submit_s(self) -> int:
        """When it was submitted."""

    @property
    def start_s(self) -> int:
        """When it started; of a pending job what Slurm expects."""

    @property
    def end_s(self) -> int:
        """When it ended, or will at the latest."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A prediction as it was told.

    Attributes:
        cluster: Which cluster, as ``mirage.slurm.backend.cluster_of`` names it.
        job: Number of the job; ``MISSING`` for a script yet to be submitted.
        submit_s: When the job was submitted; ``MISSING`` for a script.
        raw_s: Shape (levels,), quantiles of the wait from ``made_s`` as forecast.
        told_s: The same as told.
        slurm_s: The wait that Slurm expected; None where it said nothing.
        state: ``open``, ``kept`` or ``void``.
        wait_s: What became of it; None while that is not known.
    """

    cluster: str
    made_s: int
    job: int
    submit_s: int
    user: str
    name: str
    partition: str
    nodes: int
    limit_s: int
    raw_s: tuple[float, ...]
    told_s: tuple[float, ...]
    slurm_s: float | None = None
    state: str = OPEN
    wait_s: float | None = None

    def is_job(self, job: SeenJob) -> bool:
        """Whether a job is the one that was meant."""
        if self.job != MISSING:
            return job.id == self.job and job.submit_s == self.submit_s
        return (
            (job.user, job.name, job.nodes, job.limit_s) == (self.user, self.name, self.nodes, self.limit_s)
            and bool(set(job.partition.split(",")) & set(self.partition.split(",")))
            and self.made_s <= job.submit_s <= self.made_s + SUBMITTED_WITHIN_S
        )


class Promises:
    """The file of promises, readable by its owner alone.

    It keeps SQLite's rollback journal: homes of clusters are network file systems as a rule, where a write-ahead log
    cannot be shared (https://sqlite.org/wal.html), and a promise is one small change.

    Args:
        path: Made where there is none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, promise: Promise) -> None:
        """Keep a promise, unless the same job has an open one: the first word about a job counts.

        Of a script that is asked about again before it is submitted, the last word counts.

        Raises:
            StoreError: The file cannot be written.
        """
        with self._opened() as opened:
            same = "cluster = ? and state = 'open' and job = ? and submit_s = ?"
            key = [promise.cluster, promise.job, promise.submit_s]
            if promise.job != MISSING:
                if opened.execute(f"select 1 from promise where {same}", key).fetchone():
                    return
            else:
                form = [promise.user, promise.name, promise.partition, promise.nodes, promise.limit_s]
                alike = "user = ? and name = ? and partition = ? and nodes = ? and limit_s = ?"
                opened.execute(f"delete from promise where {same} and {alike}", [*key, *form])
            values = [_stored(getattr(promise, _ATTRIBUTE.get(name, name))) for name in _COLUMNS]
            marks = ", ".join("?" * len(_COLUMNS))
            opened.execute(f"insert into promise ({', '.join(_COLUMNS)}) values ({marks})", values)

    def of(self, cluster: str, state: str) -> list[tuple[int, Promise]]:
        """Promises made on a cluster that are in a state, with their numbers, in order of their making.

        Raises:
            StoreError: The file cannot be read.
        """
        with self._opened() as opened:
            columns = ", ".join(("id", *_COLUMNS))
            rows = opened.execute(
                f"select {columns} from promise where cluster = ? and state = ? order by made_s, id", [cluster, state]
            ).fetchall()
        return [(number, _promise(values)) for number, *values in rows]

    def kept(self, cluster: str) -> list[Kept]:
        """Promises on a cluster that have an outcome, in order of their making.

        Raises:
            StoreError: The file cannot be read.
        """
        return [
            Kept(one.partition, size_class(one.nodes), one.raw_s, one.told_s, one.wait_s or 0.0, one.slurm_s)
            for _, one in self.of(cluster, KEPT)
        ]

    def fill_in(self, cluster: str, jobs: Sequence[SeenJob], now_s: int) -> int:
        """Write down what became of open promises; how many have their outcome now.

        Args:
            jobs: What the queue and accounting show; of two rows of one job the one that tells more counts.
            now_s: The cluster's clock.

        Raises:
            StoreError: The file cannot be written.
        """
        settled = []
        taken: set[int] = set()
        for number, promise in reversed(self.of(cluster, OPEN)):  # the last word about a script is its job's
            found = outcome(promise, [job for job in jobs if promise.job != MISSING or job.id not in taken], now_s)
            if found is not None:
                state, wait_s, job = found
                settled.append((state, wait_s, number))
                taken |= {job} if promise.job == MISSING else set()
        if settled:
            with self._opened() as opened:
                opened.executemany("update promise set state = ?, wait_s = ? where id = ? and state = 'open'", settled)
        return sum(state == KEPT for state, _, _ in settled)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The file, opened for one change, which takes place whole or not at all."""
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            with contextlib.closing(sqlite3.connect(self.path, timeout=_PATIENCE_S)) as opened, opened:
                opened.executescript(_SCHEMA)
                yield opened
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot use the promises in {self.path}: {error}; name another MIRAGE_HOME") from error


def outcome(promise: Promise, jobs: Iterable[SeenJob], now_s: int) -> tuple[str, float | None, int] | None:
    """What became of a promise: its new state, the wait, and the job; None while it is not known."""
    seen = [job for job in jobs if promise.is_job(job)]
    if promise.job == MISSING and seen:
        first = min(seen, key=lambda job: (job.submit_s, job.id)).id
        seen = [job for job in seen if job.id == first]
    for job in seen:
        if job.state is JobState.PENDING or job.start_s == MISSING:
            continue
        if cancelled_while_pending(job.state, job.start_s, job.end_s):
            return VOID, None, job.id
        since_s = promise.made_s if promise.job != MISSING else job.submit_s
        return KEPT, float(max(job.start_s - since_s, 0)), job.id
    if any(job.state not in ALIVE for job in seen):
        return VOID, None, seen[0].id
    never_submitted = promise.job == MISSING and not seen and now_s > promise.made_s + 2 * SUBMITTED_WITHIN_S
    if never_submitted or now_s > promise.made_s + FORGOTTEN_S:
        return VOID, None, promise.job
    return None


_ATTRIBUTE = {"raw": "raw_s", "told": "told_s"}


def _stored(value: object) -> object:
    return json.dumps(value) if isinstance(value, tuple) else value


def _promise(values: Sequence[object]) -> Promise:
    row = dict(zip(_COLUMNS, values))
    read = {
        _ATTRIBUTE.get(name, name): tuple(json.loads(str(value))) if name in _ATTRIBUTE else value
        for name, value in row.items()
    }
    return Promise(**read)  # type: ignore[arg-type]
