"""Hand-overs: possible decisions, the inputs at each, and the outcome of submitting there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints

Floats32 = NDArray[np.float32]

HISTORY = 144
"""Snapshots that a network reads: 24 hours, one every ten minutes (Mirage, SC'23)."""

QUEUE_COLUMNS = 34
"""Columns of a snapshot that describe the queue; eight more describe the chain."""

COLUMNS = QUEUE_COLUMNS + 8
"""Columns of a snapshot: those of the queue, then limit (min), nodes, wait (s) and elapsed run (s) of the present link,
then the same four of the next one, which has neither waited nor run (Mirage, SC'23)."""


ROW_COLUMNS = ("window_s", "link_nodes", "link_limit_s", "wait_s", "time_s", "remaining_s", "outcome_s")
"""Integer columns of hand-overs, one value a row."""


@dataclass(frozen=True, slots=True, eq=False)
class HandOvers:
    """Decisions about hand-overs, n rows, ordered by link size, window and time.

    A *window* is one hand-over: a present link of one size, from its start to its end. Its last decision is at the end.

    Attributes:
        window_s: Shape (n,): submission of the window's present link.
        link_nodes: Shape (n,): size of the links.
        link_limit_s: Shape (n,): time limit of the links.
        wait_s: Shape (n,): wait of the present link.
        time_s: Shape (n,): time of the decision.
        remaining_s: Shape (n,): time from the decision to the end of the present link; 0 in a window's last row.
        outcome_s: Shape (n,): start of the next link minus end of the present one if submitted then; positive where
            the chain is interrupted, negative where links overlap.
        features: Shape (n, features): the input of a model of few numbers, in the order of ``names``; NaN where
            unknown.
        names: Names of the features.
        snapshots: Shape (m, ``QUEUE_COLUMNS``): the queue every ten minutes.
        last: Shape (n,): row of ``snapshots`` that shows the queue at the decision; with the ``HISTORY`` − 1 rows
            before it, it covers the last 24 hours.
        repeats: Shape (n, repeats): how often users repeat their requests; None where the data do not have it.
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
        """Selects rows; snapshots are shared."""
        values = {name: getattr(self, name)[rows] for name in (*ROW_COLUMNS, "features")}
        repeats = None if self.repeats is None else self.repeats[rows]
        return type(self)(**values, names=self.names, snapshots=self.snapshots, last=self.last[rows], repeats=repeats)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Concatenates several data sets, row after row; all must have the same features.

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
    def has_repeats(self) -> bool:
        """Whether some decision knows how often users repeat their requests."""
        return self.repeats is not None and bool(np.isfinite(self.repeats).any())

    @property
    def next_start_s(self) -> Ints:
        """Shape (n,): start of the next link if submitted at the decision."""
        return self.time_s + self.remaining_s + self.outcome_s

    def column(self, name: str) -> Floats32:
        """Shape (n,): one feature."""
        found: Floats32 = self.features[:, self.names.index(name)]
        return found

    def history(self, rows: Ints) -> Floats32:
        """Shape (rows, ``HISTORY``, ``COLUMNS``): the 24 hours before some decisions.

        The layout is that of ``mirage-2023``. In earlier snapshots the elapsed run of the present link is shorter by
        the time between; before its start, its wait is.
        """
        found = np.zeros((len(rows), HISTORY, COLUMNS), dtype=np.float32)
        back = np.arange(1 - HISTORY, 1)
        found[:, :, :QUEUE_COLUMNS] = self.snapshots[self.last[rows, None] + back]
        elapsed_s = self.link_limit_s[rows] - self.remaining_s[rows]
        found[:, :, QUEUE_COLUMNS:] = chain_columns(
            self.link_nodes[rows], self.link_limit_s[rows], self.wait_s[rows], elapsed_s
        )
        return found

    def windows(self) -> Ints:
        """Shape (windows + 1,): window k has the rows ``edges[k]`` to ``edges[k + 1] - 1``."""
        changes = (np.diff(self.window_s) != 0) | (np.diff(self.link_nodes) != 0)
        edges: Ints = np.concatenate([[0], np.flatnonzero(changes) + 1, [len(self)]]).astype(np.int64)
        return edges


def chain_columns(nodes: Ints, limit_s: Ints, wait_s: Ints, elapsed_s: Ints, step_s: int = 600) -> Floats32:
    """Shape (rows, ``HISTORY``, 8): the chain's columns in the 24 hours before a decision.

    Args:
        wait_s: Wait of the present link before its start.
        elapsed_s: Elapsed run of the present link at the decision.
        step_s: Time between two snapshots.
    """
    back_s = np.arange(1 - HISTORY, 1) * step_s
    ran_s = elapsed_s[:, None] + back_s
    waited_s = np.clip(wait_s[:, None] + np.minimum(ran_s, 0), 0, None)
    submitted = wait_s[:, None] + ran_s >= 0
    found = np.zeros((len(nodes), HISTORY, 8), dtype=np.float32)
    found[:, :, 0] = found[:, :, 4] = (limit_s / 60)[:, None]
    found[:, :, 1] = found[:, :, 5] = nodes[:, None]
    found[:, :, 2] = np.where(submitted, waited_s, 0)
    found[:, :, 3] = np.clip(ran_s, 0, None)
    return found
