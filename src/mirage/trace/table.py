"""The job table: one row per attempt to run, as a struct of arrays.

Every reader fills it and all other packages use it. Units are in the names; a missing integer is
``MISSING``, a missing label has code ``MISSING``; an unlimited limit is ``UNLIMITED_S``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.errors import ConfigurationError, shown
from mirage.job_state import MISSING, UNFINISHED, JobState


@dataclass(frozen=True, slots=True)
class Labels:
    """A column of names: one small integer per row, and the names they represent.

    Attributes:
        codes: Shape (n,), index into ``names``, ``MISSING`` if the trace has none.
        names: The distinct names, in order of first appearance.
    """

    codes: Ints
    names: tuple[str, ...]

    @classmethod
    def of(cls, values: Iterable[str | None]) -> Self:
        """Encode names; ``None``, NaN and the empty string are missing.

        Raises:
            TypeError: The values are one text, or one is no text.
        """
        if isinstance(values, str):
            raise TypeError(f"a column of names needs one name for each row, got {shown(values)}")
        index: dict[str, int] = {}
        codes = [index.setdefault(v, len(index)) if v == v and v else MISSING for v in values]  # NaN != NaN
        if strange := [name for name in index if not isinstance(name, str)]:
            raise TypeError(f"a name must be a text, got {shown(strange[0])}")
        return cls(np.array(codes, dtype=np.int64), tuple(index))

    @classmethod
    def missing(cls, n: int) -> Self:
        """Returns a column of n missing names."""
        return cls(np.full(n, MISSING, dtype=np.int64), ())

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Labels:
        return Labels(self.codes[rows], self.names)

    def values(self) -> list[str]:
        """Returns the names row by row; the empty string if missing."""
        return [self.names[c] if c >= 0 else "" for c in self.codes]


@dataclass(frozen=True, slots=True)
class JobTable:
    """Jobs of one cluster, one row per attempt to run, in the order of the source.

    All arrays have the same length n. Times are whole seconds since 1970-01-01 UTC (SWF: since the
    log's ``UnixStartTime``), before 2100 if a reader made the table. ``gpus``, ``cpus`` and ``memory_mib``
    are totals over all nodes of the job; a memory of 0 means all that its nodes have. ``elapsed_s`` is the run time
    as the source recorded it, which may be the only time: a workload without waits has run times but no starts.
    """

    job_id: NDArray[np.str_]
    submit_s: Ints
    eligible_s: Ints
    start_s: Ints
    end_s: Ints
    elapsed_s: Ints
    limit_s: Ints
    nodes: Ints
    gpus: Ints
    cpus: Ints
    memory_mib: Ints
    priority: Ints
    state: Ints
    user: Labels
    account: Labels
    partition: Labels
    qos: Labels
    name: Labels
    dependency: Labels

    def __post_init__(self) -> None:
        lengths = {f.name: len(getattr(self, f.name)) for f in fields(self)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns of different length: {lengths}")

    @classmethod
    def build(cls, job_id: Sequence[str] | Sequence[int] | NDArray[Any], **columns: Any) -> Self:
        """Creates a table from the given columns; all others are missing.

        Integer columns take any sequence of ints, or dates or durations of NumPy, which become seconds; label columns a
        ``Labels`` or an iterable of names. All columns that are missing are one array, which takes its memory once.

        Raises:
            TypeError: There is no such column, or one holds values of another type.
            ValueError: The columns differ in length.
        """
        filled: dict[str, Any] = {"job_id": _column("job_id", job_id)}
        missing = np.full(len(filled["job_id"]), MISSING, dtype=np.int64)
        for name in INT_COLUMNS:
            filled[name] = _column(name, columns.pop(name, missing))
        for name in LABEL_COLUMNS:
            value = columns.pop(name, None)
            filled[name] = Labels(missing, ()) if value is None else _column(name, value)
        if columns:
            raise TypeError(f"no such columns: {sorted(columns)}")
        return cls(**filled)

    def __len__(self) -> int:
        return len(self.job_id)

    def __getitem__(self, rows: Any) -> JobTable:
        """Returns the rows given by a slice, a mask or an index array.

        Columns that are one array remain one.

        Raises:
            TypeError: It is one row only, and would be no table.
        """
        if not isinstance(rows, slice) and np.ndim(rows) != 1:
            raise TypeError(f"rows are chosen by a slice, a mask or a list, such as table[:1]; got {shown(rows)}")
        chosen: dict[int, Any] = {}

        def of(column: Any) -> Any:
            if id(column) not in chosen:
                chosen[id(column)] = column[rows]
            return chosen[id(column)]

        columns: dict[str, Any] = {name: of(getattr(self, name)) for name in ("job_id", *INT_COLUMNS)}
        for name in LABEL_COLUMNS:
            labels = getattr(self, name)
            columns[name] = Labels(of(labels.codes), labels.names)
        return JobTable(**columns)

    def followed_by(self, other: JobTable) -> JobTable:
        """Returns the rows of both, those of the other after its own."""
        both: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("job_id", *INT_COLUMNS)
        }
        for name in LABEL_COLUMNS:
            both[name] = Labels.of([*getattr(self, name).values(), *getattr(other, name).values()])
        return JobTable(**both)

    def with_columns(self, **columns: Any) -> JobTable:
        """Returns a copy with some columns replaced, which are given as to ``build``."""
        if unknown := columns.keys() - {"job_id", *INT_COLUMNS, *LABEL_COLUMNS}:
            raise TypeError(f"no such columns: {sorted(unknown)}")
        return replace(self, **{name: _column(name, values) for name, values in columns.items()})

    @property
    def unfinished(self) -> NDArray[np.bool_]:
        """Jobs that had not ended when the trace was recorded, shape (n,)."""
        return np.isin(self.state, _UNFINISHED)

    @property
    def never_started(self) -> NDArray[np.bool_]:
        """Jobs that left the queue without a start: ended or cancelled, no run time; shape (n,)."""
        left = (self.end_s >= 0) | (self.state == int(JobState.CANCELLED))
        return np.asarray(left & (self.start_s < 0) & (self.elapsed_s <= 0) & ~self.unfinished)

    @property
    def run_s(self) -> Ints:
        """Seconds run, shape (n,): end minus start, else ``elapsed_s``, else ``MISSING``.

        A job that has not ended has no run time yet, and one that never started has none. If the end is before the
        start, ``elapsed_s`` counts, unless it is 0, as Slurm prints it then.
        """
        known = (self.start_s >= 0) & (self.end_s >= self.start_s)
        run_s = np.where(known, self.end_s - self.start_s, self.elapsed_s)
        none = (self.end_s >= 0) & (self.end_s < self.start_s) & (self.elapsed_s == 0)
        return np.where(self.unfinished | self.never_started | none, MISSING, run_s)

    @property
    def wait_s(self) -> Ints:
        """Seconds from submission to start, shape (n,); ``MISSING`` if unknown.

        A start before the submission gives no wait.
        """
        known = (self.submit_s >= 0) & (self.start_s >= self.submit_s)
        return np.where(known, self.start_s - self.submit_s, MISSING)

    def sorted_by_submit(self) -> JobTable:
        """Returns the jobs in order of submission; equal times stay in the order of the source.

        A table that is in order is returned itself.
        """
        if (np.diff(self.submit_s) >= 0).all():
            return self
        return self[np.argsort(self.submit_s, kind="stable")]


def check_table(table: object) -> None:
    """Refuses jobs that are no table.

    Raises:
        ConfigurationError: They are something else, such as the ``Trace`` that has the table.
    """
    if not isinstance(table, JobTable):
        raise ConfigurationError(f"jobs must be a JobTable, such as read_trace(file).table, got {type(table).__name__}")


def _integers(values: Any) -> Ints:
    """Returns a column as integers: dates and durations in seconds, NaN as ``MISSING``."""
    found = _one_a_row(values)
    if found.dtype.kind == "f":
        found = np.where(np.isnan(found), MISSING, found)
    if found.dtype.kind in "mM":
        unknown = np.isnat(found)
        found = found.astype(f"{found.dtype.kind}8[s]").astype(np.int64)
        found[unknown] = MISSING
    with np.errstate(invalid="ignore"):
        whole = found.astype(np.int64, copy=False)
    if found.dtype.kind in "fuO" and (changed := whole != found).any():
        raise TypeError(f"{found[changed][0]} is no whole number of 64 bits")
    return whole


def _column(name: str, values: Any) -> Any:
    try:
        if name == "job_id":
            return _texts(values)
        if name in INT_COLUMNS:
            return _integers(values)
        return values if isinstance(values, Labels) else Labels.of(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"column {name}: {error}; give {_needed(name)}") from error


def _needed(name: str) -> str:
    if name in INT_COLUMNS:
        return f"whole numbers, {MISSING} where one is missing, or datetime64 and timedelta64"
    return "whole numbers or texts" if name == "job_id" else "texts, None where one is missing"


def _one_a_row(values: Any) -> NDArray[Any]:
    found = np.asarray(values)
    if found.ndim != 1:
        raise TypeError(f"it needs one value for each row, got {shown(values)}")
    return found


def _texts(values: Sequence[str] | Sequence[int] | NDArray[Any]) -> NDArray[np.str_]:
    """Returns numbers or texts as texts, in an array no wider than the longest."""
    found = _one_a_row(values)
    if found.dtype.kind in "fO" and (strange := [one for one in found if not isinstance(one, str | int | np.integer)]):
        raise TypeError(f"{strange[0]} is no number of a job")
    if not len(found) or not np.issubdtype(found.dtype, np.integer):
        return found.astype(np.str_, copy=False)
    return found.astype(f"<U{max(len(str(found.min())), len(str(found.max())))}")


_UNFINISHED = [int(state) for state in UNFINISHED]

LABEL_COLUMNS = ("user", "account", "partition", "qos", "name", "dependency")
INT_COLUMNS = tuple(f.name for f in fields(JobTable) if f.name != "job_id" and f.name not in LABEL_COLUMNS)
