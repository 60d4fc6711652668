"""The networks of Mirage (SC'23) as published; their names end in ``-2023``.

They read the 144 × 42 history as it is, not normalised, and return the outcome in hours. "DQN" is regression: a link is
submitted where −0.5 h ≤ outcome ≤ 500 h. "Policy gradient" is REINFORCE on a linear layer over the outcomes that the
frozen network predicts.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mirage.learn.hand_overs import COLUMNS, HISTORY

WIDTH, HEADS, FEED_FORWARD, DROPOUT = 512, 2, 128, 0.1
LAYERS, EXPERTS, GATE = 2, 10, 32
SUBMIT_H = (-0.5, 500.0)
"""A link is submitted where the predicted outcome lies between these."""


class PublishedTransformer(nn.Module):
    """Encoder without positions, flattened into one number: 2.46 M weights with two layers.

    Args:
        layers: Layers of the encoder.
        heads: Heads of its attention.
        width: Width of a snapshot in it; the published one except in tests.
    """

    def __init__(self, layers: int = LAYERS, heads: int = HEADS, width: int = WIDTH) -> None:
        super().__init__()
        self.embedding = nn.Linear(COLUMNS, width)
        layer = nn.TransformerEncoderLayer(width, heads, FEED_FORWARD, DROPOUT, activation="relu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.outcome = nn.Linear(HISTORY * width, 1)

    def forward(self, history: Tensor) -> Tensor:
        """Shape (n, 1): outcome in hours for histories (n, ``HISTORY``, ``COLUMNS``)."""
        return self.outcome(self.encoder(self.embedding(history)).flatten(1))

    def parts(self, history: Tensor) -> Tensor:
        """The input of the policy's linear layer: here the outcome itself."""
        return self(history)


class PublishedMixture(nn.Module):
    """Ten such encoders with one layer and one head each, weighed by a gate: 13.0 M weights.

    The gate is linear on the flat history.
    """

    def __init__(self, experts: int = EXPERTS, width: int = WIDTH) -> None:
        super().__init__()
        self.experts = nn.ModuleList(PublishedTransformer(1, 1, width) for _ in range(experts))
        self.gate = nn.Sequential(nn.Linear(HISTORY * COLUMNS, GATE), nn.Linear(GATE, experts), nn.Softmax(dim=1))

    def parts(self, history: Tensor) -> Tensor:
        """Shape (n, experts): the outcome that each predicts."""
        return torch.cat([expert(history) for expert in self.experts], dim=1)

    def forward(self, history: Tensor) -> Tensor:
        """Shape (n, 1): outcome in hours, weighed by the gate."""
        return (self.gate(history.flatten(1)) * self.parts(history)).sum(dim=1, keepdim=True)


class PublishedPolicy(nn.Module):
    """A linear layer over a frozen network's predictions: logits of waiting and submitting."""

    def __init__(self, frozen: PublishedTransformer | PublishedMixture) -> None:
        super().__init__()
        self.frozen = frozen.requires_grad_(False)
        self.action = nn.Linear(len(frozen.experts) if isinstance(frozen, PublishedMixture) else 1, 2)

    def forward(self, history: Tensor) -> Tensor:
        """Shape (n, 2)."""
        with torch.no_grad():
            parts = self.frozen.parts(history)
        return self.action(parts)


def is_published(body: str) -> bool:
    """Whether a name is that of a published body."""
    return body.endswith("-2023")


def submits_by_regression(outcome_h: Tensor) -> Tensor:
    """Applies the published rule to predicted outcomes."""
    least, most = SUBMIT_H
    return (outcome_h >= least) & (outcome_h <= most)


def weights_of(network: nn.Module) -> int:
    """Number of weights of a network."""
    return sum(weights.numel() for weights in network.parameters())
