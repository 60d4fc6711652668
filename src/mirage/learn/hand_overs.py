"""Hand-overs: decisions that could have been taken, what was seen at each, and what submitting there led to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Ints

Floats32 = NDArray[np.float32]

HISTORY = 144
"""Snapshots that a network sees: 24 hours, one every ten minutes (Mirage, SC'23)."""

QUEUE_COLUMNS = 34
"""Columns of a snapshot that tell of the queue; eight more tell of the chain."""

COLUMNS = QUEUE_COLUMNS + 8
"""Columns of a snapshot: those of the queue, then limit (min), nodes, wait (s) and elapsed run (s) of the present link,
then the same of the next one, which has neither waited nor run (Mirage, SC'23)."""


ROW_COLUMNS = ("window_s", "link_nodes", "link_limit_s", "wait_s", "time_s", "remaining_s", "outcome_s")
"""Columns of hand-overs that are whole numbers, one a row."""


@dataclass(frozen=True, slots=True, eq=False)
class HandOvers:
    """Decisions about hand-overs, n rows, by size of link, window and time.

    A *window* is one hand-over: a present link of a size, from its start to its end. Its last decision is at the end.

    Attributes:
        window_s: Shape (n,): when the window's present link was submitted.
        link_nodes: Shape (n,): size of the links.
        link_limit_s: Shape (n,): time limit of the links.
        wait_s: Shape (n,): how long the present link had waited.
        time_s: Shape (n,): when the decision was to be taken.
        remaining_s: Shape (n,): from then to the end of the present link; 0 in a window's last row.
        outcome_s: Shape (n,): start of the next link minus end of the present one if submitted then; positive where
            the chain is interrupted, negative where links overlap.
        features: Shape (n, features), what a model of few numbers sees, in the order of ``names``; NaN for what is
            not known.
        names: Names of the features.
        snapshots: Shape (m, ``QUEUE_COLUMNS``): the queue every ten minutes.
        last: Shape (n,): row of ``snapshots`` that shows the queue at the decision; the ``HISTORY`` − 1 rows before
            it are the 24 hours that led there.
        repeats: Shape (n, repeats), how much users repeat themselves; None where the data tell nothing of it.
    """

    window_s: Ints
    link_nodes: Ints
    link_limit_s: Ints
    wait_s: Ints
    time_s: Ints
    remaining_s: Ints
    outcome_s: Ints
    features: Floats32
    names: tuple[str, ...]
    snapshots: Floats32
    last: Ints
    repeats: Floats32 | None = None

    def __len__(self) -> int:
        return len(self.time_s)

    def __getitem__(self, rows: NDArray[np.bool_] | Ints | slice) -> Self:
        """Some of the rows; snapshots are shared."""
        values = {name: getattr(self, name)[rows] for name in (*ROW_COLUMNS, "features")}
        repeats = None if self.repeats is None else self.repeats[rows]
        return type(self)(**values, names=self.names, snapshots=self.snapshots, last=self.last[rows], repeats=repeats)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Several together, row after row; their features must be the same ones.

        Raises:
            ValueError: There are none, or their features differ.
        """
        if len({part.names for part in parts}) != 1:
            raise ValueError(f"hand-overs of the same features can be joined, got {[part.names for part in parts]}")
        before = np.cumsum([0, *(len(part.snapshots) for part in parts)])
        last = [part.last + first for part, first in zip(parts, before)]
        columns = (*ROW_COLUMNS, "features", "snapshots")
        values = {name: np.concatenate([getattr(part, name) for part in parts]) for name in columns}
        repeats = [part.repeats for part in parts if part.repeats is not None]
        together = np.concatenate(repeats) if len(repeats) == len(parts) else None
        return cls(**values, names=parts[0].names, last=np.concatenate(last), repeats=together)

    @property
    def tells_repeats(self) -> bool:
        """Whether some decision tells how much users repeat themselves."""
        return self.repeats is not None and bool(np.isfinite(self.repeats).any())

    def column(self, name: str) -> Floats32:
        """Shape (n,): one feature."""
        found: Floats32 = self.features[:, self.names.index(name)]
        return found

    def history(self, rows: Ints) -> Floats32:
        """Shape (rows, ``HISTORY``, ``COLUMNS``): the 24 hours before some decisions, as ``mirage-2023`` lays them out.

        In earlier snapshots the present link has run for as much less, and waited where it did not run yet.
        """
        found = np.zeros((len(rows), HISTORY, COLUMNS), dtype=np.float32)
        back = np.arange(1 - HISTORY, 1)
        found[:, :, :QUEUE_COLUMNS] = self.snapshots[self.last[rows, None] + back]
        found[:, :, QUEUE_COLUMNS:] = chain_columns(
            self.link_nodes[rows], self.link_limit_s[rows], self.wait_s[rows], self._elapsed_s(rows)
        )
        return found

    def _elapsed_s(self, rows: Ints) -> Ints:
        found: Ints = self.link_limit_s[rows] - self.remaining_s[rows]
        return found

    def windows(self) -> Ints:
        """Shape (windows + 1,): window k is rows ``edges[k]`` to before ``edges[k + 1]``."""
        changes = (np.diff(self.window_s) != 0) | (np.diff(self.link_nodes) != 0)
        edges: Ints = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(self)]]).astype(np.int64)
        return edges


def chain_columns(nodes: Ints, limit_s: Ints, wait_s: Ints, elapsed_s: Ints, step_s: int = 600) -> Floats32:
    """Shape (rows, ``HISTORY``, 8): what snapshots tell of the chain, over the 24 hours before a decision.

    Args:
        wait_s: How long the present link had waited when it started.
        elapsed_s: How long it has run at the decision.
        step_s: Between snapshots.
    """
    back_s = np.arange(1 - HISTORY, 1) * step_s
    ran_s = elapsed_s[:, None] + back_s
    waited_s = np.clip(wait_s[:, None] + np.minimum(ran_s, 0), 0, None)
    there = wait_s[:, None] + ran_s >= 0
    found = np.zeros((len(nodes), HISTORY, 8), dtype=np.float32)
    found[:, :, 0] = found[:, :, 4] = (limit_s / 60)[:, None]
    found[:, :, 1] = found[:, :, 5] = nodes[:, None]
    found[:, :, 2] = np.where(there, waited_s, 0)
    found[:, :, 3] = np.clip(ran_s, 0, None)
    return found
