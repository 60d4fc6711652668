"""Progress of long work on standard error: a bar on a terminal, elsewhere a line a minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from mirage.duration import MINUTE_S, format_duration

EVERY_S = MINUTE_S
"""A line at most this often; work that takes less prints none."""

Clock = Callable[[], float]
"""Seconds of any steady clock."""

Count = Callable[[int, int], None]
"""Receives the work done so far, and all work."""


@contextmanager
def progress_bar(what: str, after_s: float = 0.0, clock: Clock = time.monotonic) -> Iterator[Count]:
    """Shows how much work is done; yields what receives the counts.

    Args:
        what: The things that are counted, such as ``windows``.
        after_s: The bar appears after this time; shorter work shows none.
        clock: The clock of ``after_s`` and of the lines.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield ProgressLines(what, clock)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar, begun_s = Progress(*columns, console=console, transient=True), clock()
    task = bar.add_task(what, total=None)

    def show(done: int, total: int) -> None:
        if clock() - begun_s >= after_s:
            bar.start()
            bar.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        bar.stop()


@contextmanager
def step_line(clock: Clock = time.monotonic) -> Iterator[Callable[[str], None]]:
    """Shows the last completed step of a training; yields a function of the step's name."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield ProgressLines("training", clock).step
        return
    with console.status("training") as status:
        yield lambda step: status.update(f"training: {step} done")


class ProgressLines:
    """Prints how far some work is, once a minute.

    Args:
        what: The things that are counted, such as ``replays``.
        clock: Seconds of any steady clock.
    """

    def __init__(self, what: str, clock: Clock) -> None:
        self._what, self._clock = what, clock
        self._begun_s = self._last_s = clock()

    def __call__(self, done: int, total: int) -> None:
        """Print the amount of work, if a line is due.

        Args:
            done: Work done so far.
            total: All work, or the most that it can be; 0 if unknown.
        """
        self._print(f"{done:,} of {total:,} ({done / total:.0%})" if total > 0 else f"{done:,}")

    def step(self, name: str) -> None:
        """Print the last completed step, if a line is due."""
        self._print(f"{name} done")

    def _print(self, state: str) -> None:
        now_s = self._clock()
        if now_s - self._last_s < EVERY_S:
            return
        self._last_s = now_s
        click.echo(f"mirage: {self._what}: {state}, after {format_duration(round(now_s - self._begun_s))}", err=True)
