"""Deep Q-network on hand-overs: double, n-step, with a slow target network.

Double Q-learning is that of van Hasselt et al., AAAI'16. States are aligned: a row holds the inputs at the decision,
and the outcome of submitting there is known, whether it was chosen or not. So the data is the replay memory, and
nothing has to be explored. For every row in a stretch of consecutive ones, Q(submit) learns the outcome that happened.
Q(wait) learns the result of the online network's own decisions in the rows after it: the outcome where it submits
within the stretch, else the target network's value at its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mirage.array_types import Floats, Ints
from mirage.learn.networks.hand_over_network import COST_UNIT_H, SUBMITS, WAITS, InputBatch, Network, pinball_loss
from mirage.learn.networks.network_inputs import ScaledHandOvers
from mirage.learn.networks.network_model import DQN
from mirage.learn.networks.pretraining import cosine, happened_h, set_rate, step
from mirage.learn.networks.training_loop import Figures
from mirage.learn.reinforcement.hand_over_environment import cost_h, draw_shares, last_rows, some_windows
from mirage.learn.reinforcement.network_validation import judge


@dataclass(frozen=True, slots=True)
class DqnSettings:
    """Hyper-parameters.

    Attributes:
        epochs: Largest number of epochs.
        patience: Epochs without a better judgement, after which training stops.
        steps: Steps of the optimiser in an epoch.
        stretches: Stretches of consecutive rows in a batch.
        n_step: Rows after a decision before the target network's value replaces the rest.
        stride: Distance of a stretch's rows in the data: decisions every ``stride`` rows.
        rate: Learning rate of AdamW, falling over the epochs as a cosine.
        decay: Weight decay.
        tau: Share of the online weights that the target network takes over in a step.
        quantiles: Weight of the pinball loss next to the Bellman error: the distribution stays true.
        tune_rows: Rows of the tuning slice that judge epochs.
        tune_every: Stride of the decisions that are used, counted from the end of a window.
    """

    epochs: int = 12
    patience: int = 5
    steps: int = 128
    stretches: int = 32
    n_step: int = 7
    stride: int = 1
    rate: float = 3e-4
    decay: float = 0.05
    tau: float = 0.01
    quantiles: float = 1.0
    tune_rows: int = 8_192
    tune_every: int = 3


class DqnLearning:
    """The learner of this stage."""

    def __init__(self, network: Network, data: ScaledHandOvers, tune: ScaledHandOvers, settings: DqnSettings) -> None:
        self.target = deepcopy(network).requires_grad_(False)
        self.network: nn.Module = network
        self.modules: Mapping[str, nn.Module] = {"network": network, "target": self.target}
        self.optimiser = torch.optim.AdamW(network.parameters(), lr=settings.rate, weight_decay=settings.decay)
        self._data, self._settings = data, settings
        self._last = last_rows(data.data)
        self._judged = tune.only(some_windows(tune.data, settings.tune_rows, settings.tune_every))

    def epoch(self, number: int, of: int, rng: np.random.Generator) -> Figures:
        """Trains for the configured number of steps."""
        set_rate(self.optimiser, self._settings.rate * cosine(number, of))
        self.target.eval()
        losses = np.zeros(2)
        for _ in range(self._settings.steps):
            bellman, quantiles, penalty = self._loss(*self._draw(rng))
            step(self.optimiser, self.network, bellman + self._settings.quantiles * quantiles + penalty)
            self._follow()
            losses += float(bellman.detach()), float(quantiles.detach())
        bellman_loss, quantile_loss = losses / self._settings.steps
        figures = {"bellman": float(bellman_loss), "quantiles": float(quantile_loss)}
        return {**figures, **judge(self.network, self._judged, DQN)}

    def _draw(self, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Draws stretches of rows, shape (stretches, n_step + 1), and their costs.

        The last row of a window is repeated.
        """
        first = rng.integers(len(self._data), size=self._settings.stretches)
        ahead = np.arange(self._settings.n_step + 1) * self._settings.stride
        rows: Ints = np.minimum(first[:, None] + ahead, self._last[first][:, None])
        return rows, draw_shares(rng, len(first))

    def _loss(self, rows: Ints, shares: Floats) -> tuple[Tensor, Tensor, Tensor]:
        """Bellman error, pinball loss and penalty of a batch of stretches."""
        flat = rows.reshape(-1)
        inputs = InputBatch.of(self._data.inputs(flat))
        share = torch.from_numpy(np.repeat(shares, rows.shape[1]).astype(np.float32))
        output = self.network(inputs, share)
        with torch.no_grad():
            slow = self.target(inputs, share).q.reshape(*rows.shape, 2)
        submitted = -cost_h(self._data.data.outcome_s[rows], shares[:, None]) / COST_UNIT_H
        exact = torch.from_numpy(submitted.astype(np.float32))
        ends = torch.from_numpy(rows == self._last[rows])
        q = output.q.reshape(*rows.shape, 2)
        waited = n_step_values(q.detach(), slow, exact, ends)
        again = torch.from_numpy(np.diff(rows, axis=1, prepend=-1) == 0)  # repetitions of the last row do not count
        of_submitting = _mean_error(q[..., SUBMITS], exact, ~again)
        of_waiting = _mean_error(q[:, :-1, WAITS], waited, ~ends[:, :-1])
        quantiles = pinball_loss(output.outcome_h, happened_h(self._data, flat), inputs.remaining_h)
        return of_submitting + of_waiting, quantiles, output.penalty

    def _follow(self) -> None:
        """Moves the target network one step towards the online one."""
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.network.parameters()):
                slow.lerp_(fast, self._settings.tau)


def n_step_values(online: Tensor, target: Tensor, exact: Tensor, ends: Tensor) -> Tensor:
    """Value of waiting at all but the last row of each stretch, shape (stretches, rows − 1).

    Args:
        online: Q-values of the online network, shape (stretches, rows, 2): it chooses.
        target: Q-values of the target network: its value of waiting replaces what lies beyond the stretch.
        exact: Shape (stretches, rows): minus the cost of submitting, as it happened.
        ends: Shape (stretches, rows): where the present link has ended, and only submitting is left.
    """
    submits = ends | (online[..., SUBMITS] >= online[..., WAITS])
    value = torch.where(submits[:, -1], exact[:, -1], target[:, -1, WAITS])
    values = [value]
    for k in range(online.shape[1] - 2, 0, -1):
        value = torch.where(submits[:, k], exact[:, k], value)
        values.append(value)
    return torch.stack(values[::-1], dim=1)


def _mean_error(predicted: Tensor, wanted: Tensor, counts: Tensor) -> Tensor:
    """Mean Huber loss over the entries that count.

    It is quadratic up to six times the unit, so means are learnt, not medians.
    """
    errors = functional.huber_loss(predicted, wanted, reduction="none", delta=6.0)
    return (errors * counts).sum() / counts.sum().clamp(min=1)
