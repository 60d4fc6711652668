"""The trace that a command was given, with complaints about it on standard error."""

from __future__ import annotations

import click

from mirage.cli.options import TraceOptions
from mirage.trace.formats.read_report import ReadReport
from mirage.trace.read import Trace, read_trace


def read_named_trace(path: str, reading: TraceOptions) -> Trace:
    """The trace, read as the options say; complaints are printed.

    Raises:
        TraceError: It cannot be read.
    """
    trace = read_trace(
        path,
        format=reading.format,
        on_error="skip" if reading.skip_bad_lines else "strict",
        timezone=reading.timezone,
        fields=reading.fields.split(",") if reading.fields else None,
    )
    print_complaints(trace.report)
    return trace


def print_complaints(report: ReadReport) -> None:
    """A line on standard error for whatever was skipped or deserves a look."""
    for complaint in report.complaints():
        click.echo(f"mirage: {complaint}", err=True)
