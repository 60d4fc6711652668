"""A pool of worker processes that an interrupt ends quietly."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.resource_tracker import ensure_running
from typing import Any


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Lets processes that start in its body leave Ctrl-C to this process.

    It reaches all processes of a terminal, and each Python would print a traceback.
    """
    ensure_running()  # it would permit Ctrl-C in this thread when it starts with the first process
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # a new process inherits it
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


@contextmanager
def worker_pool(
    workers: int, initializer: Callable[..., None], *arguments: Any
) -> Iterator[Callable[..., Future[Any]]]:
    """Gives a function that submits a call to processes; an error in the body ends them.

    Args:
        workers: Number of processes.
        initializer: Each process calls it first.
        arguments: Its arguments. More than 64 KiB would block each start until the process reads them.
    """
    spawn = multiprocessing.get_context("spawn")  # a fork would copy the caller's threads
    pool = ProcessPoolExecutor(workers, spawn, initializer=initializer, initargs=arguments)

    def submit(call: Callable[..., Any], *its_arguments: Any) -> Future[Any]:
        with without_interrupts():
            return pool.submit(call, *its_arguments)

    try:
        yield submit
    except BaseException:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
