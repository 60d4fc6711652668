"""Reader of traces in any known format, detected from the content."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from mirage.errors import ConfigurationError, TraceError, UnknownFormat, shown
from mirage.registry import Registry, call_entry, unusable
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.column_mapping import ColumnMap, parse_columns
from mirage.trace.formats.decompress import read_bytes
from mirage.trace.formats.job_table_csv import read_csv
from mirage.trace.formats.mapped_csv import read_mapped_csv
from mirage.trace.formats.mirage_log import COLUMNS as MIRAGE_LOG_COLUMNS
from mirage.trace.formats.mirage_log import read_mirage_log
from mirage.trace.formats.parquet import read_parquet
from mirage.trace.formats.pbs_accounting import is_pbs, read_pbs
from mirage.trace.formats.read_report import OnError, Progress, ReadReport, ReadTally
from mirage.trace.formats.repeated_rows import without_repeats
from mirage.trace.formats.sacct_json import read_sacct_json
from mirage.trace.formats.sacct_text import IDENTIFIERS, is_padded, read_sacct
from mirage.trace.formats.swf import FIELDS, MOST_FIELDS, is_heading, read_swf
from mirage.trace.table import JobTable

DEFAULT_ZONE = "UTC"
"""The default zone of times without a zone."""

FEWEST_OF_ONE_USER = 10
"""From so many jobs of a single user on, jobs of other users are probably missing."""

ONE_USER = (
    "job of one and the same user (if the cluster has more, their jobs are hidden: PrivateData=jobs of slurmdbd, or "
    "sacct without --allusers; without their jobs, waits cannot be simulated)"
)


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
class TraceReading:
    """The argument of a reader: the content, the tally, and what the caller knows.

    Attributes:
        data: The content, decompressed.
        tally: Counts lines and jobs; a bad line is passed to ``tally.reject``, which stops or counts it.
        clock: The zone of times without a zone.
        fields: The field list of content without a header, if given.
        delimiter: Separator of the cells, if given.
        columns: Mapping of the columns of a CSV, if given.
        timezone: The name of the zone of ``clock``.
    """

    data: bytes
    tally: ReadTally
    clock: LocalClock
    fields: Sequence[str] | None = None
    delimiter: str | None = None
    columns: ColumnMap | None = None
    timezone: str = DEFAULT_ZONE


@dataclass(frozen=True, slots=True)
class TraceReaderSpec:
    """Facts about a trace reader that are known before it is loaded.

    Attributes:
        entry: ``module:function`` of the reader: it takes a ``TraceReading`` and returns a ``JobTable``.
        summary: One line for menus.
        begins: The first bytes of the content by which a plug-in's format is recognised; empty if ``--format`` is
            always needed. Built-in formats have rules of their own, which come first.
    """

    entry: str
    summary: str
    begins: bytes = b""

    def read(self, reading: TraceReading) -> JobTable:
        """Reads a table.

        Raises:
            TraceError: The content cannot be read; the message begins with ``file:line:``.
            ConfigurationError: The reader cannot be imported, or does not return a table.
        """
        table = call_entry(self.entry, reading)
        if not isinstance(table, JobTable):
            raise unusable(self.entry, f"returns {shown(table)}, not a JobTable")
        return table


def _read_any_csv(r: TraceReading) -> JobTable:
    if r.columns is None:
        return read_csv(r.data, r.tally)
    return read_mapped_csv(
        r.data, r.tally, r.columns, r.clock, delimiter=r.delimiter, zone_configured=r.timezone != DEFAULT_ZONE
    )


SCHEDULE_HEADER = ("id", "submit", "start", "end")
"""Columns of ``mirage simulate -o``, in seconds."""

_SCHEDULE_COLUMNS = "job_id=id,submit_s=submit,start_s=start,end_s=end"


def _read_schedule(r: TraceReading) -> JobTable:
    columns = parse_columns(_SCHEDULE_COLUMNS)
    return read_mapped_csv(r.data, r.tally, columns, r.clock, delimiter=",", zone_configured=r.timezone != DEFAULT_ZONE)


def _read_mirage_log(r: TraceReading) -> JobTable:
    return read_mirage_log(r.data, r.tally, r.clock)


def _read_parquet(r: TraceReading) -> JobTable:
    return read_parquet(r.data, r.tally, r.clock, zone_configured=r.timezone != DEFAULT_ZONE)


def _read_pbs(r: TraceReading) -> JobTable:
    return read_pbs(r.data, r.tally, r.clock)


def _read_sacct(r: TraceReading) -> JobTable:
    return read_sacct(r.data, r.tally, r.clock, r.fields, r.delimiter or "|")


def _read_sacct_json(r: TraceReading) -> JobTable:
    return read_sacct_json(r.data, r.tally)


def _read_swf(r: TraceReading) -> JobTable:
    return read_swf(r.data, r.tally)


READERS: dict[str, TraceReaderSpec] = {
    "csv": TraceReaderSpec(f"{__name__}:_read_any_csv", "a job table, or any CSV with its columns mapped"),
    "mirage-log": TraceReaderSpec(f"{__name__}:_read_mirage_log", "the logs published with Mirage"),
    "parquet": TraceReaderSpec(f"{__name__}:_read_parquet", "a job table in Parquet"),
    "pbs": TraceReaderSpec(f"{__name__}:_read_pbs", "the accounting logs of PBS and Torque"),
    "sacct": TraceReaderSpec(f"{__name__}:_read_sacct", "the text of sacct -P"),
    "sacct-json": TraceReaderSpec(f"{__name__}:_read_sacct_json", "the output of sacct --json"),
    "schedule": TraceReaderSpec(f"{__name__}:_read_schedule", "the output of mirage simulate -o"),
    "swf": TraceReaderSpec(f"{__name__}:_read_swf", "the standard workload format"),
}
"""The built-in formats that can be read, by name."""

_REGISTRY = Registry(
    "trace format",
    "mirage.trace_readers",
    READERS,
    lambda _, found: found if isinstance(found, TraceReaderSpec) else None,
    "a TraceReaderSpec",
)


def known_formats() -> tuple[str, ...]:
    """Names of the formats, built-in and of installed packages; imports nothing."""
    return _REGISTRY.names()


def reader_spec(name: str) -> TraceReaderSpec:
    """The specification of a format's reader.

    Raises:
        UnknownName: No format has that name.
        ConfigurationError: Two packages declare the name, or one cannot be loaded.
    """
    return _REGISTRY.spec(name)


_SACCT_HEADER = re.compile(r"(^|\W)JobID(Raw)?([^\w\s]|\t)", re.IGNORECASE)

_HEAD_BYTES = 65_536

_IN_SPREADSHEETS = (b"[Content_Types].xml", b"xl/", b"application/vnd.oasis.opendocument")
"""Words near the beginning of the files of Excel and LibreOffice, which are zip archives."""


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
        format: One of ``known_formats()``; detected from the content by default.
        on_error: ``strict`` stops at the first bad line, ``skip`` counts and reports bad lines.
        timezone: Zone of times without a zone (``mirage-log``, ``parquet``, ``sacct``, ``columns``), such as
            ``America/Chicago``.
        fields: The field list of a ``sacct`` text without a header.
        delimiter: Separator between the cells of a ``sacct`` text (``sacct --delimiter``), by default a bar; or of a
            CSV with mapped columns, by default detected in its first row.
        columns: Mapping of the columns of any CSV, such as ``submit_s=submit_time,limit_s=timelimit[min]``, or
            ``@FILE`` in TOML (see ``mirage.trace.formats.column_mapping``).
        progress: Called at intervals with the amount read and the total.

    Raises:
        TraceError: The file cannot be read; the message begins with ``file:line:``.
        UnknownName: The format, or a column of the job table, is unknown.
        ConfigurationError: The time zone is unknown, the path or the delimiter is empty, the columns are not a mapping
            or the file is not a CSV, or a package is missing.
    """
    if not isinstance(columns, str | None):
        raise ConfigurationError(f"columns is {shown(columns)}; give a text such as 'submit_s=submit_time,nodes=size'")
    named = None if columns is None else parse_columns(columns)
    if named is not None and (format or "csv") != "csv":
        raise ConfigurationError(f"columns are mapped in a csv only; the format is {format!r}: leave one of them out")
    if delimiter == "":
        raise ConfigurationError("the delimiter is empty; give at least one character")
    if not os.fspath(path):
        raise ConfigurationError("the name of the trace is empty; name a file, or - for standard input")
    if format is not None:
        reader_spec(format)
    tally = ReadTally("<stdin>" if os.fspath(path) == "-" else os.fspath(path), on_error)
    tally.progress = progress or tally.progress
    clock = LocalClock(timezone)
    data = read_bytes(path, tally)
    if named is not None and data.startswith(b"PAR1"):
        raise ConfigurationError(f"{tally.path} is Parquet, and columns are mapped in a csv only; save it as CSV")
    format = "csv" if named is not None else format
    if format == "csv":
        _refuse_unreadable(data, tally.path)
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or data[1:4:2] == b"\0\0"
    if is_utf16 and format in (None, "csv"):  # another package's format may be binary
        raise UnknownFormat(f"{tally.path}:1: it is text in UTF-16; save it in UTF-8: iconv -f UTF-16 -t UTF-8 FILE")
    tally.format = format or detect_format(data, tally.path, has_fields=fields is not None, delimiter=delimiter)
    reading = TraceReading(data, tally, clock, fields, delimiter, named, timezone)
    table = reader_spec(tally.format).read(reading)
    del data, reading  # may be as large as the table
    table = without_repeats(table, tally)
    if of_one_user(table):
        tally.notes[ONE_USER] += len(table)
    report = tally.close(len(table))
    if report.skipped and not report.jobs and not report.steps:
        raise TraceError(f"{report.path}: no job could be read: {report.skipped_in_words()}; is it another format?")
    return Trace(table, report)


