"""Outputs of networks, calculated from their layers; a network as a trained model."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from mirage.duration import HOUR_S
from mirage.learn.hand_overs import HISTORY, HandOvers
from mirage.learn.networks.hand_over_network import COST_UNIT_H, LEVELS, InputBatch, expected_cost_h
from mirage.learn.networks.mixture_of_experts import balancing_loss
from mirage.learn.networks.network_inputs import OF_THE_LINK, InputScaling, ScaledHandOvers
from mirage.learn.networks.network_model import (
    DQN,
    PPO,
    QUANTILES,
    REGRESSION,
    REINFORCE,
    NetworkModel,
    TrainedNetwork,
    network_arrays,
    network_from,
    network_of,
    network_settings,
)
from mirage.learn.networks.published_networks import (
    PublishedMixture,
    PublishedPolicy,
    PublishedTransformer,
    is_published,
    submits_by_regression,
)
from mirage.learn.networks.transformer import TOKENS
from mirage.learn.regression.model_contract import DecisionInputs, inputs_at
from mirage.policy.cost import Cost
from tests.support import small_environment


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    """Tensors are equal but for rounding.

    PyTorch's own check imports all of its distributed package.
    """
    np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def data() -> HandOvers:
    """Decisions with waits, nodes and limits that differ from row to row."""
    found = small_environment.sampled(12)
    of = np.arange(len(found))
    return replace(found, link_nodes=1 + of % 5, wait_s=700 * (1 + of % 7), link_limit_s=found.link_limit_s + 60 * of)


@pytest.fixture(scope="module")
def batch(data: HandOvers) -> InputBatch:
    return InputBatch.of(ScaledHandOvers(data, InputScaling.learnt(data)).inputs(np.arange(0, len(data), 9)))


def network(body: str, batch: InputBatch) -> torch.nn.Module:
    """A network with random heads: those of a new one begin at zero."""
    torch.manual_seed(4)
    found = network_of(body, batch.features.shape[1], {"width": 8}).eval()
    for head in (found.q_head, found.policy_head, found.value_head):
        torch.nn.init.normal_(head[-1].weight)
        torch.nn.init.normal_(head[-1].bias)
    return found


@pytest.mark.parametrize("name", ["transformer", "mixture"])
def test_tokens_are_the_features_and_the_hours_with_their_positions(name: str, batch: InputBatch) -> None:
    tokens = network(name, batch).body.tokens
    found = tokens(batch)
    each = HISTORY // TOKENS
    assert found.shape == (len(batch.features), 1 + TOKENS, 8)
    close(found[:, 0], tokens.of_features(batch.features) + tokens.position[0])
    for hour in (0, 5, TOKENS - 1):
        flat = batch.history[:, each * hour : each * (hour + 1)].flatten(1)
        close(found[:, 1 + hour], tokens.of_hour(flat) + tokens.position[1 + hour])


def test_the_embedding_of_a_transformer_adds_the_features_to_what_it_reads(batch: InputBatch) -> None:
    body = network("transformer", batch).body
    read = body.encoder(body.tokens(batch))[:, 0]
    found = body(batch)
    close(found.embedding, functional.gelu(read + body.beside(batch.features)))
    assert found.penalty.item() == 0


def test_the_embedding_of_a_mixture_weighs_its_experts(batch: InputBatch) -> None:
    body = network("mixture", batch).body
    weights = body.weights(batch)
    day = torch.cat([batch.features, batch.history.mean(dim=1)], dim=1)
    close(weights, body.gate(day).softmax(dim=1))
    mixed = sum(weights[:, [k]] * expert(body.tokens(batch))[:, 0] for k, expert in enumerate(body.experts))
    found = body(batch)
    close(found.embedding, functional.gelu(mixed + body.beside(batch.features)))
    close(found.penalty, 0.02 * balancing_loss(weights))


def test_a_perceptron_reads_the_features_and_the_latest_snapshot(batch: InputBatch) -> None:
    body = network("perceptron", batch).body
    expected = body.layers(torch.cat([batch.features, batch.history[:, -1]], dim=1))
    close(body(batch).embedding, expected)


def test_the_heads_add_to_the_rule_of_the_distribution(batch: InputBatch) -> None:
    found, share = network("perceptron", batch), torch.linspace(0.1, 0.9, len(batch.features))
    outcome_h, read = found.outcome(batch)
    logs = functional.softplus(found.waits(read.embedding) - 3.0).cumsum(dim=1)
    close(outcome_h, logs.clamp(max=7.0).expm1() - batch.remaining_h[:, None])
    cost = expected_cost_h(outcome_h, share) / COST_UNIT_H
    late = torch.sigmoid(outcome_h / 0.1).mean(dim=1)
    known = [outcome_h.asinh(), torch.logit(share)[:, None] / 2, batch.remaining_h.log1p()[:, None], cost[:, None]]
    head_input = torch.cat([read.embedding, *known], dim=1)
    output = found(batch, share)
    close(output.q[:, 0], found.q_head(head_input)[:, 0])
    close(output.q[:, 1], found.q_head(head_input)[:, 1] - cost)
    close(output.logit, found.policy_head(head_input)[:, 0] + 4.0 * (late - (1 - share)))
    close(output.value, found.value_head(head_input)[:, 0])
    assert not output.q.sum().isnan()


def test_a_new_network_decides_by_the_distribution_alone(batch: InputBatch) -> None:
    torch.manual_seed(0)
    fresh, share = network_of("perceptron", batch.features.shape[1], {}), torch.full((len(batch.features),), 0.7)
    output = fresh(batch, share)
    close(output.q[:, 1], -expected_cost_h(output.outcome_h, share) / COST_UNIT_H)
    assert (output.q[:, 0].abs().max().item(), output.value.abs().max().item()) == (0, 0)


def test_the_published_networks_are_those_of_the_paper() -> None:
    torch.manual_seed(0)
    one, mixture = PublishedTransformer(2, 1, width=4).eval(), PublishedMixture(3, width=4).eval()
    history = torch.randn(5, HISTORY, 42)
    read = one.encoder(one.embedding(history)).reshape(5, -1)
    close(one(history), read @ one.outcome.weight.T + one.outcome.bias)
    assert torch.equal(one.parts(history), one(history))
    parts = torch.stack([expert(history)[:, 0] for expert in mixture.experts], dim=1)
    close(mixture.parts(history), parts)
    first, second = mixture.gate[:2]
    weights = second(first(history.flatten(1))).softmax(dim=1)
    close(mixture(history)[:, 0], (weights * parts).sum(dim=1))
    for frozen, width in ((one, 1), (mixture, 3)):
        policy = PublishedPolicy(frozen)
        assert policy.action.weight.shape == (2, width)
        assert {name.partition(".")[0] for name, p in policy.named_parameters() if p.requires_grad} == {"action"}
        close(policy(history), policy.action(frozen.parts(history)))
    assert (is_published("mixture-2023"), is_published("mixture")) == (True, False)
    outcome_h = torch.tensor([-0.51, -0.5, 0.0, 500.0, 501.0])
    assert submits_by_regression(outcome_h).tolist() == [False, True, True, True, False]


def model_of(data: HandOvers, batch: InputBatch, decides: str, lead_h: float = 6.0) -> NetworkModel:
    scaling = InputScaling.learnt(data)
    found = network("perceptron", batch)
    return NetworkModel("made-up", decides, "perceptron", {"width": 8}, found, scaling, int(lead_h * HOUR_S))


def estimates_at(model: NetworkModel, data: HandOvers, rows: np.ndarray, share: float) -> dict[str, np.ndarray]:
    link = np.stack([getattr(data, name)[rows] for name in OF_THE_LINK], axis=1).astype(np.float32)
    return model.estimates(data.history(rows), data.features[rows], link, share)


@pytest.mark.parametrize("decides", [DQN, PPO, QUANTILES])
def test_answers_follow_from_the_outputs_at_the_cost(data: HandOvers, batch: InputBatch, decides: str) -> None:
    model, rows = model_of(data, batch, decides), np.arange(0, len(data), 9)
    found = estimates_at(model, data, rows, 0.3)
    with torch.no_grad():
        output = model.network(batch, torch.full((len(rows),), 0.3))
    waits_h = output.outcome_h.numpy() + batch.remaining_h.numpy()[:, None]
    for level in (5, 50, 95):
        expected = [np.interp(level / 100, LEVELS, row) * HOUR_S for row in waits_h]
        np.testing.assert_allclose(found.pop(f"wait_p{level:02d}_s"), expected, rtol=1e-4, atol=1)
    submits = found.pop("submits")
    assert submits.dtype == np.bool_
    assert 0 < submits.mean() < 1
    q, logit = output.q.numpy(), output.logit.numpy()
    if decides == DQN:
        np.testing.assert_allclose(found.pop("cost_now"), -2 * q[:, 1], rtol=1e-5)
        np.testing.assert_allclose(found.pop("cost_later"), -2 * q[:, 0], rtol=1e-5)
        assert (submits == (q[:, 1] >= q[:, 0])).all()
    elif decides == PPO:
        np.testing.assert_allclose(found.pop("submit_probability"), 1 / (1 + np.exp(-logit)), rtol=1e-5)
        assert (submits == (logit >= 0)).all()
    else:
        late = (output.outcome_h.numpy() > 0).mean(axis=1)
        np.testing.assert_allclose(found.pop("interruption_probability"), late)
        assert (submits == (late >= 0.7)).all()
    assert not found
    for share, clipped in ((0.01, 0.05), (0.99, 0.95)):
        for name, values in estimates_at(model, data, rows, share).items():
            np.testing.assert_array_equal(values, estimates_at(model, data, rows, clipped)[name])


@pytest.mark.parametrize("decides", [REGRESSION, REINFORCE])
def test_published_answers_follow_from_the_history_alone(data: HandOvers, decides: str) -> None:
    torch.manual_seed(1)
    frozen = PublishedTransformer(1, 1, width=4).eval()
    network = frozen if decides == REGRESSION else PublishedPolicy(frozen)
    scaling, rows = InputScaling.learnt(data), np.arange(0, len(data), 9)
    sizes = {"layers": 1, "heads": 1, "width": 4}
    model = NetworkModel("made-up", decides, "transformer-2023", sizes, network, scaling, 9)
    found = estimates_at(model, data, rows, 0.3)
    with torch.no_grad():
        output = network(torch.from_numpy(data.history(rows))).numpy()
    if decides == REGRESSION:
        np.testing.assert_allclose(found["outcome_h"], output[:, 0], rtol=1e-5)
        assert (found["submits"] == ((output[:, 0] >= -0.5) & (output[:, 0] <= 500))).all()
    else:
        of_two = np.exp(output) / np.exp(output).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found["submit_probability"], of_two[:, 1], rtol=1e-5)
        assert (found["submits"] == (of_two[:, 1] >= 0.5)).all()
    assert len(found) == 2
    again = network_from(json.loads(json.dumps(network_settings(model))), network_arrays(model))
    for name, values in estimates_at(again, data, rows, 0.3).items():
        np.testing.assert_array_equal(values, found[name])
    assert TrainedNetwork(model).inputs == ()


def test_a_trained_network_decides_by_the_cost_ratio_within_its_lead(data: HandOvers, batch: InputBatch) -> None:
    model = model_of(data, batch, QUANTILES)
    trained, decisions = TrainedNetwork(model), inputs_at(data)
    assert trained.inputs == data.names
    submits = trained.submits(decisions, Cost(3, 1))
    late = np.flatnonzero(data.remaining_s <= 6 * HOUR_S)
    expected = estimates_at(model, data, late, 0.75)["submits"]
    assert submits[late].tolist() == expected.tolist()
    assert (0 < expected.mean() < 1, submits[data.remaining_s > 6 * HOUR_S].any()) == (True, False)
    assert submits[late].tolist() != trained.submits(decisions, Cost(1, 9))[late].tolist()
    early = inputs_at(data, np.flatnonzero(data.remaining_s > 6 * HOUR_S))
    assert trained.submits(early, Cost()).tolist() == [False] * len(early)


def test_a_trained_network_reads_many_decisions_in_parts(data: HandOvers, batch: InputBatch) -> None:
    model = model_of(data, batch, DQN)
    rows = np.resize(np.arange(len(data)), 514)
    many, calls = inputs_at(data, rows), []
    estimates = type(model).estimates

    class Recorded:
        body, scaling = model.body, model.scaling

        def estimates(self, history: np.ndarray, *more: np.ndarray) -> dict[str, np.ndarray]:
            calls.append(len(history))
            return estimates(model, history, *more)

    found = TrainedNetwork(Recorded()).estimates(many)
    assert (sum(calls), len(calls), max(calls) <= 512) == (514, 2, True)
    for name, values in estimates_at(model, data, rows, 0.5).items():
        if name != "submits":
            np.testing.assert_allclose(found[name], values, rtol=1e-4)
            assert found[name].dtype == np.float64
    assert set(found) == {"wait_p05_s", "wait_p50_s", "wait_p95_s", "cost_now", "cost_later"}


def test_a_trained_network_is_restored_from_its_arrays(data: HandOvers, batch: InputBatch) -> None:
    trained = TrainedNetwork(model_of(data, batch, PPO))
    again = TrainedNetwork.from_arrays(trained.as_arrays(), json.loads(json.dumps(trained.settings())))
    decisions: DecisionInputs = inputs_at(data)
    for cost in (Cost(), Cost(4, 1)):
        assert (again.submits(decisions, cost) == trained.submits(decisions, cost)).all()
    assert (again.inputs, again.network.longest_lead_s) == (data.names, 6 * HOUR_S)
