"""The trainings of Mirage (SC'23) as published: regression of the outcome, and REINFORCE.

REINFORCE trains a linear layer. Known differences, all in favour of the published methods: the inputs are those at the
decision, not at the start of the next link; every decision's outcome is exact; and a regression takes the epoch that is
best on later decisions, not the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from mirage.array_types import Floats, Ints
from mirage.duration import HOUR_S
from mirage.learn.hand_overs import HandOvers
from mirage.learn.networks.pretraining import batches, even_rows
from mirage.learn.networks.published_networks import PublishedMixture, PublishedPolicy, PublishedTransformer
from mirage.learn.networks.training_loop import Figures
from mirage.learn.reinforcement.hand_over_environment import SUBMIT, last_rows

DISCOUNT, ENTROPY, RATE, EPISODES = 0.99, 0.1, 0.01, 32
REWARD_AN_HOUR = 60.0
_SURE = 500.0
"""Logit beyond which an action is certain; the exponential of a larger one would overflow."""

PROBES, APART_S = 7, 8 * HOUR_S
"""Samples of a window: their number and the time between them; the last is at its end."""

INFERENCE_ROWS = 64

JUDGED_ROWS = 128
"""Rows of the tuning slice that judge every epoch."""


@dataclass(frozen=True, slots=True)
class RegressionSettings:
    """Hyper-parameters of one regression.

    Attributes:
        rate: Learning rate of Adam.
        batch: Rows of a step.
        squared: Whether errors are squared (mixture of experts) or absolute (transformer).
    """

    rate: float
    batch: int
    squared: bool


OF_TRANSFORMER = RegressionSettings(1e-4, 128, False)
OF_MIXTURE = RegressionSettings(1e-5, 64, True)


class RegressionLearning:
    """Regression of the outcome in hours from raw histories."""

    def __init__(
        self,
        network: PublishedTransformer | PublishedMixture,
        data: HandOvers,
        rows: Ints,
        tune: HandOvers,
        settings: RegressionSettings,
    ) -> None:
        self.network: nn.Module = network
        self.modules: Mapping[str, nn.Module] = {"network": network}
        self.optimiser = torch.optim.Adam(network.parameters(), lr=settings.rate)
        self._data, self._rows, self._tune, self._settings = data, rows, tune, settings
        self._judged = even_rows(len(tune), JUDGED_ROWS)

    def epoch(self, number: int, of: int, rng: np.random.Generator) -> Figures:
        """Trains for one pass over the samples."""
        total = 0.0
        for rows in batches(rng.permutation(self._rows), self._settings.batch):
            loss = self._loss(self._data, rows)
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
            total += float(loss.detach()) * len(rows)
        self.network.eval()
        with torch.no_grad():
            judged = [float(self._loss(self._tune, rows)) * len(rows) for rows in batches(self._judged, INFERENCE_ROWS)]
        return {"loss": total / len(self._rows), "tune": sum(judged) / len(self._judged)}

    def _loss(self, data: HandOvers, rows: Ints) -> Tensor:
        happened_h = torch.from_numpy((data.outcome_s[rows] / HOUR_S).astype(np.float32))
        predicted = self.network(torch.from_numpy(data.history(rows)))[:, 0]
        return (
            functional.mse_loss(predicted, happened_h)
            if self._settings.squared
            else functional.l1_loss(predicted, happened_h)
        )


class ReinforceLearning:
    """REINFORCE: each epoch is a batch of episodes and one step of the linear layer.

    The frozen network's predictions never change, so they are computed once a row.
    """

    def __init__(self, network: PublishedPolicy, data: HandOvers) -> None:
        self.network: nn.Module = network
        self.modules: Mapping[str, nn.Module] = {"network": network}
        self.optimiser = torch.optim.Adam(network.action.parameters(), lr=RATE)
        self._data, self._first, self._last = data, data.windows()[:-1], last_rows(data)
        self._parts = torch.full((len(data), network.action.in_features), torch.nan)

    def epoch(self, number: int, of: int, rng: np.random.Generator) -> Figures:
        """Trains on one batch; ``tune`` always falls, as the last weights are used."""
        self.network.frozen.eval()
        rows, logits, actions = self._play(rng)
        log_prob = functional.log_softmax(logits, dim=2)
        chosen = log_prob.gather(2, actions[:, :, None])[:, :, 0]
        reward = -REWARD_AN_HOUR * np.abs(self._data.outcome_s[rows.max(axis=0)] / HOUR_S)
        weight, is_step = _weights(rows, reward)
        gained = (chosen * torch.from_numpy(weight)).sum(dim=0).mean()
        entropy = (-(log_prob.exp() * log_prob).sum(dim=2) * is_step).sum() / is_step.sum()
        self.optimiser.zero_grad()
        (-gained - ENTROPY * entropy).backward()
        self.optimiser.step()
        return {"reward": float(reward.mean()), "entropy": float(entropy.detach()), "tune": -float(number)}

    def _play(self, rng: np.random.Generator) -> tuple[Ints, Tensor, Tensor]:
        """Plays episodes in parallel: rows (−1 after an end), logits, actions.

        Each has shape (steps, episodes).
        """
        at = self._first[rng.integers(len(self._first), size=EPISODES)]
        rows, logits, actions = [], [], []
        plays = np.ones(EPISODES, dtype=np.bool_)
        while plays.any():
            step_logits = torch.zeros(EPISODES, 2)
            step_logits[torch.from_numpy(plays)] = self.network.action(self._predicted(at[plays]))
            logit = np.diff(step_logits.detach().numpy().astype(np.float64), axis=1)[:, 0]
            odds = np.exp(np.minimum(logit, _SURE))
            submits = (rng.random(EPISODES) < odds / (1 + odds)) | (at == self._last[at])
            rows.append(np.where(plays, at, -1))
            logits.append(step_logits)
            actions.append(np.where(submits, SUBMIT, 1 - SUBMIT))
            plays = plays & ~submits
            at = np.where(plays, at + 1, at)
        return np.array(rows), torch.stack(logits), torch.from_numpy(np.array(actions))

    def _predicted(self, rows: Ints) -> Tensor:
        """The frozen network's predictions for rows, shape (n, parts).

        Rows are predicted in the same batches whatever the order of requests, so a training that is resumed after a
        kill predicts the same values to the last bit.
        """
        for batch in np.unique(rows[self._parts[rows, 0].isnan().numpy()] // INFERENCE_ROWS):
            batch_rows = np.arange(batch * INFERENCE_ROWS, min((batch + 1) * INFERENCE_ROWS, len(self._data)))
            with torch.no_grad():
                self._parts[batch_rows] = self.network.frozen.parts(torch.from_numpy(self._data.history(batch_rows)))
        return self._parts[rows]


def _weights(rows: Ints, reward: Floats) -> tuple[Floats, Tensor]:
    """Discounted future reward minus the mean reward so far, and a mask of existing steps."""
    is_step = rows >= 0
    steps = is_step.sum(axis=0)
    to_come = steps - 1 - np.arange(len(rows))[:, None]
    weight = np.where(is_step, reward * DISCOUNT ** np.maximum(to_come, 0), 0.0)
    weight[steps - 1, np.arange(rows.shape[1])] -= reward / steps
    return weight.astype(np.float32), torch.from_numpy(is_step)


def probes(data: HandOvers) -> Ints:
    """Rows of the samples: up to ``PROBES`` a window, ``APART_S`` apart, from its end back."""
    edges = data.windows()
    found = []
    for first, last in zip(edges[:-1], edges[1:] - 1):
        wanted_s = data.remaining_s[last] + np.arange(PROBES) * APART_S
        wanted_s = wanted_s[wanted_s <= data.remaining_s[first]]
        nearest = np.abs(data.remaining_s[first : last + 1, None] - wanted_s).argmin(axis=0)
        found.append(first + np.unique(nearest))
    rows: Ints = np.concatenate(found)
    return rows