def of_one_user(table: JobTable) -> bool:
    """Whether all of many jobs belong to one user: those of others are probably hidden."""
    users = table.user.codes
    return len(users) >= FEWEST_OF_ONE_USER and users[0] >= 0 and bool((users == users[0]).all())


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
    _refuse_unreadable(data, path)
    head = data[:_HEAD_BYTES].decode("utf-8-sig", errors="replace")
    lines = [line for line in head.split("\n") if line.strip()]
    if re.match(r"\s*(\{|\[\s*(\{|\]))", head):
        return "sacct-json"
    foreign = [name for name, begins in _beginnings() if data.startswith(begins)]
    if not foreign and "\r" in head.rstrip() and not {"\n", "\0"} & set(head):
        raise UnknownFormat(
            f"{path}:1: its lines end in a carriage return without a line feed; convert it: tr '\\r' '\\n' < FILE"
        )
    if any(tuple(line.split()) == MIRAGE_LOG_COLUMNS for line in lines[:3]):
        return "mirage-log"
    if lines and is_pbs(lines[0]):
        return "pbs"
    if lines and delimiter is None and lines[0].lstrip().startswith(";"):
        return "swf"
    if lines and delimiter is None and _is_swf(lines):
        return "swf"
    first = lines[0].strip("\r\n").split(delimiter or "|") if lines else []
    named = IDENTIFIERS & {name.strip().lower() for name in first}
    if len(first) >= 26 or named or has_fields or (lines and is_padded(lines[0])):
        return "sacct"
    names = [name.strip('"') for name in lines[0].strip().split(",")] if lines else []
    if "job_id" in names:
        return "csv"
    if tuple(names) == SCHEDULE_HEADER:
        return "schedule"
    if foreign:
        return foreign[0]
    last = data[-_HEAD_BYTES:].decode("utf-8", errors="replace").split("\n")
    raise UnknownFormat(
        f"{path}:1: {shown(lines[0].strip()) if lines else 'it'} looks like none of the known formats "
        f"({', '.join(known_formats())}); {_hint([*lines, *last], first)}"
    )


