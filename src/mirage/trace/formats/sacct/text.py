"""Text of ``sacct -P``, with any field list, with a header line or without.

Every row that is a job becomes a row of the table, also when its identifier occurred before: ``sacct -D``
shows each attempt of a requeued job, and the attempts are kept in order, as attempts. An array that was not
yet split (``123_[1-3]``) is one row, as Slurm keeps it. Steps are counted and left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirage.errors import LineError, TraceError
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.decompress import decode, numbered_lines
from mirage.trace.formats.read_report import ReadTally
from mirage.trace.formats.record import JobRecord, table_of
from mirage.trace.formats.sacct.row import RowParser
from mirage.trace.formats.sacct.torn_rows import Rejoiner
from mirage.trace.table import JobTable

XDMOD_FIELDS = (
    *("jobid", "jobidraw", "cluster", "partition", "qos", "account", "group", "gid", "user", "uid"),
    *("submit", "eligible", "start", "end", "elapsed", "exitcode", "state"),
    *("nnodes", "ncpus", "reqcpus", "reqmem", "reqtres", "alloctres", "timelimit", "nodelist", "jobname"),
)
"""The fields XDMoD's shredder asks for, which it stores without a header."""

_REJOINED = "row with | inside a field, put together again"
_IDENTIFIERS = frozenset({"jobid", "jobidraw"})


def read_sacct(data: bytes, tally: ReadTally, clock: LocalClock, fields: Sequence[str] | None) -> JobTable:
    """The jobs in the output of ``sacct -P`` (or ``-p``).

    Args:
        data: The text.
        tally: Receives the counts and what cannot be read.
        clock: The zone of the cluster.
        fields: The field list of a text without a header; 26 unnamed fields are taken for XDMoD's.

    Raises:
        TraceError: The fields are unknown; or reading is strict and a row cannot be read.
    """
    lines = numbered_lines(decode(data, tally), tally)
    records = list(_records(lines, tally, clock, fields))
    tally.note_repeated(record.job_id for record in records)
    return table_of(records)


def _records(
    lines: Iterator[tuple[int, str]], tally: ReadTally, clock: LocalClock, fields: Sequence[str] | None
) -> Iterator[JobRecord]:
    first = next(lines, None)
    if first is None:
        return
    names, has_header = _field_names(*first, tally, fields)
    parser, rejoiner = RowParser(names, clock, tally.notes), Rejoiner(names, clock)
    header = first[1] if has_header else None
    for number, line in _from(first, lines):
        if line == header:  # again where files were concatenated
            tally.header += 1
            continue
        try:
            cells = _cells(line, parser.width)
            if len(cells) > parser.width:
                cells = rejoiner.rejoin(cells)
                tally.notes[_REJOINED] += 1
            if parser.is_step(cells):
                tally.steps += 1
            else:
                yield parser.job(cells)
        except LineError as bad:
            tally.reject(number, bad)


def _from(first: tuple[int, str], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield first
    yield from rest


def _field_names(number: int, line: str, tally: ReadTally, fields: Sequence[str] | None) -> tuple[Sequence[str], bool]:
    """The names of the columns, and whether this first line is a header."""
    cells = line.split("|")
    if not cells[-1]:
        cells.pop()
    if _IDENTIFIERS & {cell.strip().lower() for cell in cells}:
        return cells, True
    if fields is not None:
        if not _IDENTIFIERS & {field.partition("%")[0].strip().lower() for field in fields}:
            raise TraceError(f"{tally.path}:{number}: the fields {','.join(fields)} hold no JobID; name it too")
        return fields, False
    if line.count("|") >= len(XDMOD_FIELDS) - 1:
        return XDMOD_FIELDS, False
    raise TraceError(
        f"{tally.path}:{number}: no header with a JobID, and {len(cells)} fields without names; "
        "give the field list that sacct was called with"
    )


def _cells(line: str, width: int) -> list[str]:
    cells = line.split("|")
    if len(cells) == width + 1 and not cells[-1]:
        cells.pop()
    if len(cells) < width:
        raise LineError(
            "too few fields",
            f"{len(cells)} of {width}",
            "the line is cut short, or a name holds a line break",
        )
    return cells
