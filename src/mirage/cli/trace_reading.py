"""Reading the trace a command was given, and saying on standard error what could not be read."""

from __future__ import annotations

import click

from mirage.trace.formats.read_report import ReadReport
from mirage.trace.read import Trace, read_trace


def read_named_trace(
    path: str, *, format_: str | None, fields: str | None, timezone: str, skip_bad_lines: bool
) -> Trace:
    """The trace that the options of ``mirage.cli.options.trace_reading`` describe; complaints are printed.

    Raises:
        TraceError: It cannot be read.
    """
    trace = read_trace(
        path,
        format=format_,
        on_error="skip" if skip_bad_lines else "strict",
        timezone=timezone,
        fields=fields.split(",") if fields else None,
    )
    print_complaints(trace.report)
    return trace


def print_complaints(report: ReadReport) -> None:
    """What was skipped and what deserves a look, a line each, on standard error."""
    for complaint in report.complaints():
        click.echo(f"mirage: {complaint}", err=True)
