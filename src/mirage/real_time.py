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


def file_time_on_this_clock_s(instant_s: float) -> float:
    """Converts the time of a file into one of this process's clock.

    libfaketime leaves the times of files as they are. The age of the file is measured on their clock, with a new file
    in memory, and runs as fast as this process's clock.
    """
    rate = on_this_clock_s(1.0)
    if rate == 1.0:
        return instant_s
    descriptor = os.memfd_create("clock")
    try:
        age_s = os.fstat(descriptor).st_mtime - instant_s
    finally:
        os.close(descriptor)
    return time.clock_gettime(time.CLOCK_REALTIME) - rate * age_s


def wait_until(condition: Callable[[], bool], patience_s: float, pause_s: float = PAUSE_S) -> bool:
    """Whether a condition becomes true within some real seconds; it is tested at least once."""
    end_s = real_s() + patience_s
    while not condition():
        if real_s() > end_s:
            return False
        time.sleep(pause_s)
    return True
