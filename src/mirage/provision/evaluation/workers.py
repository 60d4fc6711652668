"""Windows of a study, played in several processes at once."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed

from mirage.provision.compile_ahead import use
from mirage.provision.evaluation.study import Player, Study, Trial

_player: Player | None = None
"""The player of this worker process: it keeps its replay from window to window."""


def play_windows(study: Study, windows: list[int], workers: int) -> Iterator[tuple[int, tuple[Trial, ...]]]:
    """Play windows and hand each over as it is done, in any order.

    Windows are handed out in ascending order, one by one, so that each worker replays the trace once however they
    fall. What becomes of a window does not depend on who plays it.

    Args:
        study: What to play.
        windows: Ascending.
        workers: How many processes; with one, this process plays.
    """
    if workers <= 1 or len(windows) <= 1:
        player = Player(study)
        for window in windows:
            yield window, player.play(window)
        return
    use(study.scenario.discipline)  # compiled once here, where it is told, rather than once by each worker
    context = multiprocessing.get_context("spawn")  # a fork would copy whatever threads the caller has
    pool = ProcessPoolExecutor(min(workers, len(windows)), context, initializer=_begin, initargs=(study,))
    try:
        pending = [pool.submit(_play, window) for window in windows]
        for done in as_completed(pending):
            yield done.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def available_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


def _begin(study: Study) -> None:
    global _player
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _player = Player(study)


def _end_with_parent() -> None:
    """End this worker when its parent is gone, however that one ended: nobody would hand it another window."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _play(window: int) -> tuple[int, tuple[Trial, ...]]:
    assert _player is not None
    return window, _player.play(window)
