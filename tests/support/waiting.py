"""Waiting in tests: a machine that others use, too, is slow at times, and no test fails for that."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import Popen
from typing import Any

from mirage.real_time import wait_until

SLOWNESS = 6
"""A busy machine takes at most so many times as long as an idle one."""


def until(condition: Callable[[], bool], usual_s: float, what: Callable[[], str] | str, pause_s: float = 0.2) -> None:
    """Waits for what an idle machine brings about in less than ``usual_s`` real seconds, and fails with ``what``."""
    if not wait_until(condition, SLOWNESS * usual_s, pause_s):
        raise AssertionError(f"not within {SLOWNESS * usual_s:.0f} s: {what() if callable(what) else what}")


def terminate(process: Popen[Any]) -> int:
    """Ends a process, waits for its end and returns its exit status."""
    process.terminate()
    return process.wait(SLOWNESS * 20)
