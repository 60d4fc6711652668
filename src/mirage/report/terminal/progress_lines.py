"""Progress as lines on standard error, where there is no terminal for a bar."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from mirage.duration import MINUTE_S, format_duration

EVERY_S = MINUTE_S
"""A line at most this often; work that takes less prints none."""


class ProgressLines:
    """Prints how far some work is, once a minute.

    Args:
        what: The things that are counted, such as ``replays``.
        clock: Seconds of any steady clock.
        every_s: Seconds between two lines.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic, every_s: float = EVERY_S) -> None:
        self._what, self._clock, self._every_s = what, clock, every_s
        self._begun_s = self._last_s = clock()

    def __call__(self, done: int, total: int) -> None:
        """Count work, and print a line if it is due.

        Args:
            done: Work done so far.
            total: All work, or the most that it can be.
        """
        now_s = self._clock()
        if now_s - self._last_s < self._every_s:
            return
        self._last_s = now_s
        share = f" ({done / total:.0%})" if total > 0 else ""
        spent = format_duration(round(now_s - self._begun_s))
        click.echo(f"mirage: {self._what}: {done:,} of {total:,}{share}, after {spent}", err=True)
