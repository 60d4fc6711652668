"""Pre-training: the distribution of the outcome at every decision, by pinball loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from mirage.array_types import Ints
from mirage.duration import HOUR_S
from mirage.learn.networks.hand_over_network import InputBatch, Network, pinball_loss
from mirage.learn.networks.network_inputs import ScaledHandOvers
from mirage.learn.networks.training_loop import Figures

INFERENCE_ROWS = 512
"""Rows of a batch in inference."""


@dataclass(frozen=True, slots=True)
class PretrainSettings:
    """Hyper-parameters.

    Attributes:
        epochs: Largest number of epochs.
        patience: Epochs without a better loss on the tuning slice, after which training stops.
        rows: Rows drawn for an epoch, without replacement.
        batch: Rows of a step.
        rate: Learning rate of AdamW, falling to zero over the epochs as a cosine.
        decay: Weight decay.
        tune_rows: Rows of the tuning slice, evenly chosen, that judge epochs.
    """

    epochs: int = 24
    patience: int = 6
    rows: int = 16_384
    batch: int = 128
    rate: float = 1e-3
    decay: float = 0.05
    tune_rows: int = 4_096


class Pretraining:
    """The learner of this stage."""

    def __init__(
        self, network: Network, data: ScaledHandOvers, tune: ScaledHandOvers, settings: PretrainSettings
    ) -> None:
        self.network: nn.Module = network
        self.modules: Mapping[str, nn.Module] = {"network": network}
        self.optimiser = torch.optim.AdamW(network.parameters(), lr=settings.rate, weight_decay=settings.decay)
        self._data, self._tune, self._settings = data, tune, settings
        self._judged = even_rows(len(tune), settings.tune_rows)

    def epoch(self, number: int, of: int, rng: np.random.Generator) -> Figures:
        """Trains for one pass over the drawn rows."""
        set_rate(self.optimiser, self._settings.rate * cosine(number, of))
        rows = rng.permutation(len(self._data))[: self._settings.rows]
        loss = 0.0
        for batch in batches(rows, self._settings.batch):
            batch_loss = self._loss(self._data, batch)
            step(self.optimiser, self.network, batch_loss)
            loss += float(batch_loss.detach()) * len(batch)
        return {"loss": loss / len(rows), "tune": self._judge()}

    def _loss(self, data: ScaledHandOvers, rows: Ints, penalised: bool = True) -> Tensor:
        inputs = InputBatch.of(data.inputs(rows))
        outcome_h, read = self.network.outcome(inputs)
        loss = pinball_loss(outcome_h, happened_h(data, rows), inputs.remaining_h)
        return loss + read.penalty if penalised else loss

    def _judge(self) -> float:
        """Pinball loss on the tuning slice."""
        self.network.eval()
        with torch.no_grad():
            losses = [
                float(self._loss(self._tune, rows, penalised=False)) * len(rows)
                for rows in batches(self._judged, INFERENCE_ROWS)
            ]
        return sum(losses) / len(self._judged)


def happened_h(data: ScaledHandOvers, rows: Ints) -> Tensor:
    """Outcomes in hours."""
    return torch.from_numpy((data.data.outcome_s[rows] / HOUR_S).astype(np.float32))


def batches(rows: Ints, size: int) -> Iterator[Ints]:
    """Consecutive batches of rows."""
    return (rows[first : first + size] for first in range(0, len(rows), size))


def even_rows(count: int, most: int) -> Ints:
    """At most ``most`` rows, evenly chosen."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))


def cosine(number: int, of: int) -> float:
    """Factor of the learning rate in an epoch: from 1 to near 0."""
    return float(0.5 * (1 + np.cos(np.pi * (number - 1) / max(of, 1))))


def set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate of the following steps."""
    for group in optimiser.param_groups:
        group["lr"] = rate


def step(optimiser: torch.optim.Optimizer, network: nn.Module, loss: Tensor, largest: float = 1.0) -> None:
    """Does one step down the gradient, with its norm clipped at ``largest``."""
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), largest)
    optimiser.step()
