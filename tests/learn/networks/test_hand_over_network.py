import numpy as np
import pytest
import torch

from mirage.duration import HOUR_S
from mirage.errors import ContractBroken
from mirage.learn.networks.hand_over_network import LEVELS, InputBatch, cost_h, expected_cost_h, pinball_loss
from mirage.learn.networks.mixture_of_experts import (
    ExpertUsage,
    MixtureBody,
    balancing_loss,
    check_balance,
    expert_usage,
)
from mirage.learn.networks.network_inputs import InputScaling, ScaledHandOvers
from mirage.learn.networks.network_model import BODIES, network_of
from mirage.learn.networks.published_networks import weights_of
from mirage.policy.cost import Cost
from tests.support import small_environment


@pytest.fixture(scope="module")
def rows():
    data = small_environment.sampled(20)
    return ScaledHandOvers(data, InputScaling.learnt(data))


@pytest.fixture(scope="module")
def batch(rows):
    return InputBatch.of(rows.inputs(np.arange(0, len(rows), 7)))


@pytest.mark.parametrize("body", sorted(BODIES))
def test_quantiles_ascend_and_no_link_waits_less_than_nothing(body, batch):
    torch.manual_seed(0)
    network = network_of(body, batch.features.shape[1], {}).eval()
    outcome_h, _ = network.outcome(batch)
    assert outcome_h.shape == (len(batch.features), len(LEVELS))
    assert (outcome_h.diff(dim=1) >= 0).all()
    assert (outcome_h >= -batch.remaining_h[:, None] - 1e-4).all()


def test_ours_are_small():
    assert 50_000 < weights_of(network_of("transformer", 50, {})) < 200_000
    assert 50_000 < weights_of(network_of("mixture", 50, {})) < 200_000


@pytest.mark.parametrize("body", ["transformer", "mixture"])
def test_the_order_of_hours_counts(body, batch):
    torch.manual_seed(0)
    network = network_of(body, batch.features.shape[1], {}).eval()
    history = torch.randn_like(batch.history)
    turned = batch._replace(history=history.flip(1))
    assert not torch.allclose(network.outcome(batch._replace(history=history))[0], network.outcome(turned)[0])


def test_costs_are_those_of_the_contract():
    outcome_h = torch.tensor([-3.0, 0.0, 2.0])
    for interruption, overlap in ((1.0, 1.0), (3.0, 1.0)):
        share = torch.tensor(interruption / (interruption + overlap))
        expected = Cost(interruption, overlap).of(outcome_h.double().numpy() * HOUR_S)
        np.testing.assert_allclose(cost_h(outcome_h, share) * (interruption + overlap) / 2, expected, rtol=1e-6)
    assert expected_cost_h(torch.tensor([[-3.0, 2.0]]), torch.tensor([0.75])).item() == pytest.approx((1.5 + 3) / 2)


def test_the_pinball_loss_is_least_at_the_quantiles():
    happened_h = torch.linspace(0.0, 10.0, 1001)
    remaining_h = torch.zeros(1001)
    true = torch.quantile(happened_h, torch.tensor(LEVELS)).expand(1001, -1)
    least = pinball_loss(true, happened_h, remaining_h)
    assert all(least < pinball_loss(true + off, happened_h, remaining_h) for off in (-0.3, 0.3))


def test_the_balancing_loss_is_1_where_experts_are_used_alike_and_their_number_where_one_does_all():
    assert balancing_loss(torch.eye(4)).item() == pytest.approx(1)
    assert balancing_loss(torch.eye(4)[[2, 2, 2]]).item() == pytest.approx(4)


def drawn_together(batch, balancing: float) -> ExpertUsage:
    """Usage after a gate that prefers one expert was trained on the balancing loss alone."""
    torch.manual_seed(0)
    body = MixtureBody(batch.features.shape[1], width=16, balancing=balancing)
    with torch.no_grad():
        body.gate[-1].bias[0] += 4.0
    optimiser = torch.optim.Adam(body.gate.parameters(), lr=1e-2)
    for _ in range(60):
        loss = body.balancing * balancing_loss(body.weights(batch))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return expert_usage(body, [batch])


def test_a_collapsed_gate_is_a_defect_and_the_balancing_loss_mends_it(batch):
    with pytest.raises(ContractBroken, match="collapsed"):
        check_balance(drawn_together(batch, 0.0))
    usage = drawn_together(batch, 0.02)
    check_balance(usage)
    assert usage.balance > 0.8
    assert usage.weight.sum() == pytest.approx(1)
    assert usage.led.sum() == pytest.approx(1)
