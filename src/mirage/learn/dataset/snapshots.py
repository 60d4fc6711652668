"""Snapshots of one window: the queue every ten minutes, shared by all of its decisions."""

from __future__ import annotations

import numpy as np

from mirage.job_state import Ints
from mirage.learn.features.queue_history import SNAPSHOT_S, queue_history
from mirage.learn.hand_overs import HISTORY, QUEUE_COLUMNS, Floats32
from mirage.policy.view import View


class SnapshotTape:
    """The queue of a window at its decisions, each row recorded once.

    The first decision records the 24 hours before it, and every later one the time since. So a row holds only what was
    known at a decision, and nothing of later ones. Decisions that are not a multiple of ten minutes apart have rows of
    their own.
    """

    def __init__(self) -> None:
        self._tapes: dict[int, list[Floats32]] = {}
        self._latest_s: dict[int, int] = {}
        self._places: list[tuple[int, int]] = []

    def see(self, view: View) -> None:
        """Records the rows of a view that are not yet on the tape; times must ascend."""
        phase_s = view.now_s % SNAPSHOT_S
        tape = self._tapes.setdefault(phase_s, [])
        since = (view.now_s - self._latest_s.get(phase_s, -HISTORY * SNAPSHOT_S + view.now_s)) // SNAPSHOT_S
        if since:
            tape.append(queue_history(view, since))
        self._latest_s[phase_s] = view.now_s
        self._places.append((phase_s, sum(map(len, tape)) - 1))

    def rows(self) -> tuple[Floats32, Ints]:
        """Shape (m, ``QUEUE_COLUMNS``), the snapshots, and shape (views,), the row of each view."""
        if not self._places:
            return np.zeros((0, QUEUE_COLUMNS), dtype=np.float32), np.zeros(0, dtype=np.int64)
        first, found = {}, 0
        for phase_s, tape in self._tapes.items():
            first[phase_s], found = found, found + sum(map(len, tape))
        together = np.concatenate([rows for tape in self._tapes.values() for rows in tape])
        return together, np.array([first[phase_s] + row for phase_s, row in self._places], dtype=np.int64)
