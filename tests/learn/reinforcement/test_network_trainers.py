"""Trainers of networks as commands call them: settings, progress and curves."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mirage.duration import HOUR_S
from mirage.learn.networks.hand_over_network import InputBatch
from mirage.learn.networks.network_inputs import InputScaling, ScaledHandOvers
from mirage.learn.networks.network_model import (
    DQN,
    PPO,
    QUANTILES,
    REGRESSION,
    REINFORCE,
    NetworkModel,
    TrainedNetwork,
    network_of,
)
from mirage.learn.networks.training_loop import Epoch
from mirage.learn.regression.model_contract import TrainingSettings
from mirage.learn.reinforcement import network_training
from mirage.learn.reinforcement.network_training import NetworkSettings
from mirage.learn.reinforcement.network_validation import decisions, judge
from mirage.learn.reinforcement.reinforce import JUDGED_ROWS, RegressionLearning, RegressionSettings
from mirage.learn.training.methods import METHODS
from mirage.learn.training.stored_steps import StoredSteps
from tests.support import small_environment


@pytest.fixture
def data() -> Any:
    return small_environment.sampled(3)


def model_of(data: Any) -> NetworkModel:
    """A network after two epochs of one stage and one of another."""
    scaling = InputScaling.learnt(data)
    curve = (
        Epoch("pretrain", 1, 2, {"loss": 3.0, "tune": 5.0}),
        Epoch("pretrain", 2, 2, {"loss": 2.0, "tune": 4.0}),
        Epoch(DQN, 1, 1, {"bellman": 0.5}),
    )
    network = network_of("perceptron", scaling.width, {})
    return NetworkModel("made-up", DQN, "perceptron", {}, network, scaling, 9, {}, curve)


@pytest.mark.parametrize(
    ("method", "body", "decides"),
    [
        ("transformer", "transformer", QUANTILES), ("transformer-dqn", "transformer", DQN),
        ("transformer-pg", "transformer", PPO), ("moe", "mixture", QUANTILES), ("moe-dqn", "mixture", DQN),
        ("moe-pg", "mixture", PPO), ("transformer-dqn-2023", "transformer-2023", REGRESSION),
        ("transformer-pg-2023", "transformer-2023", REINFORCE), ("moe-dqn-2023", "mixture-2023", REGRESSION),
        ("moe-pg-2023", "mixture-2023", REINFORCE),
    ],
)  # fmt: skip
def test_a_method_trains_the_network_that_it_is_named_after(
    method: str, body: str, decides: str, data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, reported = [], []
    model, tune = model_of(data), small_environment.sampled(2, 1)
    called = "train_published" if method.endswith("-2023") else "train_network"
    monkeypatch.setattr(network_training, called, lambda *arguments: calls.append(arguments) or model)
    steps = StoredSteps(tmp_path, reported.append).under(f"8/{method}")
    trained = METHODS[method].train()(data, tune, TrainingSettings(seed=5, threads=3), steps)
    assert isinstance(trained, TrainedNetwork)
    assert trained.network is model
    ((*what, settings),) = calls
    assert what == [body, decides, data, tune]
    assert (settings.seed, settings.folder, settings.threads) == (5, tmp_path / "8", 3)
    settings.progress(Epoch("dqn", 2, 9, {}))
    assert reported == [f"8/{method}/pretrain", f"8/{method}/dqn", f"8/{method}, dqn 2 of 9"]
    curves = {name.removeprefix(f"8/{method}/"): values.tolist() for name, values in steps.curves.items()}
    assert curves == {"pretrain/loss": [3.0, 2.0], "pretrain/tune": [5.0, 4.0], "dqn/bellman": [0.5]}


@pytest.mark.parametrize(("epochs", "expected"), [(None, (24, 12, None)), (14, (14, 12, 14)), (1, (1, 1, 1))])
def test_epochs_bound_every_stage_of_our_networks(
    epochs: int | None, expected: tuple[int, int, int | None], data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, published, own = [], [], NetworkSettings()
    monkeypatch.setattr(network_training, "train_network", lambda *arguments: calls.append(arguments) or model_of(data))
    monkeypatch.setattr(
        network_training, "train_published", lambda *arguments: published.append(arguments) or model_of(data)
    )
    for trainer in (network_training.train_moe_dqn, network_training.train_moe_dqn_2023):
        trainer(data, data, TrainingSettings(epochs=epochs), StoredSteps(None))
    settings = calls[0][-1]
    assert (settings.pretrain.epochs, settings.dqn.epochs) == expected[:2]
    assert settings.ppo.epochs == min(epochs or own.ppo.epochs, own.ppo.epochs)
    assert settings.folder is None
    assert published[0][-1].epochs == (expected[2] or 300)


def test_a_network_is_judged_by_what_it_decides(data: Any) -> None:
    rows = small_environment.sampled(40)
    scaling = InputScaling.learnt(rows)
    scaled = ScaledHandOvers(rows, scaling)
    torch.manual_seed(3)
    network = network_of("perceptron", scaling.width, {"width": 8})
    for head in (network.q_head, network.policy_head):
        torch.nn.init.normal_(head[-1].weight)
    with torch.no_grad():  # half of the rows submit
        output = network(InputBatch.of(scaled.inputs(np.arange(len(rows)))), torch.full((len(rows),), 0.5))
        network.q_head[-1].bias[1] -= (output.q[:, 1] - output.q[:, 0]).median()
        network.policy_head[-1].bias -= output.logit.median()
    every = set()
    for decides in (DQN, PPO, QUANTILES):
        figures, closed = judge(network, scaled, decides), []
        for share in (0.25, 0.5, 0.75):
            flags = decisions(network, scaled, share, decides)
            assert flags.shape == (len(rows),)
            closed.append(closed_share(rows, flags, share))
            assert figures[f"closed_{share:g}"] == pytest.approx(closed[-1])
        assert figures["tune"] == pytest.approx(1 - np.mean(closed))
        assert not network.training
        every |= set(closed)
    assert len(every) > 2


def closed_share(rows: Any, flags: np.ndarray, share: float) -> float:
    """The gap closed, window by window."""
    spent, reactive, best = [], [], []
    edges = rows.windows()
    for first, last in pairwise(edges):
        hours = rows.outcome_s[first:last] / HOUR_S
        cost = 2 * (share * np.maximum(hours, 0) + (1 - share) * np.maximum(-hours, 0))
        submits = np.flatnonzero(flags[first:last])
        spent.append(cost[submits[0] if len(submits) else -1])
        reactive.append(cost[-1])
        best.append(cost.min())
    return float((np.mean(reactive) - np.mean(spent)) / (np.mean(reactive) - np.mean(best)))


class OneNumber(torch.nn.Module):
    """Predicts a multiple of the first column of the last snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(0.1))

    def forward(self, history: torch.Tensor) -> torch.Tensor:
        assert history.shape[1:] == (144, 42)
        return torch.stack([self.factor * history[:, -1, 0], history[:, -1, 0] * 0 + 99], dim=1)


