"""Reader of traces in any known format, detected from the content."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirage.errors import ConfigurationError, TraceError, UnknownFormat, UnknownName
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.column_mapping import ColumnMap, parse_columns
from mirage.trace.formats.decompress import read_bytes
from mirage.trace.formats.job_table_csv import read_csv
from mirage.trace.formats.mapped_csv import read_mapped_csv
from mirage.trace.formats.mirage_log import COLUMNS as MIRAGE_LOG_COLUMNS
from mirage.trace.formats.mirage_log import read_mirage_log
from mirage.trace.formats.parquet import read_parquet
from mirage.trace.formats.read_report import OnError, Progress, ReadReport, ReadTally
from mirage.trace.formats.sacct_json import read_sacct_json
from mirage.trace.formats.sacct_text import IDENTIFIERS, read_sacct
from mirage.trace.formats.swf import FIELDS, MOST_FIELDS, read_swf
from mirage.trace.table import JobTable

DEFAULT_ZONE = "UTC"
"""The default zone of times without a zone."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace as it was read.

    Attributes:
        table: The jobs.
        report: The result for every line.
    """

    table: JobTable
    report: ReadReport


@dataclass(frozen=True, slots=True)
class _Reading:
    """The content, the tally, and the caller's knowledge about the content."""

    data: bytes
    tally: ReadTally
    clock: LocalClock
    fields: Sequence[str] | None
    delimiter: str | None
    columns: ColumnMap | None
    timezone: str


def _read_any_csv(r: _Reading) -> JobTable:
    if r.columns is None:
        return read_csv(r.data, r.tally)
    return read_mapped_csv(
        r.data, r.tally, r.columns, r.clock, delimiter=r.delimiter, zone_configured=r.timezone != DEFAULT_ZONE
    )


SCHEDULE_HEADER = ("id", "submit", "start", "end")
"""Columns of ``mirage simulate -o``, in seconds."""

_SCHEDULE_COLUMNS = "job_id=id,submit_s=submit,start_s=start,end_s=end"


def _read_schedule(r: _Reading) -> JobTable:
    columns = parse_columns(_SCHEDULE_COLUMNS)
    return read_mapped_csv(r.data, r.tally, columns, r.clock, delimiter=",", zone_configured=r.timezone != DEFAULT_ZONE)


READERS: dict[str, Callable[[_Reading], JobTable]] = {
    "csv": _read_any_csv,
    "mirage-log": lambda r: read_mirage_log(r.data, r.tally, r.clock),
    "parquet": lambda r: read_parquet(r.data, r.tally),
    "sacct": lambda r: read_sacct(r.data, r.tally, r.clock, r.fields, r.delimiter or "|"),
    "sacct-json": lambda r: read_sacct_json(r.data, r.tally),
    "schedule": _read_schedule,
    "swf": lambda r: read_swf(r.data, r.tally),
}
"""The formats that can be read, by name."""

_SACCT_HEADER = re.compile(r"(^|\W)JobID(Raw)?[^\w\s]", re.IGNORECASE)

_HEAD_BYTES = 65_536


