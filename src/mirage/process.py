"""Ends of processes: children end with their parent, signals after a cleanup, Ctrl-C."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType

_PR_SET_PDEATHSIG = 1


def _prctl() -> Callable[..., int] | None:
    """Returns prctl(2), which requests a signal at the parent's death; None outside Linux."""
    try:
        found: Callable[..., int] = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None
    return found


_PRCTL = _prctl()


def die_with(parent: int) -> None:
    """Ends this process together with its parent; at once where the parent has already ended.

    On Linux the kernel kills it when the thread that started it ends (prctl(2)).

    Args:
        parent: Process ID of the parent, determined by the parent before it started this process.
    """
    if _PRCTL is not None:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def die_with_me() -> Callable[[], None]:
    """Returns a ``preexec_fn`` that ends a child together with this process.

    This holds even if the child hangs for some time before it runs the function.
    """
    return partial(die_with, os.getpid())


@contextmanager
def cleanup_at_signals() -> Iterator[Callable[[], None]]:
    """Lets SIGTERM and SIGHUP end this process at the next check, after its cleanup.

    The context gives a function that checks: it raises ``SystemExit`` if a signal has come. Loops that wait call it.
    The handler itself raises nothing: Python drops an exception in a callback of the garbage collector, and a
    submission would be interrupted. A signal that the process ignores (``nohup``) or handles has the same effect as
    before. In other threads than the main one, the context does nothing.
    """
    in_main = threading.current_thread() is threading.main_thread()
    ours = [sign for sign in (signal.SIGTERM, signal.SIGHUP) if in_main and signal.getsignal(sign) == signal.SIG_DFL]
    came: list[int] = []

    def check() -> None:
        if came:
            raise SystemExit(128 + came[0])

    for sign in ours:
        signal.signal(sign, lambda number, _: came.append(number))
    try:
        yield check
    finally:
        for sign in ours:
            signal.signal(sign, signal.SIG_DFL)
    check()


CALLED_FROM_C = ("_raw_object_cache_notify", "_raw_object_cache_getbuffer")
"""Functions of llvmlite that C calls; an exception in one of them is printed and dropped."""

CALLED_AT_FORK = ("_acquireLock", "_releaseLock")
"""The same of logging, up to Python 3.12."""


def postponed(number: int, frame: FrameType | None) -> bool:
    """Whether a signal came in a function that C calls; then it is sent again soon."""
    while frame is not None and frame.f_code.co_name not in CALLED_FROM_C + CALLED_AT_FORK:
        frame = frame.f_back
    if frame is not None:
        threading.Timer(0.05, os.kill, (os.getpid(), number)).start()
    return frame is not None


@contextmanager
def interrupts_while_loading() -> Iterator[None]:
    """Lets Ctrl-C end the body even if it comes while llvmlite loads a kernel."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        if not postponed(number, frame):
            raise KeyboardInterrupt

    former = signal.getsignal(signal.SIGINT)
    if former != signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


@contextmanager
def interrupted_by_signals() -> Iterator[Callable[[], bool]]:
    """Lets SIGTERM interrupt the body as Ctrl-C does; yields whether one of them has come.

    Python drops an exception that is raised in a destructor or in a callback of the garbage collector, so the body
    checks at its end, or after each step. A signal that the process ignores stays ignored.
    """
    came: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if not postponed(number, frame):
            raise KeyboardInterrupt

    heard = [one for one in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(one) != signal.SIG_IGN]
    former = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
