"""The Standard Workload Format 2.2 (Feitelson et al., Parallel Workloads Archive).

Eighteen numbers per line, ``-1`` for unknown values, ``;`` before comments. The simulator calls a pool of processors
nodes, so processors fill both ``cpus`` and ``nodes``: those requested, else those allocated. The remaining columns:
run time -> ``elapsed_s``, requested time -> ``limit_s``, queue -> ``qos``, partition -> ``partition``, group ->
``account``, executable -> ``name``, preceding job -> ``dependency`` (``afterany:N``; the think time has no column).
Status 2, 3 and 4 mark partial executions of a job that has its own line: they are counted as steps.

Users, groups, executables, queues and partitions are labels: numbers of any length, and words. Some simulators (CQSim,
Alea) append further columns: the first eighteen are read, and the report notes it. Alea also begins a file with a line
of column names, and lists several preceding jobs (``4&5&6``).

A file is parsed in pieces, in C; a piece with any irregularity is read again line by line, so that the message names
the line.

A written file has everything that eighteen numbers can express. A processor is a CPU if the CPUs of every job are
known, and a node otherwise; the header records which. Times are relative to ``UnixStartTime``, the first submission.
Users and the like are numbers: a numeric name is used as it is, others are numbered in order of appearance, and the
header lists them. Numbers of 2**40 or more, which readers reject, are left out, and the header records their count.
The format has no field for GPUs, eligibility, priority and unlimited limits.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.duration import UNLIMITED_S
from mirage.errors import LineError, TraceError, first_of, quantity
from mirage.job_state import MISSING, UNFINISHED, JobState
from mirage.slurm_words.states import NEVER_STARTED
from mirage.trace.formats.decompress import most_lines, numbered_lines, pieces
from mirage.trace.formats.plausible_times import without_impossible_times
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.table_pieces import PIECE_BYTES, TablePieces
from mirage.trace.table import JobTable, Labels

FIELDS = 18
MOST_FIELDS = 30
"""A line with more columns is not SWF."""

PARTIAL_STATUS = (2, 3, 4)
CANCELLED_STATUS = 5
LARGEST = 2**40
"""Numbers from here on are mistakes: as seconds they would be 35,000 years. Labels may be larger."""

EXACT_IN_FLOAT = 2**53
"""Integers below this are exact as floating-point numbers."""

NO_START = "UnixStartTime that is not a time in seconds (the times are read as if the trace began in 1970)"
ABSOLUTE = "UnixStartTime added to submissions that seem to count from 1970 already (remove it from the header)"
WIDER = "row with more than eighteen fields (the first eighteen read)"

STATES = {0: JobState.FAILED, 1: JobState.COMPLETED, CANCELLED_STATUS: JobState.CANCELLED}

(
    JOB, SUBMIT, WAIT, RUN, ALLOCATED, _CPU_TIME, _MEMORY, REQUESTED, TIME, _REQUESTED_MEMORY, STATUS, USER,
    GROUP, EXECUTABLE, QUEUE, PARTITION, PRECEDING, _THINK_TIME,
) = range(FIELDS)  # fmt: skip

LABELS = (USER, GROUP, EXECUTABLE, QUEUE, PARTITION)
_NUMBERED = [place for place in range(FIELDS) if place not in (JOB, PRECEDING, *LABELS)]
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_NEGATIVE = re.compile(r"-[\d.]*|", re.ASCII)
_JOBS = re.compile(r"\d+(&\d+)*", re.ASCII)
_FEWEST_NAMES = 5
"""A first line with as many words, none of which is a number, names the columns."""

_COMMENT = re.compile(rb"^[ \t]*;.*$", re.MULTILINE)
_LINE = re.compile(rb"[^\n]+")
_HEADER_FIELD = re.compile(r";\s*([A-Za-z]\w*):\s*(.*)")
_BOM = b"\xef\xbb\xbf"

_INTEGER = re.compile(r"0|[1-9]\d{0,11}", re.ASCII)
_AFTERANY = "afterany:"


def read_swf(data: bytes, tally: ReadTally) -> JobTable:
    """Reads the jobs of a workload file.

    Times are shifted by ``UnixStartTime`` if the header has one above 0.

    Args:
        data: The text.
        tally: Receives the counts, the header and unreadable lines.

    Raises:
        TraceError: Reading is strict and a line is not eighteen numbers; or the file is joined of traces that begin at
            different times.
    """
    data = _without_heading(data.removeprefix(_BOM), tally)
    _read_header(_COMMENT.findall(data) if b";" in data else [], tally)
    begins = {line.split()[0] for line in tally.metadata.get("UnixStartTime", "").splitlines() if line.strip()}
    if len(begins) > 1:
        raise TraceError(
            f"{tally.path}:1: it is joined of traces that begin at different times (UnixStartTime "
            f"{first_of(sorted(begins))}); convert each one (mirage trace convert FILE FILE.csv), and join the results"
        )
    start_s, rows, found = header_start_s(tally.metadata), TablePieces(most_lines(data)), _Reader(tally)
    position = 0
    for piece in pieces(data, PIECE_BYTES):
        read = found.read(piece)
        position += len(piece)
        tally.progress(position, len(data))
        partial = np.isin(read.rows[:, STATUS], PARTIAL_STATUS)
        tally.steps += int(partial.sum())
        cancelled, run_s, processors = (read.rows[:, place] for place in (STATUS, RUN, ALLOCATED))
        never = (cancelled == CANCELLED_STATUS) & (run_s == 0) & (processors <= 0) & (read.rows[:, WAIT] >= 0)
        if never.any():
            tally.notes[NEVER_STARTED] += int(never.sum())
            read.rows[never, WAIT] = MISSING
        rows.append(without_impossible_times(_table(read, start_s)[~partial], read.lines[~partial], tally))
    tally.blank -= tally.header
    if found.wider:
        tally.notes[WIDER] += found.wider
    if not start_s and re.match(r"(?i)(?!(-1|0|unknown)\b)\S", tally.metadata.get("UnixStartTime", "")):
        tally.notes[NO_START] += 1
    table = rows.table()
    if start_s and len(table) and table.submit_s.min() >= 2 * start_s:
        tally.notes[ABSOLUTE] += 1
    return table


def _without_heading(data: bytes, tally: ReadTally) -> bytes:
    """Returns the text with an empty line in place of a first line that names the columns."""
    for found in _LINE.finditer(data):
        line = found[0].decode("utf-8", errors="replace")
        if is_heading(line):
            tally.header += 1
            return data[: found.start()] + data[found.end() :]
        if line.strip() and not line.lstrip().startswith(";"):
            break
    return data


def is_heading(line: str) -> bool:
    """Whether a line names columns: some words, and no number."""
    words = line.split()
    return (
        len(words) >= _FEWEST_NAMES
        and not words[0].startswith(";")
        and not any(_NUMBER.fullmatch(word) for word in words)
    )


def _read_header(comments: list[bytes], tally: ReadTally) -> None:
    """Store the fields of the header; of repeated ones (``Note``, ``Queue``), every line."""
    tally.comment += len(comments)
    for comment in comments:
        if field := _HEADER_FIELD.match(comment.decode("utf-8", errors="replace").strip()):
            before = tally.metadata.get(field[1])
            tally.metadata[field[1]] = f"{before}\n{field[2]}" if before is not None else field[2]


def header_start_s(metadata: Mapping[str, str]) -> int:
    """Returns the seconds since 1970 at which the times of a trace begin; 0 if unknown."""
    words = metadata.get("UnixStartTime", "").split()
    return int(words[0]) if words and re.fullmatch(r"\d{1,12}", words[0], re.ASCII) else 0


class _Found(NamedTuple):
    """Rows of a piece of a file.

    Attributes:
        rows: Shape (n, 18).
        lines: Shape (n,), the line of each row.
        names: Columns of jobs and labels, where they are not the numbers in ``rows``.
    """

    rows: Ints
    lines: Ints
    names: dict[int, list[str]]


class _Reader:
    """Reads a file piece by piece: as a whole, or line by line if it has any irregularity.

    Attributes:
        wider: Number of rows with more columns than eighteen.
    """

    def __init__(self, tally: ReadTally) -> None:
        self._tally, self._width, self._line = tally, 0, 1
        self.wider = 0

    def read(self, piece: bytes) -> _Found:
        """Returns the rows of the next piece."""
        lines = piece.count(b"\n") + (not piece.endswith(b"\n"))
        comments = len(_COMMENT.findall(piece)) if b";" in piece else 0
        found = self._at_once(_COMMENT.sub(b"", piece) if comments else piece)
        if found is None:
            found = self._by_line(piece)
        else:
            self._tally.lines += lines
            self._tally.blank += lines - comments - len(found.rows)
        self._line += lines
        self.wider += len(found.rows) if self._width > FIELDS else 0
        return found

    def _at_once(self, text: bytes) -> _Found | None:
        """Parses all rows at once; ``None`` if field counts vary or a word is not a number."""
        if not text.strip():
            return _Found(np.zeros((0, FIELDS), dtype=np.int64), np.zeros(0, dtype=np.int64), {})
        octets = np.frombuffer(text, dtype=np.uint8)
        inside = octets > ord(" ")
        begins = inside.copy()
        begins[1:] &= ~inside[:-1]
        ends = np.flatnonzero(octets == ord("\n"))
        if octets[-1] != ord("\n"):
            ends = np.append(ends, len(octets) - 1)
        words = np.diff(np.searchsorted(np.flatnonzero(begins), ends, side="right"), prepend=0)
        lines = np.flatnonzero(words)
        width = self._width or int(words[lines[0]])
        if not FIELDS <= width <= MOST_FIELDS or not (words[lines] == width).all():
            return None
        values = _numbers(text, width)
        if values is None or len(values) != len(lines):
            return None
        self._width = width
        return _Found(values, lines + self._line, {})

    def _by_line(self, piece: bytes) -> _Found:
        """Parses rows line by line; unreadable lines are rejected one by one.

        All lines must have as many fields as the first that has eighteen or more.
        """
        rows, lines = [], []
        names: dict[int, list[str]] = {place: [] for place in (JOB, PRECEDING, *LABELS)}
        for number, line in numbered_lines(piece, self._tally, self._line):
            if line.lstrip(" \t").startswith(";"):
                continue  # counted with the header
            words = line.split()
            if not self._width and FIELDS <= len(words) <= MOST_FIELDS:
                self._width = len(words)
            try:
                row, of_row = _row(words, self._width or FIELDS)
            except LineError as bad:
                self._tally.reject(number, bad)
                continue
            rows.append(row)
            lines.append(number)
            for place, name in of_row.items():
                names[place].append(name)
        found = np.array(rows, dtype=np.int64).reshape(-1, FIELDS)
        return _Found(found, np.array(lines, dtype=np.int64), names)


def _numbers(text: bytes, width: int) -> Ints | None:
    """Returns the first eighteen numbers of every line, rounded.

    ``None`` if any word is invalid, or out of range: seconds and counts from ``LARGEST`` on, and jobs and labels that
    the number of the machine does not hold exactly.
    """
    for dtype, exact in ((np.int64, np.iinfo(np.int64).max), (np.float64, EXACT_IN_FLOAT)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                values: NDArray[Any] = np.fromstring(text.decode("ascii"), dtype=dtype, sep=" ")
            except (ValueError, DeprecationWarning):
                continue
        if len(values) % width:
            return None
        rows = values.reshape(-1, width)[:, :FIELDS]
        if not (np.abs(rows) < exact).all() or not (np.abs(rows[:, _NUMBERED]) < LARGEST).all():
            return None
        rounded: Ints = rows if dtype is np.int64 else np.rint(rows).astype(np.int64)
        return rounded
    return None


def _row(words: list[str], width: int) -> tuple[list[int], dict[int, str]]:
    """Returns the numbers of a row, and its job and labels."""
    if len(words) != width:
        expected = "eighteen" if width == FIELDS else "as many"
        like = "" if width == FIELDS else f" instead of {width} as in the first line"
        found = quantity(len(words), "field")
        raise LineError(f"not {expected} fields", f"{found}{like}", "in SWF, -1 stands for what is not known")
    row = [MISSING] * FIELDS
    for place in _NUMBERED:
        row[place] = _integer(words[place], place)
    names = {place: _name(words[place]) for place in LABELS}
    names[JOB] = _name(words[JOB])
    if not names[JOB].lstrip("-").isdecimal():
        raise _no_number(words[JOB], JOB)
    names[PRECEDING] = _preceding(words[PRECEDING])
    return row, names


def _preceding(word: str) -> str:
    """Returns the preceding jobs with colons between them; empty for none.

    Raises:
        LineError: The word is neither a number nor a list of jobs.
    """
    if _JOBS.fullmatch(word):
        jobs = [_name(job) for job in word.split("&")]
        return "" if jobs == ["0"] else ":".join(jobs)
    job = _name(word)
    if not job.lstrip("-").isdecimal():
        raise _no_number(word, PRECEDING)
    return "" if job.startswith("-") or job == "0" else job


def _name(word: str) -> str:
    """Returns a label; a number is written as an integer, so that ``7`` and ``7.0`` are equal."""
    if not _NUMBER.fullmatch(word):
        return word
    digits = word.lstrip("+-")
    if digits.isdecimal():
        digits = digits.lstrip("0") or "0"
        return f"-{digits}" if word.startswith("-") and digits != "0" else digits
    value = float(word)
    return str(round(value)) if abs(value) < EXACT_IN_FLOAT else word


def _integer(word: str, place: int) -> int:
    try:
        if not _NUMBER.fullmatch(word):  # Python also reads 1_000 and nan
            raise ValueError(word)
        value = round(float(word)) if not word.lstrip("+-").isdecimal() else int(word)
    except (ValueError, OverflowError) as error:
        raise _no_number(word, place) from error
    if abs(value) >= LARGEST:
        raise LineError("number out of range", f"field {place + 1} is {word!r}", f"expected less than {LARGEST}")
    return value


def _no_number(word: str, place: int) -> LineError:
    return LineError("not a number", f"field {place + 1} is {word!r}", "in SWF, -1 stands for what is not known")


def _table(found: _Found, unix_start_s: int) -> JobTable:
    rows = found.rows
    submit_s = np.where(rows[:, SUBMIT] >= 0, rows[:, SUBMIT] + unix_start_s, rows[:, SUBMIT])
    wait_s, run_s, limit_s = rows[:, WAIT], rows[:, RUN], rows[:, TIME]
    start_s = np.where((wait_s >= 0) & (submit_s >= 0), submit_s + wait_s, np.minimum(wait_s, MISSING))
    unknown = (rows[:, REQUESTED] == 0) | (rows[:, REQUESTED] == MISSING)
    processors = np.where(unknown, rows[:, ALLOCATED], rows[:, REQUESTED])
    state = np.full(len(rows), JobState.UNKNOWN, dtype=np.int64)
    for status, meaning in STATES.items():
        state[rows[:, STATUS] == status] = meaning
    return JobTable.build(
        found.names.get(JOB, rows[:, JOB]),
        submit_s=submit_s,
        start_s=start_s,
        end_s=np.where((start_s >= 0) & (run_s >= 0), start_s + run_s, MISSING),
        elapsed_s=run_s,
        limit_s=limit_s,
        nodes=processors,
        cpus=processors,
        state=state,
        user=_labels(found, USER),
        account=_labels(found, GROUP),
        partition=_labels(found, PARTITION),
        qos=_labels(found, QUEUE),
        name=_labels(found, EXECUTABLE),
        dependency=_labels(found, PRECEDING),
    )


def _labels(found: _Found, place: int) -> Labels:
    """Returns a column of labels; negative numbers, and a preceding job 0, are missing."""
    prefix = "afterany:" if place == PRECEDING else ""
    if place in found.names:
        return Labels.of("" if _NEGATIVE.fullmatch(name) else f"{prefix}{name}" for name in found.names[place])
    numbers = np.maximum(found.rows[:, place], MISSING)
    if place == PRECEDING:
        numbers = np.where(numbers > 0, numbers, MISSING)
    distinct, first, inverse = np.unique(numbers, return_index=True, return_inverse=True)
    known = distinct >= 0
    by_appearance = np.argsort(first[known], kind="stable")
    code = np.full(len(distinct), MISSING, dtype=np.int64)
    code[np.flatnonzero(known)[by_appearance]] = np.arange(len(by_appearance))
    names = tuple(f"{prefix}{number}" for number in distinct[known][by_appearance].tolist())
    return Labels(code[inverse], names)


def swf_bytes(table: JobTable) -> bytes:
    """Returns the table as a workload file, in its own order."""
    submitted = table.submit_s[table.submit_s >= 0]
    unix_start_s = int(submitted.min()) if len(submitted) else 0
    all_cpus_known = len(table) > 0 and (table.cpus >= 0).all()
    processors, unit = (table.cpus, "CPU") if all_cpus_known else (table.nodes, "node")
    header = [
        "Version: 2.2",
        f"MaxJobs: {len(table)}",
        f"MaxRecords: {len(table)}",
        f"UnixStartTime: {unix_start_s}",
        "TimeZone: 0",
        "TimeZoneString: UTC",
        f"Note: a processor is one {unit}",
    ]
    rows = np.full((len(table), FIELDS), MISSING, dtype=np.int64)
    rows[:, JOB] = _job_numbers(table, header)
    rows[:, SUBMIT] = np.where(table.submit_s >= 0, table.submit_s - unix_start_s, MISSING)
    rows[:, WAIT] = np.maximum(table.wait_s, MISSING)
    rows[:, RUN] = np.maximum(np.where(table.never_started, table.elapsed_s, table.run_s), MISSING)
    rows[:, ALLOCATED] = processors
    rows[:, REQUESTED] = processors
    rows[:, TIME] = np.where(table.limit_s >= UNLIMITED_S, MISSING, table.limit_s)
    rows[:, STATUS] = _status(table.state)
    named = ((USER, "user"), (GROUP, "account"), (EXECUTABLE, "name"))
    for place, column in (*named, (QUEUE, "qos"), (PARTITION, "partition")):
        rows[:, place] = _label_numbers(getattr(table, column), column, header)
    rows[:, PRECEDING] = _preceding_numbers(table.dependency, table.job_id.tolist(), rows[:, JOB].tolist())
    rows = _within_range(rows, header)
    lines = [f"; {line}" for line in header] + [" ".join(map(str, row)) for row in rows.tolist()]
    return ("\n".join(lines) + "\n").encode()


def _within_range(rows: Ints, header: list[str]) -> Ints:
    """Replaces numbers that readers of the format reject by -1."""
    too_large = rows >= LARGEST
    if count := int(too_large.sum()):
        header.append(f"Note: {count} numbers of {LARGEST} or more are written as -1")
    return np.where(too_large, MISSING, rows)


def _status(states: Ints) -> Ints:
    """1 completed, 5 cancelled, 0 failed in any other way, -1 unknown or not ended."""
    unknown = [int(state) for state in UNFINISHED | {JobState.UNKNOWN}]
    status = np.where(np.isin(states, unknown), MISSING, 0)
    status[states == JobState.COMPLETED] = 1
    status[states == JobState.CANCELLED] = CANCELLED_STATUS
    return status


def _job_numbers(table: JobTable, header: list[str]) -> Ints:
    """The identifiers if all are numbers, else 1, 2, 3 …."""
    identifiers = table.job_id.tolist()
    if all(_INTEGER.fullmatch(identifier) for identifier in identifiers):
        return np.array(identifiers, dtype=np.int64)
    header.append("Note: jobs are numbered again, in the order of the source")
    return np.arange(1, len(table) + 1)


def _label_numbers(labels: Labels, column: str, header: list[str]) -> Ints:
    numbers = [int(name) if _INTEGER.fullmatch(name) else None for name in labels.names]
    taken = set(numbers)
    free = (n for n in range(1, 2 * len(numbers) + 2) if n not in taken)
    for code, number in enumerate(numbers):
        if number is None:
            numbers[code] = next(free)
            name = labels.names[code].encode("unicode_escape").decode()
            header.append(f"Note: {column} {numbers[code]} is {name}")
    return np.array([*numbers, MISSING], dtype=np.int64)[labels.codes]


def _preceding_numbers(dependencies: Labels, job_ids: list[str], job_numbers: list[int]) -> Ints:
    """Number of the job that must end first, if the dependency is ``afterany`` on one job."""
    number_of = dict(zip(job_ids, job_numbers))
    ids_are_numbers = all(job_id == str(number) for job_id, number in number_of.items())
    preceding = []
    for name in dependencies.names:
        job_id = name.removeprefix(_AFTERANY) if name.startswith(_AFTERANY) else ""
        absent = int(job_id) if ids_are_numbers and _INTEGER.fullmatch(job_id) else MISSING
        preceding.append(number_of.get(job_id, absent))
    return np.array([*preceding, MISSING], dtype=np.int64)[dependencies.codes]
