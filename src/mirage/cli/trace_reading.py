"""Reading the trace a command was given, and saying on standard error what could not be read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from mirage.trace.formats.read_report import Progress, ReadReport
from mirage.trace.read import Trace, read_trace

QUIET_S = 2.0
"""A trace that is read faster than this needs no progress bar."""


def read_named_trace(
    path: str,
    *,
    format_: str | None,
    fields: str | None,
    delimiter: str | None,
    timezone: str,
    skip_bad_lines: bool,
) -> Trace:
    """The trace that the options of ``mirage.cli.options.trace_reading`` describe; complaints are printed.

    Raises:
        TraceError: It cannot be read.
    """
    with progress_bar() as progress:
        trace = read_trace(
            path,
            format=format_,
            on_error="skip" if skip_bad_lines else "strict",
            timezone=timezone,
            fields=fields.split(",") if fields else None,
            delimiter=None if delimiter is None else delimiter.replace("\\t", "\t"),
            progress=progress,
        )
    print_complaints(trace.report)
    return trace


@contextmanager
def progress_bar(clock: Callable[[], float] = time.monotonic) -> Iterator[Progress | None]:
    """A bar on standard error once reading takes longer than two seconds; none where that is no terminal."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    bar, begun_s = Bar(console=console, transient=True), clock()
    task = bar.add_task("reading the trace")

    def show(done: int, total: int) -> None:
        if clock() - begun_s >= QUIET_S:
            bar.start()
            bar.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        bar.stop()


def print_complaints(report: ReadReport) -> None:
    """What was skipped and what deserves a look, a line each, on standard error."""
    for complaint in report.complaints():
        click.echo(f"mirage: {complaint}", err=True)
