"""Trainers of networks, as ``mirage train`` calls them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from mirage.learn.hand_overs import HandOvers
from mirage.learn.networks.network_model import DQN, PPO, QUANTILES, REGRESSION, REINFORCE, NetworkModel
from mirage.learn.networks.trained_network import TrainedNetwork
from mirage.learn.networks.training_loop import Epoch
from mirage.learn.regression.model_contract import TrainingSettings, TrainingSteps
from mirage.learn.reinforcement.network_training import NetworkSettings, train_network
from mirage.learn.reinforcement.published_training import MIXTURE, TRANSFORMER, PublishedSettings, train_published


def _train(
    body: str, decides: str, data: HandOvers, tune: HandOvers, settings: TrainingSettings, steps: TrainingSteps
) -> TrainedNetwork:
    """Trains a network of ours, resumed from its last stored epoch."""
    own = NetworkSettings(
        seed=settings.seed, folder=steps.checkpoints, progress=partial(_report, steps), threads=settings.threads
    )
    if settings.epochs is not None:
        shorter = {
            stage: replace(getattr(own, stage), epochs=min(settings.epochs, getattr(own, stage).epochs))
            for stage in ("pretrain", "dqn", "ppo")
        }
        own = replace(own, **shorter)
    return _trained(train_network(body, decides, data, tune, own), steps)


def _train_published(
    body: str, decides: str, data: HandOvers, tune: HandOvers, settings: TrainingSettings, steps: TrainingSteps
) -> TrainedNetwork:
    """Trains a network as published, resumed from its last stored epoch.

    The settings bound only regressions: REINFORCE costs next to nothing, and runs as published.
    """
    own = PublishedSettings(
        seed=settings.seed, folder=steps.checkpoints, progress=partial(_report, steps), threads=settings.threads
    )
    if settings.epochs is not None:
        own = replace(own, epochs=settings.epochs)
    return _trained(train_published(body, decides, data, tune, own), steps)


train_transformer = partial(_train, "transformer", QUANTILES)
train_transformer_dqn = partial(_train, "transformer", DQN)
train_transformer_pg = partial(_train, "transformer", PPO)
train_moe = partial(_train, "mixture", QUANTILES)
train_moe_dqn = partial(_train, "mixture", DQN)
train_moe_pg = partial(_train, "mixture", PPO)
train_transformer_dqn_2023 = partial(_train_published, TRANSFORMER, REGRESSION)
train_transformer_pg_2023 = partial(_train_published, TRANSFORMER, REINFORCE)
train_moe_dqn_2023 = partial(_train_published, MIXTURE, REGRESSION)
train_moe_pg_2023 = partial(_train_published, MIXTURE, REINFORCE)


def _trained(model: NetworkModel, steps: TrainingSteps) -> TrainedNetwork:
    """The model, after storing its learning curves."""
    stages = dict.fromkeys(epoch.stage for epoch in model.curve)
    for stage in stages:
        figures = [epoch.figures for epoch in model.curve if epoch.stage == stage]
        curves = {f"curve/{name}": np.array([each[name] for each in figures]) for name in figures[0]}
        steps.done(stage, partial(dict, curves))
    return TrainedNetwork(model)


def _report(steps: TrainingSteps, epoch: Epoch) -> None:
    steps.report(f"{epoch.stage} {epoch.number} of {epoch.of}")
