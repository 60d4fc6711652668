"""Waits in real seconds, even in a process on a compressed clock.

Under libfaketime every clock that a process can read runs fast: at 60 times the speed, twenty seconds leave a starting
daemon a third of a real second.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable

PAUSE_S = 0.05


def real_s() -> float:
    """Returns the real seconds since the machine started, to a hundredth."""
    try:
        with open("/proc/uptime", encoding="ascii") as file:
            return float(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return time.monotonic()


def on_this_clock_s(seconds: float) -> float:
    """Converts real seconds into seconds of this process's clock, to be used as a time-out."""
    if "faketime" not in os.environ.get("LD_PRELOAD", ""):
        return seconds
    speed = re.search(r"\bx(\d+(?:\.\d+)?)", os.environ.get("FAKETIME", ""))
    return seconds * float(speed[1]) if speed else seconds


def wait_until(condition: Callable[[], bool], patience_s: float, pause_s: float = PAUSE_S) -> bool:
    """Whether a condition becomes true within some real seconds; it is tested at least once."""
    end_s = real_s() + patience_s
    while not condition():
        if real_s() > end_s:
            return False
        time.sleep(pause_s)
    return True
