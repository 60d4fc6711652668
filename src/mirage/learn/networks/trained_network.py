"""A trained network among the models that ``mirage train`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Floats
from mirage.learn.networks.model import NetworkModel, network_arrays, network_from, network_settings
from mirage.learn.networks.published import is_published
from mirage.learn.regression.model import Arrays, Flags, Seen
from mirage.policy.cost import Cost

_AT_ONCE = 512
"""Decisions that a network reads at once."""


class TrainedNetwork:
    """A network that implements ``mirage.learn.regression.model.Model``.

    Args:
        network: The trained network.
    """

    reads_history = True

    def __init__(self, network: NetworkModel) -> None:
        self.network = network
        self.inputs: tuple[str, ...] = () if is_published(network.body) else network.scaling.names

    def submits(self, seen: Seen, cost: Cost) -> Flags:
        """Where the network submits; never at a longer lead than it was trained for."""
        found: Flags = np.zeros(len(seen), dtype=np.bool_)
        late = np.flatnonzero(seen.remaining_s <= self.network.longest_lead_s)
        if len(late):
            share = cost.interruption / (cost.interruption + cost.overlap)
            found[late] = self._told(seen, late, share)["submits"]
        return found

    def told(self, seen: Seen) -> dict[str, Floats]:
        """Its answers at equal costs of interruption and overlap."""
        told = self._told(seen, np.arange(len(seen)), 0.5)
        return {name: np.asarray(values, dtype=np.float64) for name, values in told.items() if name != "submits"}

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The network's arrays, as a model file stores them."""
        return dict(network_arrays(self.network))

    def settings(self) -> dict[str, Any]:
        """The network's settings; JSON values."""
        return network_settings(self.network)

    @classmethod
    def from_arrays(cls, arrays: Arrays, settings: Mapping[str, Any]) -> Self:
        """The network stored in a model file."""
        return cls(network_from(settings, arrays))

    def _told(self, seen: Seen, rows: NDArray[np.int64], share: float) -> dict[str, NDArray[Any]]:
        """Its answers for some rows, in their order."""
        history = seen.history()
        features = seen.columns(self.inputs)
        link = np.stack([seen.remaining_s, seen.link_nodes, seen.link_limit_s, seen.wait_s], axis=1).astype(np.float32)
        parts = [
            self.network.told(history[some], features[some], link[some], share)
            for some in np.array_split(rows, -(-len(rows) // _AT_ONCE))
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
