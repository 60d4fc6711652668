import pytest
import small_environment
import torch

from mirage.learn.networks.network_inputs import ScaledHandOvers
from mirage.learn.networks.pretraining import PretrainSettings
from mirage.learn.reinforcement.dqn import DqnSettings, n_step_values
from mirage.learn.reinforcement.network_training import NetworkSettings, train_network
from mirage.learn.reinforcement.network_validation import decisions

COSTS = (0.5, 0.75, 0.9)
"""1:1, 3:1 and 9:1, as shares of an hour of interruption. The rule of the pre-trained distribution alone reaches 0.9 of
the optimum's gain at the first, and 0.8 at the others."""


def gains(model) -> list[float]:
    """Share of the optimum's gain over submitting at the end, reached by a network, by cost."""
    rows = ScaledHandOvers(small_environment.every_state(), model.scaling)
    shape = small_environment.best_decisions(0.5).shape
    return [
        small_environment.gain(decisions(model.network, rows, share, model.decides).reshape(shape), share)
        for share in COSTS
    ]


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
