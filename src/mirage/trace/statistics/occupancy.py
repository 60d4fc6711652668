"""Busy nodes over time: an exact step function, its means, peaks and quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from mirage.array_types import Ints
from mirage.trace.table import JobTable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Busy nodes over time.

    Attributes:
        time_s: Shape (k,), ascending: the instants at which the number changes.
        busy: Shape (k,): nodes busy from that instant on; the last is 0.
    """

    time_s: Ints
    busy: Ints

    @classmethod
    def of(cls, table: JobTable) -> Self:
        """Returns the nodes held by all jobs with known start, end and nodes."""
        held = (table.start_s >= 0) & (table.end_s > table.start_s) & (table.nodes > 0)
        nodes = table.nodes[held]
        time_s, place = np.unique(np.concatenate([table.start_s[held], table.end_s[held]]), return_inverse=True)
        change = np.zeros(len(time_s), dtype=np.int64)
        np.add.at(change, place, np.concatenate([nodes, -nodes]))
        return cls(time_s, np.cumsum(change))

    def __bool__(self) -> bool:
        return len(self.time_s) > 0

    def node_seconds_until(self, instant_s: Ints) -> Floats:
        """Node-seconds held before each instant."""
        so_far = np.concatenate([[0], np.cumsum(self.busy[:-1] * np.diff(self.time_s))])
        held: Floats = np.interp(instant_s, self.time_s, so_far)
        return held

    def mean(self, edge_s: Ints) -> Floats:
        """Mean of busy nodes between each edge and the next, shape (edges - 1,)."""
        return np.diff(self.node_seconds_until(edge_s)) / np.diff(edge_s)

    def peak(self, edge_s: Ints) -> Ints:
        """Most busy nodes at once between each edge and the next, shape (edges - 1,)."""
        instants = np.sort(np.concatenate([self.time_s, edge_s]))
        place = np.searchsorted(self.time_s, instants, side="right") - 1
        busy = np.where(place >= 0, self.busy[place], 0)
        begins = np.searchsorted(instants, edge_s)
        peaks: Ints = np.maximum.reduceat(busy[: begins[-1]], begins[:-1])
        return peaks

    def quantile(self, share: float) -> int:
        """Number of nodes that was not exceeded for this share of the time."""
        length_s = np.diff(self.time_s)
        order = np.argsort(self.busy[:-1], kind="stable")
        reached = np.cumsum(length_s[order])
        place = np.searchsorted(reached, share * reached[-1])
        return int(self.busy[:-1][order][min(place, len(order) - 1)])
