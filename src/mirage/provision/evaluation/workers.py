"""Work of a study, done in several processes at once."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

from mirage.provision.compile_ahead import use
from mirage.provision.evaluation.study import Player, Study, Trial

Made = TypeVar("Made")
Piece = TypeVar("Piece")
Result = TypeVar("Result")

_work: Callable[[Any], Any] | None = None
"""What this worker process does with a piece; it keeps its replay from piece to piece."""


def play_windows(study: Study, windows: list[int], workers: int) -> Iterator[tuple[int, tuple[Trial, ...]]]:
    """Play windows and hand each over as it is done, in any order.

    Windows are handed out in ascending order, one by one, so that each worker replays the trace once however they
    fall. What becomes of a window does not depend on who plays it.

    Args:
        study: What to play.
        windows: Ascending.
        workers: How many processes; with one, this process plays.
    """
    if min(workers, len(windows)) > 1:
        use(study.scenario.discipline)  # compiled once here, where it is told, rather than once by each worker
    return in_processes(_player, study, windows, workers)


def _player(study: Study) -> Callable[[int], tuple[int, tuple[Trial, ...]]]:
    player = Player(study)
    return lambda window: (window, player.play(window))


def in_processes(
    begin: Callable[[Made], Callable[[Piece], Result]], made_of: Made, pieces: Sequence[Piece], workers: int
) -> Iterator[Result]:
    """Do pieces of work and hand over the result of each as it is done, in any order.

    Args:
        begin: Called once in each process; makes the function that does one piece after another. A function of a
            module: processes are told its name.
        made_of: What it is called with.
        pieces: Handed out one by one, in this order.
        workers: How many processes, which end with this one; with one, this process works.
    """
    if workers <= 1 or len(pieces) <= 1:
        yield from map(begin(made_of), pieces)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy whatever threads the caller has
    workers = min(workers, len(pieces))
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
