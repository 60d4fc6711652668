"""Perceptron over features and latest snapshot, the smallest body.

It is for small environments and comparisons.
"""

from __future__ import annotations

import torch
from torch import nn

from mirage.learn.hand_overs import COLUMNS
from mirage.learn.networks.hand_over_network import BodyOutput, InputBatch


class PerceptronBody(nn.Module):
    """Two layers.

    Args:
        features: Width of the features.
        width: Width of both layers.
    """

    def __init__(self, features: int, width: int = 64) -> None:
        super().__init__()
        self.width = width
        self.layers = nn.Sequential(nn.Linear(features + COLUMNS, width), nn.GELU(), nn.Linear(width, width), nn.GELU())

    def forward(self, batch: InputBatch) -> BodyOutput:
        """The embedding of each row."""
        latest = torch.cat([batch.features, batch.history[:, -1]], dim=1)
        return BodyOutput(self.layers(latest), torch.zeros(()))
