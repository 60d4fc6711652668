"""Processes of this machine as an executor."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from queue import Empty, SimpleQueue
from typing import Any

from mirage.errors import MirageError
from mirage.process import cleanup_at_signals
from mirage.study.executors.executor import Piece, Result, Setup
from mirage.worker_pool import worker_pool

POLL_S = 0.5
"""Seconds between two checks for a signal."""

_work: Callable[[Any], Any] | None = None
"""The function that does pieces in this worker process; its state persists from piece to piece."""


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """Distributes pieces one by one over local processes, which end together with this one.

    Work and results pass through pipes and memory that only these processes hold, so multiprocessing may pickle them; a
    file in a shared folder is another matter, see ``mirage.study.executors.work_codec``.

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
        pickled = bytes(ForkingPickler.dumps((begin, setup)))  # large ones would block the start of each worker
        shared = multiprocessing.get_context("spawn").RawArray("c", len(pickled))
        shared.raw = pickled
        ended, left = SimpleQueue[Future[Any]](), len(pieces)
        with cleanup_at_signals(signal.SIGINT) as check, worker_pool(workers, _begin, shared) as submit:
            try:
                for piece in pieces:
                    submit(_do, piece).add_done_callback(ended.put)
                    check()
                while left:
                    check()
                    try:
                        done = ended.get(timeout=POLL_S)
                    except Empty:
                        continue
                    left -= 1
                    yield done.result()
            except BrokenProcessPool as error:
                check()  # a signal to all processes may end the workers first
                raise MirageError(
                    f"a worker process ended unexpectedly ({error}); if memory ran out, give fewer --workers"
                ) from error


def available_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def _begin(shared: Any) -> None:
    global _work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    begin, setup = ForkingPickler.loads(shared.raw)
    _work = begin(setup)


def _end_with_parent() -> None:
    """Ends this worker when its parent has ended, in whichever way."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _do(piece: Any) -> Any:
    assert _work is not None
    return _work(piece)
