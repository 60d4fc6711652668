"""Waits with generous limits, so that no test fails on a busy machine."""

from __future__ import annotations

from collections.abc import Callable

from mirage.real_time import wait_until
from tests.support.forked_processes import Process

SLOWNESS = 6
"""The factor by which a busy machine is slower than an idle one, at most."""


def until(condition: Callable[[], bool], usual_s: float, what: Callable[[], str] | str, pause_s: float = 0.2) -> None:
    """Waits until a condition is true, and fails with ``what`` if it takes too long.

    An idle machine needs less than ``usual_s`` real seconds.
    """
    if not wait_until(condition, SLOWNESS * usual_s, pause_s):
        raise AssertionError(f"not within {SLOWNESS * usual_s:.0f} s: {what() if callable(what) else what}")


def terminate(process: Process) -> int:
    """Ends a process, waits for its end and returns its exit status."""
    process.terminate()
    return process.wait(SLOWNESS * 20)