def read_trace(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    on_error: OnError = "strict",
    timezone: str = DEFAULT_ZONE,
    fields: Sequence[str] | None = None,
    delimiter: str | None = None,
    columns: str | None = None,
    progress: Progress | None = None,
) -> Trace:
    """Read a trace; gzip, bzip2, xz and zstd are decompressed.

    Args:
        path: The file; ``-`` is standard input.
        format: One of ``READERS``; detected from the content by default.
        on_error: ``strict`` stops at the first bad line, ``skip`` counts and reports bad lines.
        timezone: Zone of times without a zone (``mirage-log``, ``sacct``, ``columns``), such as ``America/Chicago``.
        fields: The field list of a ``sacct`` text without a header.
        delimiter: Separator between the cells of a ``sacct`` text (``sacct --delimiter``), by default a bar; or of a
            CSV with mapped columns, by default detected in its first row.
        columns: Mapping of the columns of any CSV, such as ``submit_s=submit_time,limit_s=timelimit[min]``, or
            ``@FILE`` in TOML (see ``mirage.trace.formats.column_mapping``).
        progress: Called at intervals with the amount read and the total.

    Raises:
        TraceError: The file cannot be read; the message begins with ``file:line:``.
        UnknownName: The format, or a column of the job table, is unknown.
        ConfigurationError: The time zone is unknown, the delimiter is empty, the columns are not a mapping or the file
            is not a CSV, or a package is missing.
    """
    named = None if columns is None else parse_columns(columns)
    if named is not None and (format or "csv") != "csv":
        raise ConfigurationError(f"columns are mapped in a csv only; the format is {format!r}: leave one of them out")
    if delimiter == "":
        raise ConfigurationError("the delimiter is empty; give at least one character")
    if format is not None and format not in READERS:
        raise UnknownName("trace format", format, READERS)
    tally = ReadTally("<stdin>" if os.fspath(path) == "-" else os.fspath(path), on_error)
    tally.progress = progress or tally.progress
    clock = LocalClock(timezone)
    data = read_bytes(path, tally)
    format = "csv" if named is not None else format
    tally.format = format or detect_format(data, tally.path, has_fields=fields is not None, delimiter=delimiter)
    table = READERS[tally.format](_Reading(data, tally, clock, fields, delimiter, named, timezone))
    report = tally.close(len(table))
    if report.skipped and not report.jobs and not report.steps:
        raise TraceError(f"{report.path}: no job could be read: {report.skipped_in_words()}; is it another format?")
    return Trace(table, report)


def detect_format(data: bytes, path: str, *, has_fields: bool = False, delimiter: str | None = None) -> str:
    """Detects the name of the format of some content.

    Args:
        data: The decompressed content.
        path: Named in the error.
        has_fields: Whether the caller knows the fields of a ``sacct`` text without a header.
        delimiter: Separator between the cells of a ``sacct`` text; only that has one.

    Raises:
        UnknownFormat: The format is unknown.
    """
    if data.startswith(b"PAR1"):
        return "parquet"
    head = data[:_HEAD_BYTES].decode("utf-8-sig", errors="replace")
    lines = [line for line in head.split("\n") if line.strip()]
    if re.match(r"\s*(\{|\[\s*(\{|\]))", head):
        return "sacct-json"
    if any(tuple(line.split()) == MIRAGE_LOG_COLUMNS for line in lines[:3]):
        return "mirage-log"
    if lines and delimiter is None and lines[0].lstrip().startswith(";"):
        return "swf"
    if lines and delimiter is None and _is_swf_row(lines[0].split()):
        return "swf"
    first = lines[0].strip("\r\n").split(delimiter or "|") if lines else []
    if len(first) >= 26 or IDENTIFIERS & {name.strip().lower() for name in first} or has_fields:
        return "sacct"
    names = [name.strip('"') for name in lines[0].strip().split(",")] if lines else []
    if "job_id" in names:
        return "csv"
    if tuple(names) == SCHEDULE_HEADER:
        return "schedule"
    hint = "name one, make the file with sacct -P or sacct --json, or map the columns of a CSV (--columns)"
    if lines and _SACCT_HEADER.search(lines[0]):
        hint = "if sacct wrote it, name the delimiter that was used"
    raise UnknownFormat(f"{path}:1: looks like none of the known formats ({', '.join(READERS)}); {hint}")


def _is_swf_row(words: Sequence[str]) -> bool:
    """Whether a line has the fields of SWF and most of them are numbers.

    The reader reports a bad word.
    """
    numbers = sum(re.fullmatch(r"[-+]?\d+(\.\d+)?", word) is not None for word in words[:FIELDS])
    return FIELDS <= len(words) <= MOST_FIELDS and 2 * numbers > FIELDS
