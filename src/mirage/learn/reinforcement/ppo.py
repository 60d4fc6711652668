"""Proximal policy optimisation on hand-overs: clipped, with generalised advantages (GAE).

The method is that of Schulman et al., 2017. A reward comes once, at the end of a window, and is not discounted. Where
waiting is not allowed the decision is masked: it has no probability to change, and takes no part in the loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from mirage.array_types import Floats, Ints
from mirage.learn.networks.hand_over_network import COST_UNIT_H, InputBatch, Network, pinball_loss
from mirage.learn.networks.network_inputs import ScaledHandOvers
from mirage.learn.networks.network_model import PPO
from mirage.learn.networks.pretraining import batches, cosine, happened_h, set_rate, step
from mirage.learn.networks.training_loop import Figures
from mirage.learn.reinforcement.hand_over_environment import SUBMIT, WAIT, HandOverEnv, some_windows
from mirage.learn.reinforcement.network_validation import judge


@dataclass(frozen=True, slots=True)
class PpoSettings:
    """Hyper-parameters.

    Attributes:
        epochs: Largest number of epochs.
        patience: Epochs without a better judgement, after which training stops.
        rounds: Rounds of playing and learning in an epoch.
        environments: Number of environments played in parallel.
        horizon: Steps of each environment in a round.
        passes: Passes over a round's data.
        batch: Rows of a step of the optimiser.
        rate: Learning rate of AdamW, falling over the epochs as a cosine.
        decay: Weight decay.
        trace: λ of the advantages.
        clip: Largest change of the ratio of probabilities.
        value: Weight of the value's loss.
        entropy: Weight of the entropy bonus, falling with the rate.
        quantiles: Weight of the pinball loss: the distribution stays true.
        tune_rows: Rows of the tuning slice that judge epochs.
        tune_every: Stride of the decisions that are used, counted from the end of a window.
    """

    epochs: int = 12
    patience: int = 5
    rounds: int = 4
    environments: int = 64
    horizon: int = 32
    passes: int = 2
    batch: int = 256
    rate: float = 3e-4
    decay: float = 0.01
    trace: float = 0.95
    clip: float = 0.2
    value: float = 0.5
    entropy: float = 0.01
    quantiles: float = 0.5
    tune_rows: int = 8_192
    tune_every: int = 3


class Rollout(NamedTuple):
    """Played steps, flat: rows, costs, actions, whether there was a choice, and targets."""

    rows: Ints
    shares: Floats
    actions: Ints
    choice: NDArray[np.bool_]
    log_prob: Floats
    advantage: Floats
    value: Floats

    def of(self, rows: Ints) -> Rollout:
        """Selects some of the steps."""
        return Rollout._make(part[rows] for part in self)


class PpoLearning:
    """The learner of this stage."""

    def __init__(self, network: Network, data: ScaledHandOvers, tune: ScaledHandOvers, settings: PpoSettings) -> None:
        self.network: nn.Module = network
        self.modules: Mapping[str, nn.Module] = {"network": network}
        self.optimiser = torch.optim.AdamW(network.parameters(), lr=settings.rate, weight_decay=settings.decay)
        self._data, self._settings = data, settings
        self._judged = tune.only(some_windows(tune.data, settings.tune_rows, settings.tune_every))

    def epoch(self, number: int, of: int, rng: np.random.Generator) -> Figures:
        """Trains for the configured number of rounds, in new windows."""
        left = cosine(number, of)
        set_rate(self.optimiser, self._settings.rate * left)
        env = HandOverEnv(self._data.data, self._settings.environments, rng)
        figures = np.zeros(3)
        for _ in range(self._settings.rounds):
            played, reward_h = self._play(env, rng)
            figures += reward_h, *self._learn(played, rng, self._settings.entropy * left)
        reward, value_loss, entropy = figures / self._settings.rounds
        losses = {"reward_h": float(reward), "value_loss": float(value_loss), "entropy": float(entropy)}
        return {**losses, **judge(self.network, self._judged, PPO)}

    def _play(self, env: HandOverEnv, rng: np.random.Generator) -> tuple[Rollout, float]:
        """Plays a horizon in every environment; returns it and the mean reward of ended windows."""
        shape = (self._settings.horizon + 1, self._settings.environments)
        rows, shares = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        logits, values = np.zeros(shape), np.zeros(shape)
        actions, choice = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
        rewards, ended = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
        self.network.eval()
        for k in range(shape[0]):
            rows[k], shares[k], choice[k] = env.rows, env.shares, env.allowed()[:, WAIT]
            logits[k], values[k] = self._predicted(env.rows, env.shares)
            if k == self._settings.horizon:
                break
            drawn = rng.random(shape[1]) < 1 / (1 + np.exp(-logits[k]))
            actions[k] = np.where(drawn | ~choice[k], SUBMIT, WAIT)
            rewards[k], ended[k] = env.step(actions[k])
        advantage = advantages(rewards[:-1] / COST_UNIT_H, values, ended[:-1], self._settings.trace)
        log_prob = -np.logaddexp(0, np.where(actions == SUBMIT, -logits, logits))
        rollout = Rollout(
            rows[:-1].reshape(-1),
            shares[:-1].reshape(-1),
            actions[:-1].reshape(-1),
            choice[:-1].reshape(-1),
            log_prob[:-1].reshape(-1),
            advantage.reshape(-1),
            (advantage + values[:-1]).reshape(-1),
        )
        return rollout, float(rewards.sum() / max(ended.sum(), 1))

    def _predicted(self, rows: Ints, shares: Floats) -> tuple[Floats, Floats]:
        """Logits of submitting, and values."""
        with torch.no_grad():
            output = self.network(InputBatch.of(self._data.inputs(rows)), torch.from_numpy(shares.astype(np.float32)))
        return output.logit.double().numpy(), output.value.double().numpy()

    def _learn(self, played: Rollout, rng: np.random.Generator, entropy_weight: float) -> tuple[float, float]:
        """Learns in passes over the steps; returns the value's mean loss and the mean entropy."""
        self.network.train()
        losses = []
        spread = played.advantage[played.choice].std() + 1e-6
        scaled = played._replace(advantage=(played.advantage - played.advantage[played.choice].mean()) / spread)
        for _ in range(self._settings.passes):
            for rows in batches(rng.permutation(len(played.rows)), self._settings.batch):
                loss, value_loss, entropy = self._loss(scaled.of(rows), entropy_weight)
                step(self.optimiser, self.network, loss, largest=0.5)
                losses.append((float(value_loss.detach()), float(entropy.detach())))
        value_loss_mean, entropy_mean = np.mean(losses, axis=0)
        return float(value_loss_mean), float(entropy_mean)

    def _loss(self, part: Rollout, entropy_weight: float) -> tuple[Tensor, Tensor, Tensor]:
        """Loss of a batch, and its parts: the value's loss and the entropy."""
        inputs = InputBatch.of(self._data.inputs(part.rows))
        output = self.network(inputs, _tensor(part.shares))
        choice, submitted = torch.from_numpy(part.choice), torch.from_numpy(part.actions == SUBMIT)
        log_prob = functional.logsigmoid(torch.where(submitted, output.logit, -output.logit))
        ratio, advantage = torch.exp(log_prob - _tensor(part.log_prob)), _tensor(part.advantage)
        clipped = ratio.clamp(1 - self._settings.clip, 1 + self._settings.clip)
        gained = torch.minimum(ratio * advantage, clipped * advantage)
        probability = torch.sigmoid(output.logit)
        uncertain = -probability * functional.logsigmoid(output.logit)
        uncertain = uncertain - (1 - probability) * functional.logsigmoid(-output.logit)
        chosen = choice.float() / max(int(choice.sum()), 1)
        entropy = (uncertain * chosen).sum()
        value_loss = functional.huber_loss(output.value, _tensor(part.value), delta=6.0)
        quantiles = pinball_loss(output.outcome_h, happened_h(self._data, part.rows), inputs.remaining_h)
        loss = self._settings.value * value_loss - (gained * chosen).sum() - entropy_weight * entropy
        return loss + self._settings.quantiles * quantiles + output.penalty, value_loss, entropy


def advantages(rewards: Floats, values: Floats, ended: NDArray[np.bool_], trace: float) -> Floats:
    """Generalised advantages without discount, shape (steps, environments).

    Args:
        rewards: Shape (steps, environments).
        values: Shape (steps + 1, environments).
        ended: Shape (steps, environments): whether the window ended with the step.
        trace: λ.
    """
    found = np.zeros_like(rewards)
    after = np.zeros(rewards.shape[1])
    for k in range(len(rewards) - 1, -1, -1):
        ongoing = ~ended[k]
        surprise = rewards[k] + values[k + 1] * ongoing - values[k]
        after = surprise + trace * after * ongoing
        found[k] = after
    return found


def _tensor(values: NDArray[np.floating]) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))
