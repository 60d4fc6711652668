"""Processes that work for this one, and that Ctrl-C ends without a traceback.

with WorkerProcesses(4, prepare, "data") as workers:
    results = [workers.submit(work, piece) for piece in pieces]
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from types import FrameType, TracebackType
from typing import ParamSpec, Self, TypeVar

from mirage.process import postponed

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


_OURS = signal.SIGUSR1
"""Signal by which the parent interrupts a worker; it ends one that has not begun."""


class WorkerProcesses:
    """A pool of new Python processes, which end together with this one.

    Ctrl-C interrupts the functions that run in them; between two of these and while a process starts, it takes effect
    at the next one, because Python would print a traceback. An error in the body of ``with`` interrupts them as well:
    Ctrl-C may have reached this process alone.
    """

    def __init__(self, number: int, begin: Callable[..., object] | None = None, *args: object) -> None:
        """Prepares the processes; each starts with a call of ``submit``.

        Args:
            number: Largest number of processes.
            begin: Function that each process calls first, if any; an error in it ends the process.
            args: Arguments of ``begin``.
        """
        # A fork would copy the caller's threads.
        self._pool = ProcessPoolExecutor(number, multiprocessing.get_context("spawn"), _begin, (begin, args))
        self._others = set(multiprocessing.active_children())

    def submit(
        self, work: Callable[Arguments, Result], *args: Arguments.args, **kw: Arguments.kwargs
    ) -> Future[Result]:
        """Lets one of the processes call a function."""
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited by a process that starts here
        try:
            return self._pool.submit(_do, partial(work, *args, **kw))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            for process in set(multiprocessing.active_children()) - self._others:
                assert process.pid is not None
                with suppress(ProcessLookupError):  # it has just ended
                    os.kill(process.pid, _OURS)
        self._pool.shutdown(wait=True, cancel_futures=True)


def _begin(begin: Callable[..., object] | None, args: tuple[object, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    signal.signal(_OURS, _interrupt)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # as under nohup
        signal.signal(signal.SIGINT, _interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    try:
        _do(partial(begin, *args) if begin else int)
    except KeyboardInterrupt:
        os._exit(128 + signal.SIGINT)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


_interrupted = False
"""Whether Ctrl-C has come."""

_works = False
"""Whether one of the functions runs, which Ctrl-C interrupts."""


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _interrupted
    _interrupted = True
    if _works and not postponed(number, frame):
        raise KeyboardInterrupt


def _do(work: Callable[[], Result]) -> Result:
    global _works
    _works = True
    try:
        if _interrupted:
            raise KeyboardInterrupt
        return work()
    finally:
        _works = False
