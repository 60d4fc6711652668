"""Judge of a network while it learns: closed share of the gap on the tuning slice."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from mirage.learn.networks.hand_over_network import InputBatch, Network
from mirage.learn.networks.network_inputs import ScaledHandOvers
from mirage.learn.networks.network_model import decided
from mirage.learn.networks.pretraining import INFERENCE_ROWS, batches
from mirage.learn.networks.training_loop import Figures
from mirage.learn.reinforcement.hand_over_environment import play

JUDGED_SHARES = (0.25, 0.5, 0.75)
"""Cost shares at which an epoch is judged: 1:3, 1:1, 3:1."""


def decisions(network: Network, rows: ScaledHandOvers, share: float, decides: str) -> NDArray[np.bool_]:
    """Shape (n,): the decision of a network at every row."""
    network.eval()
    found = []
    with torch.no_grad():
        for batch in batches(np.arange(len(rows)), INFERENCE_ROWS):
            at = torch.full((len(batch),), share)
            found.append(decided(network(InputBatch.of(rows.inputs(batch)), at), decides, at).numpy())
    return np.concatenate(found)


def judge(network: Network, rows: ScaledHandOvers, decides: str) -> Figures:
    """Closed share of the gap at each cost, and ``tune``: the mean share left open."""
    network.eval()
    taken: dict[float, list[NDArray[np.bool_]]] = {share: [] for share in JUDGED_SHARES}
    with torch.no_grad():
        for batch in batches(np.arange(len(rows)), INFERENCE_ROWS):
            inputs = InputBatch.of(rows.inputs(batch))
            outcome, read = network.outcome(inputs)
            for share, found in taken.items():
                at = torch.full((len(batch),), share)
                found.append(decided(network.at_cost(inputs, outcome, read, at), decides, at).numpy())
    closed = {share: play(rows.data, np.concatenate(found), share).closed for share, found in taken.items()}
    figures = {f"closed_{share:g}": value for share, value in closed.items()}
    return figures | {"tune": 1 - float(np.mean(list(closed.values())))}
