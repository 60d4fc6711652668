from dataclasses import replace

import numpy as np
import pytest
import small_environment
from test_training import BRIEF

from mirage.learn.hand_overs import QUEUE_COLUMNS
from mirage.learn.networks.inputs import Look
from mirage.learn.networks.policy import NetworkPolicy
from mirage.learn.reinforcement.methods import train_network
from mirage.policy import Cost, View
from mirage.policy.check import check_policy
from mirage.policy.example import LIMIT_S, example_views
from mirage.provision.policies.rules import Reactive

HALF_WAY, NEAR_ITS_END = 2, 4
"""Places in ``example_views``."""


@pytest.fixture(scope="module")
def model():
    data = small_environment.sampled(12)
    data = replace(data, link_limit_s=np.full(len(data), LIMIT_S), wait_s=60 * np.arange(len(data)))
    return train_network("perceptron", "dqn", data, data, BRIEF)


def look(view: View, crowd: float = 0.0) -> Look:
    history = np.zeros((144, QUEUE_COLUMNS), dtype=np.float32)
    history[-1, 0] = crowd
    return Look(history, np.eye(4, dtype=np.float32)[1], tuple(f"backlog_{k}" for k in range(4)))


def view(place: int) -> View:
    return list(example_views())[place]


def test_the_policy_keeps_the_contract(model):
    check_policy(lambda: NetworkPolicy(model, look), example_views())


def test_it_waits_where_it_was_never_asked(model):
    chain = view(HALF_WAY).chain
    (wait,) = NetworkPolicy(replace(model, longest_lead_s=7200), look).decide(view(HALF_WAY)).actions
    assert (wait.reason, wait.until_s) == ("too-early", chain.ends_s - 7200)


def test_the_network_decides_near_the_end(model):
    plan = NetworkPolicy(model, look).decide(view(NEAR_ITS_END))
    assert plan.actions[0].reason in ("network-submits", "network-waits")
    assert plan.submits == (plan.estimate["cost_now"] <= plan.estimate["cost_later"])
    assert plan.estimate["remaining_s"] == view(NEAR_ITS_END).chain.ends_s - view(NEAR_ITS_END).now_s


def test_the_cost_reaches_the_network(model):
    both = [
        NetworkPolicy(model, look, cost=Cost(*cost)).decide(view(NEAR_ITS_END)).estimate["cost_now"]
        for cost in ((1, 9), (9, 1))
    ]
    assert both[0] != both[1]


def test_a_queue_like_none_in_training_is_the_fallbacks(model):
    crowded = NetworkPolicy(model, lambda view: look(view, 9e4), fallback=Reactive()).decide(view(NEAR_ITS_END))
    assert not crowded.submits
    assert crowded.actions[0].reason == "outside-training:input=queue_column_0,then=lead-not-reached"
    alone = NetworkPolicy(model, lambda view: look(view, 9e4)).decide(view(NEAR_ITS_END))
    assert alone.actions[0].reason.startswith("outside-training:input=queue_column_0,then=network-")
