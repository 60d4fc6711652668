"""Ctrl-C while a kernel is loaded."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_CALLED_FROM_C = "_raw_object_cache_notify"
"""Function of llvmlite that C calls; an exception in it is printed and dropped."""


@contextmanager
def interrupts_while_loading() -> Iterator[None]:
    """Lets Ctrl-C end the body even if it comes while llvmlite loads a kernel.

    Then the signal is sent again a moment later.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code.co_name != _CALLED_FROM_C:
            frame = frame.f_back
        if frame is None:
            raise KeyboardInterrupt
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()

    former = signal.getsignal(signal.SIGINT)
    if former != signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
