"""Transformer encoder over the 24 hours before a decision, with layer norms before.

It follows Vaswani et al. (NeurIPS'17). The 144 snapshots become 24 tokens, one an hour, of six snapshots each; a token
of the features comes before them. Positions are learnt. The embedding is the features' token after the encoder, plus
the features themselves: what is known at the decision counts most, and attention only adds to it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mirage.learn.hand_overs import COLUMNS, HISTORY
from mirage.learn.networks.hand_over_network import BodyOutput, InputBatch

SNAPSHOTS_A_TOKEN = 6
TOKENS = HISTORY // SNAPSHOTS_A_TOKEN

FEATURES_PATH = "beside"
"""Name of the layers from the features to the embedding, past the encoder: part of the names in model files."""


class HistoryTokens(nn.Module):
    """Tokens of a batch, shape (n, 1 + ``TOKENS``, width): features first, then the hours."""

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.of_features = nn.Linear(features, width)
        self.of_hour = nn.Linear(SNAPSHOTS_A_TOKEN * COLUMNS, width)
        self.position = nn.Parameter(torch.randn(1 + TOKENS, width) * 0.02)

    def forward(self, batch: InputBatch) -> Tensor:
        """The tokens."""
        hours = batch.history.reshape(len(batch.history), TOKENS, SNAPSHOTS_A_TOKEN * COLUMNS)
        tokens = torch.cat([self.of_features(batch.features)[:, None], self.of_hour(hours)], dim=1)
        return tokens + self.position


def encoder(width: int, layers: int, heads: int, feed_forward: int, dropout: float) -> nn.TransformerEncoder:
    """PyTorch's encoder, with layer norms before attention and after the last layer."""
    layer = nn.TransformerEncoderLayer(
        width, heads, feed_forward, dropout, activation="gelu", batch_first=True, norm_first=True
    )
    return nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)


def features_path(features: int, width: int) -> nn.Sequential:
    """The layers from the features to the embedding, past the encoder."""
    return nn.Sequential(nn.Linear(features, width), nn.GELU(), nn.Linear(width, width))


class TransformerBody(nn.Module):
    """The encoder.

    Args:
        features: Width of the features.
        width: Width of tokens.
        layers: Layers of the encoder.
        heads: Heads of its attention.
        feed_forward: Width between the two linear maps of a layer.
        dropout: Dropout in the encoder, while training.
    """

    def __init__(
        self,
        features: int,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        feed_forward: int = 128,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = width
        self.tokens = HistoryTokens(features, width)
        self.encoder = encoder(width, layers, heads, feed_forward, dropout)
        self.add_module(FEATURES_PATH, features_path(features, width))

    def forward(self, batch: InputBatch) -> BodyOutput:
        """The embedding of each row."""
        encoded = self.encoder(self.tokens(batch))[:, 0]
        return BodyOutput(
            torch.nn.functional.gelu(encoded + self.get_submodule(FEATURES_PATH)(batch.features)), torch.zeros(())
        )
