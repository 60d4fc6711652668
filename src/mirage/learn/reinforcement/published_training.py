"""Training methods of Mirage (SC'23) as published; their names end in ``-2023``.

On two cores they take many hours with the published numbers of epochs. Fewer can be requested; the card has their
number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mirage.learn.hand_overs import HandOvers
from mirage.learn.networks.network_inputs import InputScaling
from mirage.learn.networks.network_model import PUBLISHED, REINFORCE, NetworkModel
from mirage.learn.networks.published_networks import PublishedMixture, PublishedPolicy
from mirage.learn.networks.training_loop import Curve, Learner, Progress, TrainingSchedule, digest_of, train
from mirage.learn.reinforcement.reinforce import (
    OF_MIXTURE,
    OF_TRANSFORMER,
    RegressionLearning,
    ReinforceLearning,
    probes,
)

TRANSFORMER, MIXTURE = "transformer-2023", "mixture-2023"
EXPERT_SLICE = 0.05
"""Share of the samples, consecutive, that each expert is trained on."""


@dataclass(frozen=True, slots=True)
class PublishedSettings:
    """Settings of a published network's training.

    Attributes:
        seed: Seed of all randomness.
        epochs: Epochs of each regression.
        reinforce_epochs: Epochs of REINFORCE; None for the published 60 (transformer) or 20 (mixture).
        sizes: Arguments of the network that differ from the published ones.
        folder: Where a checkpoint is stored after every epoch, and resumed from; None for none.
        progress: Called after every epoch.
        threads: Threads of PyTorch.
    """

    seed: int = 0
    epochs: int = 300
    reinforce_epochs: int | None = None
    sizes: Mapping[str, Any] | None = None
    folder: Path | None = None
    progress: Progress | None = None
    threads: int = 1


def train_published(
    body: str, decides: str, data: HandOvers, tune: HandOvers, settings: PublishedSettings | None = None
) -> NetworkModel:
    """Trains by regression, then by REINFORCE where the policy decides.

    Args:
        body: ``transformer-2023`` or ``mixture-2023``.
        decides: ``regression`` or ``reinforce``.
    """
    settings = settings or PublishedSettings()
    sizes = dict(settings.sizes or {})
    with _seeded(settings.seed):
        network = PUBLISHED[body](**sizes)
    identity = digest_of(data, tune, body, settings.seed, settings.epochs, sorted(sizes.items()))
    rows = probes(data)
    curve: Curve = ()
    if isinstance(network, PublishedMixture):
        size = max(int(EXPERT_SLICE * len(rows)), 1)
        for k, expert in enumerate(network.experts):
            part = rows[np.arange(k * size, (k + 1) * size) % len(rows)]
            learner = RegressionLearning(expert, data, part, tune, OF_MIXTURE)
            curve += _stage(f"{body}-expert-{k}", learner, settings, identity)
    how = OF_MIXTURE if body == MIXTURE else OF_TRANSFORMER
    curve += _stage(f"{body}-regression", RegressionLearning(network, data, rows, tune, how), settings, identity)
    if decides == REINFORCE:
        epochs = settings.reinforce_epochs or (20 if body == MIXTURE else 60)
        with _seeded(settings.seed):
            network = PublishedPolicy(network)
        of_policy = replace(settings, epochs=epochs)
        identity = f"{identity}-{epochs}"
        curve += _stage(f"{body}-reinforce", ReinforceLearning(network, data), of_policy, identity)
    method = f"{'moe' if body == MIXTURE else 'transformer'}-{'pg' if decides == REINFORCE else 'dqn'}-2023"
    figures = {"epochs": float(settings.epochs)} | dict(curve[-1].figures)
    lead_s = int(data.link_limit_s.max())
    return NetworkModel(method, decides, body, sizes, network, InputScaling.learnt(data), lead_s, figures, curve)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """First weights of networks made within depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def _stage(stage: str, learner: Learner, settings: PublishedSettings, identity: str) -> Curve:
    checkpoint = (
        None
        if settings.folder is None
        else settings.folder / f"{stage}-seed{settings.seed}-epochs{settings.epochs}.safetensors"
    )
    schedule = TrainingSchedule(
        settings.epochs, settings.epochs, settings.seed, checkpoint, identity, settings.progress, settings.threads
    )
    return train(stage, learner, schedule)
