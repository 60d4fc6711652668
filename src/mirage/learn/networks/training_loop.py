"""The training of any network: epochs, early stopping, checkpoints.

All randomness of an epoch comes from the seed and the epoch's number, so no generator's state has to be stored: a
training that was killed and resumed ends with the same weights, bit for bit, as one that was not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from mirage.errors import ConfigurationError
from mirage.learn.hand_overs import HandOvers
from mirage.learn.networks.network_checkpoint import (
    TrainingState,
    load_weights,
    read_checkpoint,
    restore,
    state_of,
    weights_of_module,
    write_checkpoint,
)

Figures = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Epoch:
    """Figures of one epoch.

    Attributes:
        stage: Name of the training: ``pretrain``, ``dqn``, ``ppo``.
        number: Number of the epoch, from 1.
        of: Largest number of epochs.
        figures: By name; the best epoch has the smallest ``tune``.
    """

    stage: str
    number: int
    of: int
    figures: Figures


Curve = tuple[Epoch, ...]
Progress = Callable[[Epoch], None]


class Learner(Protocol):
    """One way of learning.

    Attributes:
        network: The network that is trained; it gets the weights of the best epoch.
        modules: All modules with weights that resuming needs, the network included.
        optimiser: The optimiser of the weights.
    """

    network: nn.Module
    modules: Mapping[str, nn.Module]
    optimiser: torch.optim.Optimizer

    def epoch(self, number: int, of: int, rng: np.random.Generator) -> Figures:
        """Trains for an epoch, then judges: returns figures that include ``tune``."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingSchedule:
    """Length of a training, and its checkpoint.

    Attributes:
        epochs: Largest number of epochs.
        patience: Epochs without a better ``tune``, after which training stops.
        seed: Seed of all randomness.
        checkpoint: File of the state after the last epoch; None to write none.
        identity: Digest of data and settings: a checkpoint of another training is refused.
        progress: Called after every epoch.
        threads: Threads of PyTorch. One is steadier than two on shared cores, and as fast for networks this small.
    """

    epochs: int
    patience: int
    seed: int = 0
    checkpoint: Path | None = None
    identity: str = ""
    progress: Progress | None = None
    threads: int = 1


def train(stage: str, learner: Learner, schedule: TrainingSchedule) -> Curve:
    """Trains to the last epoch or until nothing improves, then loads the best epoch's weights.

    Raises:
        ConfigurationError: The checkpoint belongs to another training.
    """
    curve: list[Epoch] = []
    best: TrainingState = weights_of_module(learner.network)
    least, since = float("inf"), 0
    if schedule.checkpoint is not None and schedule.checkpoint.exists():
        best, least, since = _resume(stage, learner, schedule, curve)
    with torch_threads(schedule.threads), torch.random.fork_rng(devices=[]):
        while len(curve) < schedule.epochs and since < schedule.patience:
            number = len(curve) + 1
            torch.manual_seed(_seed_of(schedule.seed, stage, number))
            rng = np.random.default_rng(_seed_of(schedule.seed, stage, number))
            learner.network.train()
            figures = {key: float(value) for key, value in learner.epoch(number, schedule.epochs, rng).items()}
            curve.append(Epoch(stage, number, schedule.epochs, figures))
            since += 1
            if figures["tune"] < least:
                best, least, since = weights_of_module(learner.network), figures["tune"], 0
            _store(learner, schedule, curve, best, least, since)
            if schedule.progress is not None:
                schedule.progress(curve[-1])
    load_weights(learner.network, best)
    learner.network.eval()
    return tuple(curve)


def digest_of(data: HandOvers, tune: HandOvers, *settings: object) -> str:
    """Digest of the inputs of a training: its data and the other values given."""
    digest = hashlib.sha256()
    for rows in (data, tune):
        for name in ("window_s", "link_nodes", "time_s", "outcome_s", "features", "last"):
            digest.update(np.ascontiguousarray(getattr(rows, name)).tobytes())
        digest.update(np.ascontiguousarray(rows.snapshots).tobytes())
    digest.update(json.dumps([repr(each) for each in settings]).encode())
    return digest.hexdigest()


def _resume(
    stage: str, learner: Learner, schedule: TrainingSchedule, curve: list[Epoch]
) -> tuple[TrainingState, float, int]:
    """Resumes from the checkpoint; returns best weights, their figure, and epochs since."""
    assert schedule.checkpoint is not None
    state, metadata = read_checkpoint(schedule.checkpoint)
    if (metadata["stage"], metadata["identity"]) != (stage, schedule.identity):
        raise ConfigurationError(
            f"{schedule.checkpoint} belongs to another training (stage {metadata['stage']}, other data or settings); "
            "name another folder, or remove it"
        )
    restore(learner.modules, learner.optimiser, state)
    curve += [Epoch(stage, k + 1, schedule.epochs, figures) for k, figures in enumerate(metadata["curve"])]
    best = {key.removeprefix("best/"): value for key, value in state.items() if key.startswith("best/")}
    return best, float(metadata["least"]), int(metadata["since"])


def _store(
    learner: Learner, schedule: TrainingSchedule, curve: list[Epoch], best: TrainingState, least: float, since: int
) -> None:
    if schedule.checkpoint is None:
        return
    state = state_of(learner.modules, learner.optimiser) | {f"best/{key}": value for key, value in best.items()}
    metadata: dict[str, Any] = {
        "stage": curve[-1].stage,
        "identity": schedule.identity,
        "curve": [dict(epoch.figures) for epoch in curve],
        "least": least,
        "since": since,
    }
    write_checkpoint(schedule.checkpoint, state, metadata)


def _seed_of(seed: int, stage: str, number: int) -> int:
    """The seed of an epoch."""
    words = [seed, number, *stage.encode()]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Sets the number of PyTorch threads, and restores it afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
