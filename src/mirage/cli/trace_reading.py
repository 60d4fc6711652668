"""Reading of a command's trace, with warnings about it on standard error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from mirage.cli.options import TraceOptions
from mirage.duration import DAY_S
from mirage.errors import TraceError, quantity

if TYPE_CHECKING:
    from mirage.trace.formats.read_report import ReadReport
    from mirage.trace.read_trace import Trace
    from mirage.trace.table import JobTable

LONG_GAP_S = 366 * DAY_S
"""Time without a submission, in seconds, from which a trace probably has a wrong date."""

QUIET_S = 2.0
"""Work that takes less than this, in seconds, gets no progress bar."""


def read_named_trace(path: str, reading: TraceOptions) -> Trace:
    """Reads the trace with the given options and prints warnings about it.

    Raises:
        TraceError: The trace cannot be read, or has no job.
    """
    from mirage.report.terminal.progress import progress_bar
    from mirage.trace.read_trace import read_trace

    with progress_bar("bytes of the trace", QUIET_S) as progress:
        trace = read_trace(
            path,
            format=reading.format,
            on_error="skip" if reading.skip_bad_lines else "strict",
            timezone=reading.timezone,
            fields=reading.fields.split(",") if reading.fields else None,
            delimiter=None if reading.delimiter is None else reading.delimiter.replace("\\t", "\t"),
            columns=reading.columns,
            progress=progress,
        )
    print_complaints(trace.report)
    _report_unused(path, trace.report.format, reading)
    if not len(trace.table):
        raise TraceError(f"{trace.report.path}: it has no job; check its period, and the errors of what wrote it")
    _report_gap(path, trace.table)
    return trace


def _report_unused(path: str, format: str, reading: TraceOptions) -> None:
    """Reports options that the reader of a built-in format does not have."""
    from mirage.trace.read_trace import READERS

    if format == "sacct" or format not in READERS:
        return
    given = {"--fields": reading.fields, "--delimiter": reading.delimiter if reading.columns is None else None}
    if unused := " and ".join(option for option, value in given.items() if value):
        click.echo(f"mirage: warning: {path} is read as {format}, which does not use {unused}", err=True)


def _report_gap(path: str, table: JobTable) -> None:
    """Reports a gap of years in a trace: a wrong date, or files that do not follow each other."""
    import numpy as np

    submitted = np.sort(table.submit_s[table.submit_s >= 0])
    gaps = np.diff(submitted)
    if len(gaps) and gaps.max() > LONG_GAP_S:
        first = int(gaps.argmax())
        ends = [time.strftime("%Y-%m-%d", time.gmtime(int(second))) for second in submitted[first : first + 2]]
        few = min(first + 1, len(submitted) - first - 1)
        click.echo(
            f"mirage: warning: {path} has no submission from {ends[0]} to {ends[1]}, and {quantity(few, 'job')} "
            f"{'before' if first + 1 == few else 'after'} that; is a date wrong?",
            err=True,
        )


def print_complaints(report: ReadReport) -> None:
    """Prints a line on standard error for each skipped or suspicious group of lines."""
    for complaint in report.complaints():
        click.echo(f"mirage: {complaint}", err=True)
