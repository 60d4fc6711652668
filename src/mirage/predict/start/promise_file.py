"""Promises: every reported prediction, stored in a file with its outcome."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mirage.errors import StoreError
from mirage.job_state import MISSING
from mirage.predict.start.blended_ranges import QuantileBlend
from mirage.predict.start.promise import OPEN, SETTLED, ObservedJob, Promise, outcome
from mirage.predict.start.quantile_levels import HORIZON_S, LEVELS
from mirage.predict.start.widened_ranges import StartCorrection
from mirage.slurm_words.unicode import valid_unicode

_SCHEMA = """
create table if not exists promise (
    id integer primary key, cluster text not null, made_s integer not null, job integer not null,
    submit_s integer not null, user text not null, name text not null, partition text not null,
    nodes integer not null, limit_s integer not null, raw text not null, told text not null, slurm_s real,
    state text not null, wait_s real, parts text not null default '[]'
);
create index if not exists promise_by_state on promise (cluster, state);
"""
_COLUMNS = (
    "cluster", "made_s", "job", "submit_s", "user", "name", "partition", "nodes", "limit_s", "raw", "told", "slurm_s",
    "state", "wait_s", "parts",
)  # fmt: skip
PATIENCE_S = 10.0


class Promises:
    """The file of promises, readable by its owner alone.

    It uses SQLite's rollback journal: home directories of clusters are usually network file systems, where a
    write-ahead log cannot be shared (https://sqlite.org/wal.html), and a promise is one small change.

    Args:
        path: Created if it does not exist.
        patience_s: How long to wait for another writer.
    """

    def __init__(self, path: Path, patience_s: float = PATIENCE_S) -> None:
        self.path, self.patience_s = path, patience_s

    def add(self, promise: Promise) -> None:
        """Store a promise, unless the same job has an open one: the first prediction counts.

        If a script is predicted again before it is submitted, the last prediction counts.

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
                opened.execute(f"delete from promise where {same} and {alike}", [*key, *map(_stored, form)])
            values = [_stored(getattr(promise, _ATTRIBUTE.get(name, name))) for name in _COLUMNS]
            marks = ", ".join("?" * len(_COLUMNS))
            opened.execute(f"insert into promise ({', '.join(_COLUMNS)}) values ({marks})", values)

    def of(self, cluster: str, state: str) -> list[tuple[int, Promise]]:
        """Promises on a cluster in a given state, with their numbers, in order of creation.

        Raises:
            StoreError: The file cannot be read.
        """
        with self._opened() as opened:
            columns = ", ".join(("id", *_COLUMNS))
            rows = opened.execute(
                f"select {columns} from promise where cluster = ? and state = ? order by made_s, id", [cluster, state]
            ).fetchall()
        return [(number, _promise(values)) for number, *values in rows]

    def clusters(self) -> list[str]:
        """Names of the clusters with promises, sorted.

        Raises:
            StoreError: The file cannot be read.
        """
        with self._opened() as opened:
            return [name for (name,) in opened.execute("select distinct cluster from promise order by cluster")]

    def settled(self, cluster: str) -> list[Promise]:
        """Promises on a cluster that have an outcome, in order of creation.

        Raises:
            StoreError: The file cannot be read.
        """
        return [promise for _, promise in self.of(cluster, SETTLED)]

    def correction(self, cluster: str) -> StartCorrection:
        """Returns the correction learnt from the promises on a cluster.

        It uses known outcomes and jobs that still wait. A script that is not submitted yet contributes nothing.

        Raises:
            StoreError: The file cannot be read.
        """
        waiting = [(number, one) for number, one in self.of(cluster, OPEN) if one.job != MISSING]
        made = StartCorrection()
        for number, one in sorted([*self.of(cluster, SETTLED), *waiting], key=lambda each: (each[1].made_s, each[0])):
            made.promise(str(number), one.forecast(), one.kind)
            if one.wait_s is not None:
                made.learn(str(number), round(one.made_s + one.wait_s))
        return made

    def blend(self, cluster: str) -> QuantileBlend:
        """Returns the blend of queue and accounting by the known outcomes on a cluster.

        Raises:
            StoreError: The file cannot be read.
        """
        made = QuantileBlend(LEVELS, 2)
        for one in self.settled(cluster):
            if one.parts_s and one.wait_s is not None:
                made.learn(np.array(one.parts_s), min(one.wait_s, HORIZON_S), round(one.made_s + one.wait_s))
        return made

    def fill_in(self, cluster: str, jobs: Sequence[ObservedJob], now_s: int) -> int:
        """Record the outcomes of open promises; returns the number of new outcomes.

        Args:
            jobs: Rows of the queue and accounting; of two rows of one job, the one with more information counts.
            now_s: The cluster's clock.

        Raises:
            StoreError: The file cannot be written.
        """
        outcomes = []
        taken: set[int] = set()
        waiting = self.of(cluster, OPEN)
        users, ids = {one.user for _, one in waiting}, {one.job for _, one in waiting}
        jobs = [job for job in jobs if job.user in users or job.id in ids]
        for number, promise in reversed(waiting):  # the last prediction of a script belongs to its job
            found = outcome(promise, [job for job in jobs if promise.job != MISSING or job.id not in taken], now_s)
            if found is not None:
                state, wait_s, job = found
                outcomes.append((state, wait_s, number))
                taken |= {job} if promise.job == MISSING else set()
        if outcomes:
            with self._opened() as opened:
                opened.executemany("update promise set state = ?, wait_s = ? where id = ? and state = 'open'", outcomes)
        return sum(state == SETTLED for state, _, _ in outcomes)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Opens the file for one change, which is applied completely or not at all."""
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            with contextlib.closing(sqlite3.connect(self.path, timeout=self.patience_s)) as opened, opened:
                opened.executescript(_SCHEMA)
                _add_parts(opened)
                yield opened
        except (OSError, sqlite3.Error) as error:
            cause = error.strerror if isinstance(error, OSError) else error
            damaged = type(error) is sqlite3.DatabaseError  # its subclasses are about other things, such as locks
            remedy = "move the file away, and another is made" if damaged else "name another MIRAGE_HOME"
            raise StoreError(f"cannot use the promises in {self.path}: {cause}; {remedy}") from error


_ATTRIBUTE = {"raw": "waits_s", "told": "reported_s", "parts": "parts_s"}


def _add_parts(opened: sqlite3.Connection) -> None:
    """Add the column of parts to a file of an earlier version."""
    if "parts" in _columns_of(opened):
        return
    opened.execute("begin immediate")
    if "parts" not in _columns_of(opened):  # no other process has added it meanwhile
        opened.execute("alter table promise add column parts text not null default '[]'")
    opened.commit()


def _columns_of(opened: sqlite3.Connection) -> set[str]:
    return {name for _, name, *_ in opened.execute("pragma table_info(promise)")}


def _stored(value: object) -> object:
    """A value as SQLite takes it, without the lone surrogates of names that are not UTF-8."""
    if isinstance(value, str):
        return valid_unicode(value)
    return json.dumps(value) if isinstance(value, tuple) else value


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _promise(values: Sequence[object]) -> Promise:
    row = dict(zip(_COLUMNS, values))
    read = {
        _ATTRIBUTE.get(name, name): _tuples(json.loads(str(value))) if name in _ATTRIBUTE else value
        for name, value in row.items()
    }
    return Promise(**read)  # type: ignore[arg-type]
