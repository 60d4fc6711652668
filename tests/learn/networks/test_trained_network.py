from dataclasses import replace

import numpy as np
import pytest

from mirage.duration import DAY_S
from mirage.learn.regression.model_contract import TrainingSettings, inputs_at
from mirage.learn.training.methods import METHODS
from mirage.learn.training.stored_steps import StoredSteps
from mirage.learn.training.train_policy import CardDetails, Slices, train_policy
from mirage.learn.training.trained_policy import read_trained, train_link_size
from mirage.policy.check_policy import check_policy
from mirage.policy.cost import Cost
from mirage.policy.policy_registry import make_policy
from mirage.policy.policy_settings import PolicySettings
from tests.support.made_up_hand_overs import BEGIN_S, before_and_after, made_up_hand_overs

BRIEF = TrainingSettings(epochs=1)


@pytest.fixture(scope="module")
def data():
    found = made_up_hand_overs(12, nodes=1)
    return replace(found, features=found.features[:, :2], names=found.names[:2])  # those that every view tells


@pytest.mark.slow
def test_a_network_is_a_policy_by_the_path_of_its_file(data, tmp_path):
    slices = Slices(BEGIN_S + 8 * DAY_S, BEGIN_S + 11 * DAY_S)
    steps = StoredSteps(tmp_path / "steps")
    trained = train_policy({1: "transformer-pg"}, data, slices, CardDetails("made-up"), BRIEF, steps)
    trained.save(tmp_path / "model")
    model, again = trained.parts[1].model, read_trained(tmp_path / "model").parts[1].model
    decisions = inputs_at(before_and_after(data, 10)[1])
    for cost in (Cost(1, 1), Cost(9, 1)):
        assert np.array_equal(model.submits(decisions, cost), again.submits(decisions, cost))
    assert {name.rpartition("/")[2] for name in steps.curves} >= {"tune", "loss"}
    check_policy(lambda: make_policy(str(tmp_path / "model"), PolicySettings()))


@pytest.mark.slow
def test_a_network_never_submits_earlier_than_its_training_covers(data):
    early, late = before_and_after(data, 9)
    part = train_link_size("transformer", early, late, BRIEF)
    part.model.network = part.model.network.__class__(
        **{name: getattr(part.model.network, name) for name in part.model.network.__slots__} | {"longest_lead_s": 7200}
    )
    submits = part.model.submits(inputs_at(late), Cost(1000, 1))
    assert submits[late.remaining_s <= 7200].any()
    assert not submits[late.remaining_s > 7200].any()


def test_every_network_has_a_trainer_and_those_of_2023_read_no_forecast():
    networks = {name: method for name, method in METHODS.items() if ".network_training" in method.trainer}
    assert len(networks) == 10
    for name, method in networks.items():
        assert callable(method.train())
        assert method.forecast != name.endswith("-2023")
