"""Rows of one job, merged: dumps that overlap contain the same job twice.

Two monthly dumps that overlap by a day contain the jobs of this day twice, equal in every field, or with another end
and state where the job ran on. Both are one job. Rows with different starts are attempts of a requeued job, and remain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.job_state import MISSING, JobState
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.table import INT_COLUMNS, LABEL_COLUMNS, JobTable

EQUAL = "row equal to another one in every field (read once)"
EARLIER = "earlier row of a job that is also in the trace with another end or state (the later row read)"
ATTEMPT = "row that repeats a job id (a further attempt of the same job)"
ITS_OWN_WAIT = "further attempt with the submission of the first (it waits from its Eligible, or the end before it)"
RESIZED = "further row of a resized job (read with the submission and the size of the first)"

_UNKNOWN_IDS = ("", str(MISSING))
_MAY_BE_REQUEUED = (JobState.UNKNOWN, JobState.NODE_FAIL, JobState.PREEMPTED, JobState.BOOT_FAIL, JobState.REQUEUED)
_OF_FIRST = ("submit_s", "eligible_s", "nodes", "gpus", "cpus", "memory_mib")
_COLUMNS = (*INT_COLUMNS, *LABEL_COLUMNS)


def with_first_sizes(table: JobTable, tally: ReadTally) -> JobTable:
    """Returns the table with equal submissions and sizes in all rows of a resized job.

    They are those of its first row. When a running job gets another size, Slurm begins a new row with the same start,
    and with the time of the change as its submission.

    Args:
        table: The rows that were read.
        tally: Receives the number of other rows.
    """
    late = (table.start_s >= 0) & (table.submit_s > table.start_s)
    if not late.any():
        return table
    alike = np.flatnonzero(np.isin(table.start_s, table.start_s[late])).tolist()
    key = {row: (str(table.job_id[row]), int(table.start_s[row])) for row in alike}
    first = {key[row]: row for row in reversed(alike) if not late[row] and key[row][0] not in _UNKNOWN_IDS}
    other = [row for row in alike if late[row] and key[row] in first]
    tally.notes.update([RESIZED] * len(other))
    columns = {name: getattr(table, name).copy() for name in _OF_FIRST}
    for column in columns.values():
        column[other] = column[[first[key[row]] for row in other]]
    return table.with_columns(**columns)


def without_repeats(table: JobTable, tally: ReadTally) -> JobTable:
    """Returns the table with one row for every attempt of a job, in the order of the source.

    Rows with the same id, submission and start are one attempt: the last one is read, but an unfinished one never
    replaces one that has ended. A row without a start is an earlier state of the job if a later row has its id and
    submission, or if any row with them started and was not requeued. Rows without a submission are merged only if they
    are equal in every field. An attempt with the submission of an earlier one is submitted when it became eligible, or
    when that attempt ended, if that is later.

    Args:
        table: The rows that were read.
        tally: Receives the number of merged rows and of further attempts.
    """
    rows = _of_repeated_ids(table.job_id)
    if not len(rows):
        return table
    repeated = table[rows]
    attempts = _attempts(repeated)
    last = attempts.last_row
    equal = np.ones(len(rows), dtype=np.bool_)
    for name in _COLUMNS:
        values = _values(repeated, name)
        equal &= values == values[last]
    merged = np.arange(len(rows)) != last
    superseded = ~merged & attempts.superseded
    tally.merged += int((merged | superseded).sum())
    _note(tally, EQUAL, merged & equal)
    _note(tally, EARLIER, (merged & ~equal) | superseded)
    remaining = ~(merged | superseded)
    stay = np.ones(len(table), dtype=np.bool_)
    stay[rows[~remaining]] = False
    _note(tally, ATTEMPT, remaining, less=len(np.unique(attempts.job[remaining])))
    submit_s = table.submit_s.copy()
    submit_s[rows[remaining]] = _own_submissions(repeated[remaining], attempts.job[remaining], tally)
    table = table.with_columns(submit_s=submit_s)
    return table if stay.all() else table[stay]


def _note(tally: ReadTally, what: str, rows: NDArray[np.bool_], less: int = 0) -> None:
    if count := int(rows.sum()) - less:
        tally.notes[what] += count


def _values(table: JobTable, name: str) -> Ints:
    values: Ints = getattr(table, name).codes if name in LABEL_COLUMNS else getattr(table, name)
    return values


def _of_repeated_ids(job_id: NDArray[np.str_]) -> Ints:
    """Returns the rows with an id that occurs more than once.

    Ids are compared by a hash first: most traces have no such rows, and texts are slow to sort.
    """
    if len(job_id) < 2:
        return np.zeros(0, dtype=np.int64)
    width = job_id.dtype.itemsize // 4
    words = np.ascontiguousarray(job_id).view(np.uint32).reshape(len(job_id), width)
    hashes = _hashed(words.T, len(job_id))
    rows = _repeated(hashes)
    names, code = np.unique(job_id[rows], return_inverse=True)
    found: Ints = rows[(np.bincount(code, minlength=1) > 1)[code] & ~np.isin(names, _UNKNOWN_IDS)[code]]
    return found


def _repeated(keys: NDArray[np.uint64]) -> Ints:
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    found: Ints = np.sort(order[np.append(same, False) | np.insert(same, 0, False)])
    return found


def _hashed(columns: Iterable[NDArray[Any]], n: int) -> NDArray[np.uint64]:
    """Returns a hash of every row of some columns (FNV-1a, over words), shape (n,)."""
    hashes = np.full(n, 0xCBF29CE484222325, dtype=np.uint64)
    for column in columns:
        hashes = (hashes ^ column.astype(np.uint64)) * np.uint64(0x100000001B3)
        hashes ^= hashes >> np.uint64(29)
    return hashes


class _Attempts(NamedTuple):
    """Attempts of jobs, among rows with repeated ids.

    Attributes:
        job: Shape (n,), number of the job: rows of one id.
        last_row: Shape (n,), the row that is read of the row's attempt.
        superseded: Shape (n,), whether the row has no start, and another row of its id and submission replaces it.
    """

    job: Ints
    last_row: Ints
    superseded: NDArray[np.bool_]


def _attempts(table: JobTable) -> _Attempts:
    n = len(table)
    place = np.arange(n)
    job = np.unique(table.job_id, return_inverse=True)[1].reshape(-1)
    known = table.submit_s >= 0
    alone = _hashed([_values(table, name) for name in _COLUMNS], n)
    alone[known] = 0
    order = np.lexsort((place, ~table.unfinished, alone, table.start_s, table.submit_s, job))
    changes = np.zeros(n, dtype=np.bool_)
    changes[:1] = True
    for key in (job, table.submit_s, table.start_s, alone):
        changes[1:] |= key[order][1:] != key[order][:-1]
    last_of_attempt = order[np.append(np.flatnonzero(changes)[1:] - 1, n - 1)]
    last_row = np.empty(n, dtype=np.int64)
    last_row[order] = last_of_attempt[np.cumsum(changes) - 1]
    ends = _last_place(job, table.submit_s)
    settled = np.zeros(n, dtype=np.bool_)
    settled[ends[(table.start_s >= 0) & ~np.isin(table.state, _MAY_BE_REQUEUED)]] = True
    return _Attempts(job, last_row, known & (table.start_s < 0) & ((place < ends) | settled[ends]))


def _last_place(job: Ints, submit_s: Ints) -> Ints:
    """Returns the last row of each row's id and submission, shape (n,)."""
    n = len(job)
    order = np.lexsort((np.arange(n), submit_s, job))
    changes = np.append((job[order][1:] != job[order][:-1]) | (submit_s[order][1:] != submit_s[order][:-1]), True)
    ends = np.flatnonzero(changes)
    last = np.empty(n, dtype=np.int64)
    last[order] = order[ends[np.searchsorted(ends, np.arange(n))]]
    return last


def _own_submissions(attempts: JobTable, job: Ints, tally: ReadTally) -> Ints:
    """Returns the submissions of the attempts, each its own, shape (n,)."""
    start_s = np.where(attempts.start_s >= 0, attempts.start_s, np.iinfo(np.int64).max)
    order = np.lexsort((start_s, attempts.submit_s, job))
    submit_s, eligible_s, end_s = (column[order] for column in (attempts.submit_s, attempts.eligible_s, attempts.end_s))
    follows = np.zeros(len(order), dtype=np.bool_)
    follows[1:] = (job[order][1:] == job[order][:-1]) & (submit_s[1:] == submit_s[:-1]) & (submit_s[1:] >= 0)
    again_s = np.minimum(np.maximum(eligible_s, np.append(MISSING, end_s[:-1])), start_s[order])
    follows &= again_s > submit_s
    _note(tally, ITS_OWN_WAIT, follows)
    found: Ints = attempts.submit_s.copy()
    found[order] = np.where(follows, again_s, submit_s)
    return found
