"""Trainings of networks on the small queue with known best decisions, and their gain."""

from __future__ import annotations

from mirage.learn.networks.network_inputs import ScaledHandOvers
from mirage.learn.networks.network_model import NetworkModel
from mirage.learn.networks.pretraining import PretrainSettings
from mirage.learn.reinforcement.dqn import DqnSettings
from mirage.learn.reinforcement.network_training import NetworkSettings, train_network
from mirage.learn.reinforcement.network_validation import decisions
from mirage.learn.reinforcement.ppo import PpoSettings
from tests.support import small_environment

BRIEF = NetworkSettings(
    seed=3,
    sizes={"width": 8},
    pretrain=PretrainSettings(epochs=2, rows=256, tune_rows=64),
    dqn=DqnSettings(epochs=3, steps=3, stretches=4),
    ppo=PpoSettings(epochs=3, rounds=1, environments=8, horizon=8),
)

COSTS = (0.5, 0.75, 0.9)
"""1:1, 3:1 and 9:1, as shares of an hour of interruption. The rule of the pre-trained distribution alone reaches 0.9 of
the optimum's gain at the first, and 0.8 at the others."""


def trained(settings: NetworkSettings, decides: str, body: str = "perceptron") -> NetworkModel:
    """A network trained on twelve sampled windows, and validated on six others."""
    return train_network(body, decides, small_environment.sampled(12, 1), small_environment.sampled(6, 2), settings)


def gains(model: NetworkModel) -> list[float]:
    """Share of the optimum's gain over submitting at the end, reached by a network, by cost."""
    rows = ScaledHandOvers(small_environment.every_state(), model.scaling)
    shape = small_environment.best_decisions(0.5).shape
    return [
        small_environment.gain(decisions(model.network, rows, share, model.decides).reshape(shape), share)
        for share in COSTS
    ]
