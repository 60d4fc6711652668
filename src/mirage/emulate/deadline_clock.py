"""A clock of emulated seconds that waits until absolute due times.

A sleep per step ends late every time, and the delays add up: a third more at 10 ms on a busy machine. Here every step
has its due time since the start, so a late one shortens the next wait, and the total stays exact.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from mirage.real_time import on_this_clock_s

WARNINGS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM)
"""Signals that announce the end of a job: by Slurm before the time limit, at a preemption or at ``scancel``."""

ROUNDING_S = 1e-9
"""Emulated seconds that rounding may take from a due time."""


@dataclass(slots=True)
class DeadlineClock:
    """Emulated seconds since the start, ``speed`` of them in each second of the process.

    Attributes:
        speed: Emulated seconds per second.
        now: Returns seconds of a monotonic clock.
        wait: Waits some seconds, or less if a signal arrives.
    """

    speed: float
    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    start: float = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.now()

    @property
    def real_speed(self) -> float:
        """Emulated seconds per real second, also in a process on a compressed clock."""
        return self.speed * on_this_clock_s(1.0)

    def now_s(self) -> float:
        """Returns the emulated seconds since the start."""
        return (self.now() - self.start) * self.speed

    def wait_until(self, due_s: float, stopped: Callable[[], bool]) -> bool:
        """Waits until an emulated time; returns False if ``stopped`` became true before it."""
        while not stopped():
            left_s = due_s - self.now_s()
            if left_s <= ROUNDING_S:
                return True
            self.wait(left_s / self.speed)
        return False

    def skip(self, since: float) -> None:
        """Leaves out the time from a moment of the monotonic clock until now."""
        self.start += self.now() - since


@dataclass(slots=True)
class WarningSignals:
    """The first warning signal that this process received; a suspension stops its clock.

    Attributes:
        received: Name of the signal, such as ``USR2``; empty before one arrives.
    """

    received: str = ""
    _wake: int = -1
    _suspended: float = 0.0

    def wait(self, seconds: float) -> None:
        """Waits, at most until a signal arrives."""
        if select.select([self._wake], [], [], max(seconds, 0.0))[0]:
            os.read(self._wake, 512)

    @contextmanager
    def on(self, clock: DeadlineClock) -> Iterator[None]:
        """Receives the signals within its body.

        While the process is suspended (SIGTSTP, then SIGCONT, as Slurm sends them), the clock does not advance.
        """
        self._wake, written = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

        def warned(number: int, _: FrameType | None) -> None:
            self.received = self.received or signal.Signals(number).name.removeprefix("SIG")

        def suspend(*_: object) -> None:
            self._suspended = clock.now()
            os.kill(os.getpid(), signal.SIGSTOP)

        def resume(*_: object) -> None:
            if self._suspended:
                clock.skip(self._suspended)
                self._suspended = 0.0

        handlers: dict[signal.Signals, Callable[[int, FrameType | None], None]] = {
            **dict.fromkeys(WARNINGS, warned),
            signal.SIGTSTP: suspend,
            signal.SIGCONT: resume,
        }
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        former = signal.set_wakeup_fd(written, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(former)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.close(self._wake)
            os.close(written)
