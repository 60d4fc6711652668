import numpy as np
import pytest
import torch

from mirage.duration import HOUR_S
from mirage.learn.networks.network_inputs import OF_THE_LINK
from mirage.learn.networks.network_model import network_arrays, network_from, network_settings
from mirage.learn.networks.published_networks import PublishedPolicy, PublishedTransformer
from mirage.learn.regression.model_contract import TrainingSettings
from mirage.learn.reinforcement import network_training
from mirage.learn.reinforcement.published_training import PublishedSettings, train_published
from mirage.learn.reinforcement.reinforce import ReinforceLearning, _weights, probes
from mirage.learn.training.stored_steps import StoredSteps
from tests.support import small_environment


def test_samples_lie_eight_hours_apart_and_end_with_the_link():
    data = small_environment.sampled(3)
    assert (data.remaining_s[probes(data)] / HOUR_S).tolist() == [8, 0] * 3


def test_rewards_are_discounted_to_the_step_and_the_last_loses_its_mean():
    rows = np.array([[0, 7], [1, -1], [2, -1]])
    weight, there = _weights(rows, np.array([-60.0, -30.0]))
    assert weight[:, 0].tolist() == pytest.approx([-60 * 0.99**2, -60 * 0.99, -60 + 20])
    assert weight[:, 1].tolist() == pytest.approx([-30 + 30, 0, 0])
    assert there.sum(dim=0).tolist() == [3, 1]


def test_an_epoch_changes_the_linear_layer_only():
    torch.manual_seed(0)
    network = PublishedPolicy(PublishedTransformer(1, 1, width=8))
    before = {name: weights.clone() for name, weights in network.state_dict().items()}
    figures = ReinforceLearning(network, small_environment.sampled(9)).epoch(1, 1, np.random.default_rng(0))
    changed = {name for name, weights in network.state_dict().items() if not torch.equal(weights, before[name])}
    assert changed == {"action.weight", "action.bias"}
    assert figures["reward"] < 0


def test_a_row_is_predicted_once_and_alike_in_any_order():
    torch.manual_seed(0)
    network = PublishedPolicy(PublishedTransformer(1, 1, width=8)).eval()
    data, arguments = small_environment.sampled(30), []
    network.frozen.register_forward_hook(lambda _, histories, predicted: arguments.append(len(histories[0])))
    rows = np.arange(len(data))
    at_once = ReinforceLearning(network, data)._predicted(rows)
    one_by_one = ReinforceLearning(network, data)
    last_first = torch.cat([one_by_one._predicted(rows[[row]]) for row in rows[::-1]]).flip(0)
    assert torch.equal(at_once, last_first)
    assert sum(arguments) == 2 * len(data)


def test_fewer_epochs_bound_regressions_and_leave_reinforce_as_published(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(network_training, "train_published", lambda *arguments: calls.append(arguments[-1]))
    monkeypatch.setattr(network_training, "_trained", lambda model, steps: model)
    network_training.train_moe_pg_2023(None, None, TrainingSettings(epochs=3), StoredSteps(tmp_path))
    assert (calls[0].epochs, calls[0].reinforce_epochs) == (3, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer_dqn", "transformer_pg", "moe_dqn", "moe_pg"])
def test_published_methods_train_what_they_are_named_after(name):
    sizes = {"width": 4} | ({"experts": 2} if name.startswith("moe") else {})
    settings = PublishedSettings(epochs=1, reinforce_epochs=1, sizes=sizes)
    data = small_environment.sampled(9)
    body = "mixture-2023" if name.startswith("moe") else "transformer-2023"
    decides = "reinforce" if name.endswith("pg") else "regression"
    model = train_published(body, decides, data, small_environment.sampled(3, 2), settings)
    assert model.method == f"{name.replace('_', '-')}-2023"
    link = np.stack([getattr(data, each)[:4] for each in OF_THE_LINK], axis=1).astype(np.float32)
    arguments = (data.history(np.arange(4)), data.features[:4], link, 0.5)
    read = network_from(network_settings(model), network_arrays(model))
    mine, again = model.estimates(*arguments), read.estimates(*arguments)
    assert all(np.array_equal(mine[key], again[key]) for key in mine)
    assert ("submit_probability" in mine) == name.endswith("pg")
