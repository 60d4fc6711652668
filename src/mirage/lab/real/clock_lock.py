"""Frees the lock of an accelerated clock if a process was killed while it had it.

Processes on a clock of libfaketime share a semaphore, which each takes for microseconds when it reads the clock. One
that is killed at that moment leaves it locked, and the whole cluster waits for it, with all signals blocked. The clock
process of a lab runs this file, without the rest of Mirage and on the real clock.
"""

from __future__ import annotations

import ctypes
import sys
import time

CHECK_EVERY_S = 1.0
SAMPLES, SAMPLE_S = 40, 0.025
"""A lock that is taken in each of so many samples has no owner: between two samples it is free thousands of times."""


class SharedLock:
    """A named POSIX semaphore.

    Raises:
        OSError: There is none of this name.
    """

    def __init__(self, name: str) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.sem_open.restype = ctypes.c_void_p
        opened = self._libc.sem_open(name.encode(), 0)
        if not opened:
            raise OSError(ctypes.get_errno(), f"no semaphore {name}")
        self._semaphore = ctypes.c_void_p(opened)

    def value(self) -> int:
        """Number of processes that could take it now."""
        found = ctypes.c_int()
        self._libc.sem_getvalue(self._semaphore, ctypes.byref(found))
        return found.value

    def free(self) -> None:
        """Give it back in place of its owner."""
        self._libc.sem_post(self._semaphore)

    def is_abandoned(self) -> bool:
        """Whether it is taken in every sample."""
        for _ in range(SAMPLES):
            if self.value() > 0:
                return False
            time.sleep(SAMPLE_S)
        return True


def free_abandoned(name: str) -> None:
    """Free a lock each time its owner was killed, for as long as this process runs."""
    lock = SharedLock(name)
    while True:
        if lock.is_abandoned():
            lock.free()
        time.sleep(CHECK_EVERY_S)


if __name__ == "__main__":
    free_abandoned(sys.argv[1])