def _hint(lines: Sequence[str], cells: Sequence[str]) -> str:
    """What to do with text of an unknown format, by its lines and the cells of the first."""
    if lines and _SACCT_HEADER.search(lines[0]):
        return "if sacct wrote it, name the delimiter that was used (--delimiter)"
    if any(_SACCT_HEADER.search(line) for line in lines[1:]):  # sorted
        return "the names of its fields (JobID) are not in the first line; move them there"
    if lines and "job_id" in re.split("[;\t]", lines[0]):
        return "a job table has commas between its cells; save it with commas, or map its columns (--columns)"
    if len(cells) > 1:
        return "if sacct wrote it, it needs the field JobID; if it has no header, list its fields with --fields"
    return "name one, make the file with sacct -P or sacct --json, or map the columns of a CSV (--columns)"


def _refuse_unreadable(data: bytes, path: str) -> None:
    if data.startswith(b"version https://git-lfs.github.com/spec/"):
        raise UnknownFormat(f"{path}:1: it is a pointer of Git LFS, not the trace; fetch the trace: git lfs pull")
    if data.startswith(b"PK\x03\x04") and any(word in data[:4096] for word in _IN_SPREADSHEETS):
        raise UnknownFormat(f"{path}:1: it is a spreadsheet; save it as CSV, and map its columns (--columns)")
    for kind, unpack, found in (
        ("tar", "tar -xf", data[257:262] == b"ustar"),
        ("zip", "unzip", data.startswith(b"PK\x03\x04")),
    ):
        if found:
            raise UnknownFormat(f"{path}:1: it is a {kind} archive; unpack it ({unpack} FILE) and name a file of it")


def _beginnings() -> Iterator[tuple[str, bytes]]:
    """Yields the formats of plug-ins with their first bytes, without broken plug-ins."""
    for name in known_formats()[len(READERS) :]:
        with suppress(ConfigurationError):
            if begins := reader_spec(name).begins:
                yield name, begins


def _is_swf(lines: Sequence[str]) -> bool:
    """Whether the first line is a row of SWF, after comments and a line of column names."""
    rows = [line for line in lines if not line.lstrip().startswith(";")]
    if rows and is_heading(rows[0]):
        return len(rows) > 1 and _is_swf_row(rows[1].split(), FIELDS)
    return bool(rows) and _is_swf_row(rows[0].split(), FIELDS // 2 + 1)


def _is_swf_row(words: Sequence[str], fewest: int) -> bool:
    """Whether a line has the fields of SWF, and enough of them are numbers.

    The reader reports a bad word.
    """
    numbers = sum(re.fullmatch(r"[-+]?\d+(\.\d+)?", word) is not None for word in words[:FIELDS])
    return FIELDS <= len(words) <= MOST_FIELDS and numbers >= fewest
