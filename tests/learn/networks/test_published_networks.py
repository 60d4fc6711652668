import pytest
import torch

from mirage.learn.networks.published_networks import (
    PublishedMixture,
    PublishedPolicy,
    PublishedTransformer,
    submits_by_regression,
    weights_of,
)


def test_the_published_networks_have_the_published_numbers_of_weights():
    assert weights_of(PublishedTransformer()) == 2_464_513
    mixture = PublishedMixture()
    assert weights_of(mixture) == 12_995_188
    assert weights_of(mixture.experts[0]) == 1_280_129
    assert (len(mixture.experts), [layer.out_features for layer in mixture.gate[:2]]) == (10, [32, 10])


def test_a_link_is_submitted_from_half_an_hour_of_overlap_to_500_hours_of_interruption():
    outcome_h = torch.tensor([-0.6, -0.5, 0.0, 500.0, 501.0])
    assert submits_by_regression(outcome_h).tolist() == [False, True, True, True, False]


@pytest.mark.parametrize(("frozen", "parts"), [(PublishedTransformer(width=8), 1), (PublishedMixture(3, width=8), 3)])
def test_only_the_linear_layer_of_the_policy_is_trained(frozen, parts):
    policy = PublishedPolicy(frozen)
    policy(torch.zeros(2, 144, 42)).sum().backward()
    trained = {name for name, weights in policy.named_parameters() if weights.grad is not None}
    assert trained == {"action.weight", "action.bias"}
    assert policy.action.in_features == parts


def test_the_gate_weighs_the_predictions_of_the_experts():
    mixture = PublishedMixture(2, width=8).eval()
    history = torch.randn(3, 144, 42)
    weights = mixture.gate(history.flatten(1))
    assert torch.allclose(weights.sum(dim=1), torch.ones(3))
    assert torch.allclose(mixture(history)[:, 0], (weights * mixture.parts(history)).sum(dim=1))
