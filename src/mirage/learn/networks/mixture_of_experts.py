"""Mixture of experts: small transformer encoders, weighed by a gate on the same row.

The gate is a softmax over the features and the mean of the day. Without a balancing loss, a gate tends to give one
expert everything. The loss of Fedus, Zoph & Shazeer (JMLR'22) is experts · Σ f·P, with f the share of rows that an
expert leads and P its mean weight; it is smallest (1) where all are used alike. A gate that still collapses is a
defect: usage and balance are reported, and ``check_balance`` raises an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mirage.errors import ContractBroken
from mirage.learn.hand_overs import COLUMNS
from mirage.learn.networks.hand_over_network import BodyOutput, InputBatch
from mirage.learn.networks.transformer import FEATURES_PATH, HistoryTokens, encoder, features_path

LEAST_BALANCE = 0.5
"""A gate with less balance has collapsed: it uses less than half of its experts."""


@dataclass(frozen=True, slots=True, eq=False)
class ExpertUsage:
    """Usage of the experts by a gate.

    Attributes:
        led: Shape (experts,): share of rows in which the expert has the largest weight.
        weight: Shape (experts,): mean weight.
    """

    led: NDArray[np.float64]
    weight: NDArray[np.float64]

    @property
    def balance(self) -> float:
        """Effective number of experts over their number: 1 is even.

        The effective number is exp(entropy of the mean weights).
        """
        entropy = -(self.weight * np.log(np.clip(self.weight, 1e-12, None))).sum()
        return float(np.exp(entropy) / len(self.weight))


class MixtureBody(nn.Module):
    """Experts and their gate.

    Args:
        features: Width of the features.
        experts: Number of experts.
        width: Width of tokens.
        layers: Layers of each expert's encoder.
        heads: Heads of its attention.
        feed_forward: Width between the two linear maps of a layer.
        dropout: Dropout in the encoders, while training.
        balancing: Weight of the balancing loss.
    """

    def __init__(
        self,
        features: int,
        experts: int = 4,
        width: int = 48,
        layers: int = 1,
        heads: int = 4,
        feed_forward: int = 96,
        dropout: float = 0.0,
        balancing: float = 0.02,
    ) -> None:
        super().__init__()
        self.width, self.balancing = width, balancing
        self.tokens = HistoryTokens(features, width)
        self.experts = nn.ModuleList(encoder(width, layers, heads, feed_forward, dropout) for _ in range(experts))
        self.gate = nn.Sequential(nn.Linear(features + COLUMNS, 32), nn.GELU(), nn.Linear(32, experts))
        self.add_module(FEATURES_PATH, features_path(features, width))

    def weights(self, batch: InputBatch) -> Tensor:
        """Shape (n, experts): the weights that the gate gives to the experts."""
        day = torch.cat([batch.features, batch.history.mean(dim=1)], dim=1)
        return torch.softmax(self.gate(day), dim=1)

    def forward(self, batch: InputBatch) -> BodyOutput:
        """The embedding of each row, and the balancing loss."""
        weights, tokens = self.weights(batch), self.tokens(batch)
        encoded = torch.stack([expert(tokens)[:, 0] for expert in self.experts], dim=1)
        mixed = (weights[:, :, None] * encoded).sum(dim=1)
        embedding = torch.nn.functional.gelu(mixed + self.get_submodule(FEATURES_PATH)(batch.features))
        return BodyOutput(embedding, self.balancing * balancing_loss(weights))


def balancing_loss(weights: Tensor) -> Tensor:
    """Experts · Σ f·P: 1 for even use, the number of experts where one does everything."""
    experts = weights.shape[1]
    led = torch.bincount(weights.argmax(dim=1), minlength=experts).to(weights.dtype) / len(weights)
    return experts * (led * weights.mean(dim=0)).sum()


def expert_usage(body: MixtureBody, batches: Iterable[InputBatch]) -> ExpertUsage:
    """Usage of the experts over batches of rows."""
    with torch.no_grad():
        weights = torch.cat([body.weights(batch) for batch in batches]).double()
    led = torch.bincount(weights.argmax(dim=1), minlength=weights.shape[1]) / len(weights)
    return ExpertUsage(led.double().numpy(), weights.mean(dim=0).numpy())


def check_balance(usage: ExpertUsage) -> None:
    """Rejects a gate that has collapsed.

    Raises:
        ContractBroken: The gate has collapsed.
    """
    if usage.balance < LEAST_BALANCE:
        weights = ", ".join(f"{weight:.2f}" for weight in usage.weight)
        raise ContractBroken(
            f"the gate has collapsed: mean weights {weights}, balance {usage.balance:.2f} of 1; "
            "train with more weight on the balancing loss"
        )