@pytest.mark.parametrize("squared", [False, True])
def test_a_regression_learns_hours_and_is_judged_on_later_rows(squared: bool) -> None:
    data, tune, rows = small_environment.sampled(20), small_environment.sampled(40, 1), np.arange(3, 200, 4)

    def error(of: Any, which: np.ndarray, factor: float) -> float:
        missed = factor * of.snapshots[of.last[which], 0] - of.outcome_s[which] / HOUR_S
        return float((missed**2 if squared else np.abs(missed)).mean())

    network, rng = OneNumber(), np.random.default_rng(0)
    learner = RegressionLearning(network, data, rows, tune, RegressionSettings(0.0, 8, squared))
    judged = np.unique(np.linspace(0, len(tune) - 1, JUDGED_ROWS).astype(int))
    figures = learner.epoch(1, 1, rng)
    assert figures["loss"] == pytest.approx(error(data, rows, 0.1), rel=1e-5)
    assert figures["tune"] == pytest.approx(error(tune, judged, 0.1), rel=1e-5)
    assert (learner.network is network, learner.modules["network"] is network) == (True, True)
    learner = RegressionLearning(network, data, rows, tune, RegressionSettings(0.01, 8, squared))
    first = learner.epoch(1, 2, rng)["tune"]
    assert learner.epoch(2, 2, rng)["tune"] == pytest.approx(error(tune, judged, network.factor.item()), rel=1e-5)
    assert first != pytest.approx(figures["tune"], rel=1e-3)
    assert not network.training
