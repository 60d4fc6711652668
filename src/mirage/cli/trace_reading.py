"""Reading of a command's trace, with warnings about it on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from mirage.cli.options import TraceOptions

if TYPE_CHECKING:
    from mirage.trace.formats.read_report import Progress, ReadReport
    from mirage.trace.read_trace import Trace

QUIET_S = 2.0
"""A trace that is read faster than this, in seconds, gets no progress bar."""


def read_named_trace(path: str, reading: TraceOptions) -> Trace:
    """Reads the trace with the given options and prints warnings about it.

    Raises:
        TraceError: The trace cannot be read.
    """
    from mirage.trace.read_trace import read_trace

    with progress_bar() as progress:
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


@contextmanager
def progress_bar(clock: Callable[[], float] = time.monotonic) -> Iterator[Progress | None]:
    """Shows a bar on a terminal's standard error once reading takes longer than two seconds."""
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
    """Prints a line on standard error for each skipped or suspicious group of lines."""
    for complaint in report.complaints():
        click.echo(f"mirage: {complaint}", err=True)
