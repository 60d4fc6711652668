"""A trained network among the models that ``mirage train`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.job_state import Floats
from mirage.learn.networks.network_model import NetworkModel, network_arrays, network_from, network_settings
from mirage.learn.networks.published_networks import is_published
from mirage.learn.regression.model_contract import Arrays, DecisionInputs, Flags
from mirage.policy.cost import Cost

_AT_ONCE = 512
"""Decisions that a network reads at once."""


class TrainedNetwork:
    """A network that implements ``mirage.learn.regression.model_contract.Model``.

    Args:
        network: The trained network.
    """

    def __init__(self, network: NetworkModel) -> None:
        self.network = network
        self.inputs: tuple[str, ...] = () if is_published(network.body) else network.scaling.names

    def submits(self, decisions: DecisionInputs, cost: Cost) -> Flags:
        """Where the network submits; never at a longer lead than it was trained for."""
        found: Flags = np.zeros(len(decisions), dtype=np.bool_)
        late = np.flatnonzero(decisions.remaining_s <= self.network.longest_lead_s)
        if len(late):
            share = cost.interruption / (cost.interruption + cost.overlap)
            found[late] = self._outputs(decisions, late, share)["submits"]
        return found

    def estimates(self, decisions: DecisionInputs) -> dict[str, Floats]:
        """Its answers at equal costs of interruption and overlap."""
        estimates = self._outputs(decisions, np.arange(len(decisions)), 0.5)
        return {name: np.asarray(values, dtype=np.float64) for name, values in estimates.items() if name != "submits"}

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

    def _outputs(self, decisions: DecisionInputs, rows: NDArray[np.int64], share: float) -> dict[str, NDArray[Any]]:
        """Its answers for some rows, in their order."""
        history = decisions.history()
        features = decisions.columns(self.inputs)
        link = np.stack(
            [decisions.remaining_s, decisions.link_nodes, decisions.link_limit_s, decisions.wait_s], axis=1
        ).astype(np.float32)
        parts = [
            self.network.estimates(history[some], features[some], link[some], share)
            for some in np.array_split(rows, -(-len(rows) // _AT_ONCE))
        ]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
