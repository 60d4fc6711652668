"""TROUT's two networks, with its published layers and settings, on Graham's columns.

A classifier predicts whether a job waits over 10 minutes; a second network predicts the minutes of those that do.
Layers 64, 48 and 32 wide with batch normalisation, ELU and dropout, smooth L1 loss of the minutes, Adam, 50 epochs of
batches of 64. There are three differences. The inputs are Graham's columns, with log1p as published, not the 33 inputs
of Anvil. Oversampling is a weight in the loss: the published one came before the split into training and validation,
and so had copies of one job on both sides. The classifier has the layers of the regression, because its own are not
published. Needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mirage.array_types import Floats
from mirage.duration import MINUTE_S
from mirage.predict.waits.wait_sample import WaitSample
from wait_references import CLASSIFIED_S, joined_stages

WIDTHS = (64, 48, 32)
DROPOUT, STEP, BATCH, EPOCHS = 0.2, 1e-3, 64, 50

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def trout_networks(sample: WaitSample, first: int, *, seed: int = 0, epochs: int = EPOCHS) -> Floats:
    """log10 of the waits in seconds, of the rows from ``first`` on, learnt from those before."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    inputs = np.nan_to_num(np.sign(sample.inputs) * np.log1p(np.abs(sample.inputs)))
    before, after = inputs[:first], inputs[first:]
    long = sample.waited_s[:first] >= CLASSIFIED_S
    balanced = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(float((~long).sum() / long.sum())))
    classifier = _trained(before, long, balanced, epochs)
    minutes = sample.waited_s[:first][long] / MINUTE_S
    regressor = _trained(before[long], minutes, nn.SmoothL1Loss(), epochs)
    return joined_stages(sample, first, _predicted(classifier, after) > 0.0, _predicted(regressor, after))


def _network(inputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in WIDTHS:
        layers += [nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ELU(), nn.Dropout(DROPOUT)]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


def _trained(inputs: NDArray[np.float32], target: NDArray[np.generic], loss: Loss, epochs: int) -> nn.Sequential:
    network = _network(inputs.shape[1])
    optimizer = torch.optim.Adam(network.parameters(), lr=STEP)
    rows, wanted = torch.tensor(inputs), torch.tensor(target.astype(np.float32))
    network.train()
    for _ in range(epochs):
        for batch in torch.randperm(len(rows)).split(BATCH):
            if len(batch) == 1:  # of which there is no variance to normalise by
                continue
            optimizer.zero_grad()
            loss(network(rows[batch])[:, 0], wanted[batch]).backward()
            optimizer.step()
    return network.eval()


def _predicted(network: nn.Sequential, inputs: NDArray[np.float32]) -> Floats:
    with torch.no_grad():
        return np.asarray(network(torch.tensor(inputs))[:, 0].numpy(), dtype=np.float64)
