"""Processes of this machine as an executor."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

from mirage.executors.executor import Made, Piece, Result

_work: Callable[[Any], Any] | None = None
"""What this worker process does with a piece; it keeps what it began with from piece to piece."""


@dataclass(frozen=True, slots=True)
class Processes:
    """Deals pieces one by one to processes that end with this one.

    Attributes:
        workers: How many; with one, this process works.
    """

    workers: int = 1

    def __call__(
        self, begin: Callable[[Made], Callable[[Piece], Result]], made_of: Made, pieces: Sequence[Piece]
    ) -> Iterator[Result]:
        """As ``Executor`` says."""
        workers = min(self.workers, len(pieces))
        if workers <= 1:
            if pieces:
                yield from map(begin(made_of), pieces)
            return
        context = multiprocessing.get_context("spawn")  # a fork would copy whatever threads the caller has
        pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(begin, made_of))
        try:
            for done in as_completed([pool.submit(_do, piece) for piece in pieces]):
                yield done.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def _begin(begin: Callable[[Any], Callable[[Any], Any]], made_of: Any) -> None:
    global _work
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _work = begin(made_of)


def _end_with_parent() -> None:
    """End this worker when its parent is gone, however that one ended: nobody would hand it another piece."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _do(piece: Any) -> Any:
    assert _work is not None
    return _work(piece)
