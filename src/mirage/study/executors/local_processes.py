"""Processes of this machine as an executor."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from mirage.errors import MirageError
from mirage.process import cleanup_at_signals
from mirage.study.executors.executor import Piece, Result, Setup
from mirage.worker_processes import WorkerProcesses

_work: Callable[[Any], Any] | None = None
"""The function that does pieces in this worker process; its state persists from piece to piece."""


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """Distributes pieces one by one over local processes, which end together with this one.

    Work and results pass through pipes that only these processes hold, so multiprocessing may pickle them; a file in a
    shared folder is another matter, see ``mirage.study.executors.work_codec``.

    Attributes:
        workers: Number of processes; with one, this process does the work.
    """

    workers: int = 1

    def __call__(
        self, begin: Callable[[Setup], Callable[[Piece], Result]], setup: Setup, pieces: Sequence[Piece]
    ) -> Iterator[Result]:
        """Does pieces in processes; see ``Executor``.

        Raises:
            MirageError: A process ended unexpectedly.
        """
        workers = min(self.workers, len(pieces))
        if workers <= 1:
            if pieces:
                yield from map(begin(setup), pieces)
            return
        try:
            with WorkerProcesses(workers, _begin, begin, setup) as processes, cleanup_at_signals() as check:
                done: SimpleQueue[Future[Result]] = SimpleQueue()
                for piece in pieces:
                    processes.submit(_do, piece).add_done_callback(done.put)
                for _ in pieces:
                    while (found := _soon(done)) is None:
                        check()
                    check()  # the signal may have ended a worker as well
                    yield found.result()
        except BrokenProcessPool as error:
            raise MirageError(
                f"a worker process ended unexpectedly ({error}); if memory ran out, give fewer --workers"
            ) from error


def _soon(done: SimpleQueue[Future[Result]]) -> Future[Result] | None:
    """Returns the next result; None if there is none after half a second."""
    try:
        return done.get(timeout=0.5)
    except Empty:
        return None


def available_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _begin(begin: Callable[[Any], Callable[[Any], Any]], setup: Any) -> None:
    global _work
    _work = begin(setup)


def _do(piece: Any) -> Any:
    assert _work is not None
    return _work(piece)
