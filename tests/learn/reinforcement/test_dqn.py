import pytest
import torch

from mirage.learn.networks.pretraining import PretrainSettings
from mirage.learn.reinforcement.dqn import DqnSettings, n_step_values
from mirage.learn.reinforcement.network_training import NetworkSettings, train_network
from tests.support import small_environment
from tests.support.small_trainings import gains


def test_waiting_is_worth_what_the_decisions_after_it_lead_to():
    waits, submits = [0.0, -1.0], [-1.0, 0.0]
    online = torch.tensor(
        [[waits, waits, submits, waits], [waits, waits, waits, waits], [waits, waits, waits, submits]]
    )
    target = torch.full((3, 4, 2), -7.0)
    target[:, :, 1] = -99.0  # the target network's own value of submitting is never used
    exact = -torch.arange(4.0).expand(3, 4)
    ends = torch.zeros(3, 4, dtype=torch.bool)
    values = n_step_values(online, target, exact, ends)
    assert values.tolist() == [[-2, -2, -7], [-7, -7, -7], [-3, -3, -3]]
    ends[1, 2:] = True  # a link has ended: nothing but submitting is left, whatever the networks say
    assert n_step_values(online, target, exact, ends)[1].tolist() == [-2, -2, -3]


@pytest.mark.slow
def test_a_deep_q_network_comes_within_5_percent_of_the_optimum():
    settings = NetworkSettings(
        pretrain=PretrainSettings(epochs=0),
        dqn=DqnSettings(epochs=12, patience=12, steps=120, n_step=3, rate=2e-3, tau=0.05, quantiles=0.1),
    )
    data, tune = small_environment.sampled(600, 1), small_environment.sampled(150, 2)
    assert min(gains(train_network("perceptron", "dqn", data, tune, settings))) >= 0.95
