"""Training of networks: pre-training on the outcome, then DQN or policy gradient.

The functions at the end are the trainers of ``mirage.learn.training.methods``, those as published included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mirage.duration import HOUR_S
from mirage.errors import ConfigurationError
from mirage.learn.hand_overs import HandOvers
from mirage.learn.networks.hand_over_network import InputBatch, Network
from mirage.learn.networks.mixture_of_experts import ExpertUsage, MixtureBody, check_balance, expert_usage
from mirage.learn.networks.network_checkpoint import checkpoint_path
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
from mirage.learn.networks.pretraining import INFERENCE_ROWS, Pretraining, PretrainSettings, batches, even_rows
from mirage.learn.networks.training_loop import Curve, Epoch, Learner, Progress, TrainingSchedule, digest_of, train
from mirage.learn.regression.model_contract import TrainingSettings, TrainingSteps
from mirage.learn.reinforcement.dqn import DqnLearning, DqnSettings
from mirage.learn.reinforcement.hand_over_environment import some_windows
from mirage.learn.reinforcement.network_validation import judge
from mirage.learn.reinforcement.ppo import PpoLearning, PpoSettings
from mirage.learn.reinforcement.published_training import MIXTURE, TRANSFORMER, PublishedSettings, train_published


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Settings of a network's training.

    Attributes:
        seed: Seed of all randomness.
        longest_lead_h: The network decides only within this time of the end of a link; before that it waits.
        sizes: Arguments of the body that differ from its defaults.
        pretrain: Settings of the first stage.
        dqn: Settings of fine-tuning Q-values.
        ppo: Settings of fine-tuning the policy.
        folder: Where a checkpoint is stored after every epoch, and resumed from; None for none. Methods that share a
            body share its pre-training there.
        progress: Called after every epoch.
        threads: Threads of PyTorch.
    """

    seed: int = 0
    longest_lead_h: float = 30.0
    sizes: Mapping[str, Any] = field(default_factory=dict)
    pretrain: PretrainSettings = field(default_factory=PretrainSettings)
    dqn: DqnSettings = field(default_factory=DqnSettings)
    ppo: PpoSettings = field(default_factory=PpoSettings)
    folder: Path | None = None
    progress: Progress | None = None
    threads: int = 1


_SUFFIXES = {DQN: "-dqn", PPO: "-pg", QUANTILES: ""}
"""Decision rule of a network → suffix of its method's name."""


def train_network(
    body: str, decides: str, data: HandOvers, tune: HandOvers, settings: NetworkSettings | None = None
) -> NetworkModel:
    """Pre-trains a body, then fine-tunes it.

    Args:
        body: ``transformer``, ``mixture`` or ``perceptron``.
        decides: ``dqn``, ``ppo``, or ``quantiles`` for the pre-trained distribution alone.
        data: Training data.
        tune: A later slice, which chooses epochs.
        settings: Settings of the training.

    Raises:
        ConfigurationError: No decision is late enough to learn from, or a checkpoint belongs to another training.
        ContractBroken: The gate of a mixture has collapsed.
    """
    settings = settings or NetworkSettings()
    if decides not in (DQN, PPO, QUANTILES):
        raise ConfigurationError(f"a network decides by {DQN}, {PPO} or {QUANTILES}, got {decides!r}")
    late = _late(data, settings, "training")
    scaling = InputScaling.learnt(late)
    rows, tuned = ScaledHandOvers(late, scaling), ScaledHandOvers(_late(tune, settings, "tuning"), scaling)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = network_of(body, scaling.width, settings.sizes)
    identity = digest_of(late, tuned.data, settings.seed, body, sorted(settings.sizes.items()), settings.pretrain)
    curve = _stage("pretrain", body, Pretraining(network, rows, tuned, settings.pretrain), settings, identity)
    judged = tuned.only(some_windows(tuned.data, settings.dqn.tune_rows, settings.dqn.tune_every))
    figures = {f"pretrained_{name}": value for name, value in judge(network, judged, QUANTILES).items()}
    if decides == DQN:
        identity = digest_of(late, tuned.data, identity, settings.dqn)
        curve += _stage(DQN, body, DqnLearning(network, rows, tuned, settings.dqn), settings, identity)
    elif decides == PPO:
        identity = digest_of(late, tuned.data, identity, settings.ppo)
        curve += _stage(PPO, body, PpoLearning(network, rows, tuned, settings.ppo), settings, identity)
    figures |= judge(network, judged, decides)
    if (usage := usage_of(network, tuned)) is not None:
        check_balance(usage)
        figures |= {"balance": usage.balance}
        figures |= {f"expert_{k}_weight": float(weight) for k, weight in enumerate(usage.weight)}
        figures |= {f"expert_{k}_led": float(led) for k, led in enumerate(usage.led)}
    method = f"{'moe' if body == 'mixture' else body}{_SUFFIXES[decides]}"
    lead_s = int(settings.longest_lead_h * HOUR_S)
    return NetworkModel(method, decides, body, dict(settings.sizes), network, scaling, lead_s, figures, curve)


def usage_of(network: Network, rows: ScaledHandOvers, most: int = 4_096) -> ExpertUsage | None:
    """Usage of a mixture's experts on some rows; None for other bodies."""
    if not isinstance(network.body, MixtureBody):
        return None
    chosen = even_rows(len(rows), most)
    return expert_usage(network.body, (InputBatch.of(rows.inputs(batch)) for batch in batches(chosen, INFERENCE_ROWS)))


def _late(data: HandOvers, settings: NetworkSettings, what: str) -> HandOvers:
    """The rows at which a network decides."""
    found = data[data.remaining_s <= settings.longest_lead_h * HOUR_S]
    if len(found) == 0:
        raise ConfigurationError(
            f"none of the {len(data)} {what} rows lies within {settings.longest_lead_h:g} h of the end of a link; "
            "make a data set with later decisions, or raise longest_lead_h"
        )
    return found


def _stage(stage: str, body: str, learner: Learner, settings: NetworkSettings, identity: str) -> Curve:
    """Trains one stage, resumed from its checkpoint."""
    stages: dict[str, PretrainSettings | DqnSettings | PpoSettings] = {"pretrain": settings.pretrain}
    of = (stages | {DQN: settings.dqn, PPO: settings.ppo})[stage]
    checkpoint = checkpoint_path(settings.folder, f"{body}-{stage}", settings.seed, of.epochs)
    schedule = TrainingSchedule(
        of.epochs, of.patience, settings.seed, checkpoint, identity, settings.progress, settings.threads
    )
    return train(stage, learner, schedule)


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
