import numpy as np
import pytest

from mirage.learn.networks.pretraining import PretrainSettings
from mirage.learn.reinforcement.network_training import NetworkSettings, train_network
from mirage.learn.reinforcement.ppo import PpoSettings, advantages
from tests.support import small_environment
from tests.support.small_trainings import gains


def test_advantages_are_weighted_sums_of_surprises_up_to_the_end_of_a_window():
    rewards = np.array([[0.0], [0.0], [-3.0], [0.0]])
    values = np.array([[-1.0], [-2.0], [-2.5], [-0.5], [-0.25]])
    ended = np.array([[False], [False], [True], [False]])
    surprises = [-2.0 + 1.0, -2.5 + 2.0, -3.0 + 2.5, -0.25 + 0.5]
    half = [surprises[0] + surprises[1] / 2 + surprises[2] / 4, surprises[1] + surprises[2] / 2, *surprises[2:]]
    assert advantages(rewards, values, ended, 0.5)[:, 0].tolist() == pytest.approx(half)
    everything = advantages(rewards, values, ended, 1.0)[:3, 0]
    assert everything.tolist() == pytest.approx((-3.0 - values[:3, 0]).tolist())  # the return less the value


@pytest.mark.slow
def test_a_policy_gradient_comes_within_8_percent_of_the_optimum():
    settings = NetworkSettings(
        pretrain=PretrainSettings(epochs=0),
        ppo=PpoSettings(epochs=16, patience=16, rate=4e-3, horizon=12, passes=4, entropy=0.003, quantiles=0.1),
    )
    data, tune = small_environment.sampled(600, 1), small_environment.sampled(150, 2)
    gained = gains(train_network("perceptron", "ppo", data, tune, settings))
    # seeds 0 to 3 have 0.946 to 0.996 in the mean, and at least 0.9 at the worst cost; both depend on the processor
    assert np.mean(gained) >= 0.92
    assert min(gained) >= 0.87
