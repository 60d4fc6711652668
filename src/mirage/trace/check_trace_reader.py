"""Check of a trace reader; run it on your own reader before you plug it in."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mirage.effects import Watched, no_effects
from mirage.errors import ConfigurationError, ContractBroken, TraceError, shown
from mirage.slurm_words.timestamps import LocalClock
from mirage.trace.formats.read_report import OnError, ReadReport, ReadTally
from mirage.trace.read_trace import TraceReaderSpec, TraceReading, reader_spec
from mirage.trace.table import JobTable
from mirage.trace.write_trace import WRITERS

PATH = "check.txt"
"""The path in messages; nothing is read from it."""

_WATCHED = Watched("the reader", "reads", "all times are in the content", "all it needs is in its argument")


def check_trace_reader(reader: str | TraceReaderSpec, content: bytes, bad_line: bytes) -> None:
    """Call a reader with good and with damaged content and check what it returns.

    It returns one job at least, and the same table twice; the second reading opens no file and reads no clock. Counts
    of lines add up. A bad line is refused with the file and the number of the line, or counted where the caller skips
    bad lines, and the other jobs stay. Content that is cut short or has a wrong byte is read, refused with a
    ``TraceError``, or skipped, but raises nothing else.

    Args:
        reader: Its name or its specification.
        content: A small valid trace, which ends with a line end where the format has lines.
        bad_line: A line that cannot be read, with its end. Empty for a format that has no lines.

    Raises:
        ContractBroken: The first violation found.
        ConfigurationError: Content or bad line are no bytes.
    """
    for what, given in (("content", content), ("bad line", bad_line)):
        if not isinstance(given, bytes):
            raise ConfigurationError(f"the {what} must be bytes, such as b'…', got {shown(given)}")
    spec = reader_spec(reader) if isinstance(reader, str) else reader
    table, report = _read(spec, content, "strict")
    if not len(table):
        raise ContractBroken(f"{spec.entry} reads no job in the content; give content with jobs, or fix the reader")
    if spec.begins and not content.startswith(spec.begins):
        raise ContractBroken(f"the content does not begin with {spec.begins!r}, as begins of {spec.entry} declares")
    with no_effects(_WATCHED):
        again, _ = _read(spec, content, "strict")
    if not _same(again, table):
        raise ContractBroken(f"{spec.entry} reads the same content twice into two different tables")
    if bad_line:
        _check_bad_line(spec, content, bad_line, table, report)
    for damaged in _damaged(content):
        for on_error in ("strict", "skip"):
            _read_damaged(spec, damaged, on_error)


def _read(spec: TraceReaderSpec, content: bytes, on_error: OnError) -> tuple[JobTable, ReadReport]:
    tally = ReadTally(PATH, on_error)
    table = spec.read(TraceReading(content, tally, LocalClock("UTC")))
    report = tally.close(len(table))
    if report.accounted != report.lines:
        raise ContractBroken(
            f"{spec.entry} counts {report.lines} lines, but {report.accounted} of them as header, comment, blank, "
            f"skipped or job; add each line to tally.lines and to one of the counts: {report.to_json()}"
        )
    return table, report


def _check_bad_line(
    spec: TraceReaderSpec, content: bytes, bad_line: bytes, table: JobTable, report: ReadReport
) -> None:
    number = content.count(b"\n") + 1
    try:
        _read(spec, content + bad_line, "strict")
    except TraceError as error:
        if not str(error).startswith(f"{PATH}:{number}:"):
            raise ContractBroken(
                f"{spec.entry} refuses line {number} with {str(error)!r}; call tally.reject(line, LineError(…)) with "
                "its number, from 1"
            ) from error
    else:
        raise ContractBroken(f"{spec.entry} reads {shown(bad_line)} as if it were right; call tally.reject for it")
    others, skipped = _read(spec, content + bad_line, "skip")
    if skipped.skipped_total != report.skipped_total + 1 or not _same(others, table):
        raise ContractBroken(
            f"{spec.entry} with on_error='skip' counts {skipped.skipped_total} skipped lines and reads {len(others)} "
            f"jobs after a bad line was added to content with {len(table)}; skip that line alone"
        )


def _same(one: JobTable, other: JobTable) -> bool:
    return WRITERS["csv"](one) == WRITERS["csv"](other)


def _damaged(content: bytes) -> Iterator[bytes]:
    """Yields content that is cut short, and content with one wrong byte."""
    random = np.random.default_rng(7)
    for end in random.integers(0, len(content), 20):
        yield content[:end]
    for at, byte in zip(random.integers(0, len(content), 40), random.integers(0, 256, 40)):
        yield content[:at] + bytes([byte]) + content[at + 1 :]


def _read_damaged(spec: TraceReaderSpec, content: bytes, on_error: OnError) -> None:
    try:
        _read(spec, content, on_error)
    except (ContractBroken, TraceError) as error:
        if isinstance(error, ContractBroken):
            raise
    except Exception as error:
        raise ContractBroken(
            f"{spec.entry} raises {error!r} for {shown(content)}; pass a bad line to tally.reject, and raise a "
            "TraceError for content that is no trace"
        ) from error
