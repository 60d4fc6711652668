"""Reading of a command's trace, with warnings about it on standard error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mirage.cli.options import TraceOptions

if TYPE_CHECKING:
    from mirage.trace.formats.read_report import ReadReport
    from mirage.trace.read_trace import Trace

QUIET_S = 2.0
"""Work that takes less than this, in seconds, gets no progress bar."""


def read_named_trace(path: str, reading: TraceOptions) -> Trace:
    """Reads the trace with the given options and prints warnings about it.

    Raises:
        TraceError: The trace cannot be read.
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
    return trace


def print_complaints(report: ReadReport) -> None:
    """Prints a line on standard error for each skipped or suspicious group of lines."""
    for complaint in report.complaints():
        click.echo(f"mirage: {complaint}", err=True)
