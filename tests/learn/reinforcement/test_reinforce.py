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


def test_a_step_follows_the_gradient_of_discounted_rewards_and_entropy(monkeypatch):
    """Three episodes of two, one and three steps; Adam's first step moves the policy's layer."""
    torch.manual_seed(0)
    data = small_environment.sampled(9)
    network = PublishedPolicy(PublishedTransformer(1, 1, width=8))
    learner = ReinforceLearning(network, data)
    rows = np.array([[0, 20, 40], [1, -1, 41], [-1, -1, 42]])
    actions = torch.tensor([[0, 1, 0], [1, 0, 0], [0, 0, 1]])

    def logits():
        found = torch.zeros(3, 3, 2)
        for place in np.argwhere(rows >= 0).tolist():
            found[*place] = network.action(learner._predicted(rows[None, place[0], place[1]]))[0]
        return found

    monkeypatch.setattr(learner, "_play", lambda rng: (rows, logits(), actions))
    reward = -60 * np.abs(data.outcome_s[[1, 20, 42]] / HOUR_S)
    gained, entropy, steps = 0.0, 0.0, 0
    log_prob = logits().log_softmax(dim=2)
    for k, length in enumerate((2, 1, 3)):
        for step in range(length):
            weight = reward[k] * 0.99 ** (length - 1 - step) - (reward[k] / length if step == length - 1 else 0)
            gained = gained + weight * log_prob[step, k, actions[step, k]] / 3
            entropy = entropy - (log_prob[step, k].exp() * log_prob[step, k]).sum()
            steps += 1
    layer = list(network.action.parameters())
    slopes = torch.autograd.grad(-gained - 0.1 * entropy / steps, layer)
    before = [values.detach().clone() for values in layer]
    figures = learner.epoch(4, 9, np.random.default_rng(0))
    assert figures["reward"] == pytest.approx(reward.mean())
    assert figures["entropy"] == pytest.approx(float(entropy.detach()) / steps, rel=1e-5)
    assert figures["tune"] == -4.0
    for values, earlier, slope in zip(layer, before, slopes, strict=True):
        np.testing.assert_allclose((values - earlier).detach(), -0.01 * slope.sign(), atol=1e-5)


def test_episodes_are_played_to_a_submission_or_the_end_of_a_window():
    torch.manual_seed(0)
    data = small_environment.sampled(9)
    network = PublishedPolicy(PublishedTransformer(1, 1, width=8)).eval()
    learner = ReinforceLearning(network, data)
    edges = data.windows()
    for bias, length in ((-900.0, 11), (900.0, 1), (0.0, None)):
        with torch.no_grad():
            network.action.weight[:] = 0
            network.action.bias[:] = torch.tensor([0.0, bias])
        rows, logits, actions = learner._play(np.random.default_rng(3))
        there = rows >= 0
        assert rows.shape[1] == 32
        assert set(rows[0].tolist()) <= set(edges[:-1].tolist())
        lengths = there.sum(axis=0)
        assert length is None or set(lengths) == {length}
        for k, steps in enumerate(lengths.tolist()):
            assert rows[:steps, k].tolist() == list(range(rows[0, k], rows[0, k] + steps))
            assert not there[steps:, k].any()
            assert actions[:steps, k].tolist() == [0] * (steps - 1) + [1]
            assert logits[:steps, k].tolist() == [[0.0, bias]] * steps
    assert len(set(lengths.tolist())) > 3


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


@pytest.mark.parametrize("name", ["transformer_dqn", "transformer_pg", "moe_dqn", "moe_pg"])
def test_a_published_training_repeats_with_its_seed(name):
    sizes = {"width": 4} | ({"experts": 2} if name.startswith("moe") else {})
    body = "mixture-2023" if name.startswith("moe") else "transformer-2023"
    decides = "reinforce" if name.endswith("pg") else "regression"
    one, again, other = (
        network_arrays(
            train_published(
                body, decides, small_environment.sampled(9), small_environment.sampled(3, 2),
                PublishedSettings(seed=seed, epochs=1, reinforce_epochs=1, sizes=sizes),
            )
        )
        for seed in (5, 5, 6)
    )  # fmt: skip
    assert all(np.array_equal(one[each], again[each]) for each in one)
    assert not all(np.array_equal(one[each], other[each]) for each in one)
