import json
from dataclasses import replace

import numpy as np
import pytest

from mirage.errors import ModelFileError, UnknownName
from mirage.learn.networks.network_inputs import OF_THE_LINK
from mirage.learn.networks.network_model import (
    network_arrays,
    network_from,
    network_of,
    network_settings,
)
from mirage.learn.networks.pretraining import PretrainSettings
from mirage.learn.reinforcement.network_training import train_network
from tests.support import small_environment
from tests.support.small_trainings import BRIEF


@pytest.fixture(scope="module")
def model():
    brief = replace(BRIEF, sizes={"width": 8, "feed_forward": 8}, pretrain=PretrainSettings(epochs=1, rows=256))
    return train_network("mixture", "ppo", small_environment.sampled(12), small_environment.sampled(6, 2), brief)


def estimates(model, share=0.5):
    data = small_environment.every_state()
    rows = np.arange(len(data))
    link = np.stack([getattr(data, name) for name in OF_THE_LINK], axis=1).astype(np.float32)
    return model.estimates(data.history(rows), data.features, link, share)


@pytest.mark.parametrize("decides", ["dqn", "ppo", "quantiles"])
def test_a_model_is_read_as_it_was_written(model, decides):
    model = replace(model, decides=decides)
    again = network_from(json.loads(json.dumps(network_settings(model))), network_arrays(model))
    for name, values in estimates(model).items():
        assert np.array_equal(estimates(again)[name], values), name
    assert (again.method, again.figures, again.longest_lead_s) == (model.method, model.figures, model.longest_lead_s)
    assert (model.method, model.longest_lead_s) == ("moe-pg", 30 * 3600)
    assert {"balance", "expert_0_weight", "expert_3_led", "closed_0.5", "tune", "pretrained_tune"} <= set(model.figures)
    assert sum(model.figures[f"expert_{k}_weight"] for k in range(4)) == pytest.approx(1)


def test_a_mixture_reports_the_usage_of_its_experts(model):
    weights, led = ([model.figures[f"expert_{k}_{what}"] for k in range(4)] for what in ("weight", "led"))
    assert sum(weights) == pytest.approx(1)
    assert sum(led) == pytest.approx(1)
    assert 0.5 <= model.figures["balance"] <= 1


def test_quantiles_of_the_wait_ascend(model):
    found = estimates(model)
    assert (found["wait_p05_s"] >= 0).all()
    assert (found["wait_p05_s"] <= found["wait_p50_s"]).all()
    assert (found["wait_p50_s"] <= found["wait_p95_s"]).all()


def test_dearer_interruption_submits_no_later_by_the_quantiles(model):
    rule = replace(model, decides="quantiles")
    cheap, dear = (estimates(rule, share)["submits"] for share in (0.2, 0.9))
    assert (dear >= cheap).all()
    assert dear.sum() > cheap.sum()
    assert np.array_equal(
        estimates(rule, 0.99)["submits"], estimates(rule, 0.95)["submits"]
    )  # beyond what was trained on


def test_what_does_not_fit_is_refused(model):
    with pytest.raises(ModelFileError, match="do not match"):
        network_from({**network_settings(model), "sizes": {"width": 16}}, network_arrays(model))
    with pytest.raises(UnknownName, match="transformer"):
        network_of("transformr", 3, {})
