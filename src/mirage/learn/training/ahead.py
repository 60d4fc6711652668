"""Trainings done ahead by an executor: several at once here, or on a Slurm array.

Their results are in the folder of stored steps afterwards, so the main training finds every step done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mirage.executors.executor import Executor
from mirage.executors.processes import Processes
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model import TrainingSettings
from mirage.learn.training.folds import split
from mirage.learn.training.methods import method_named
from mirage.learn.training.steps import KeptSteps
from mirage.learn.training.trained import train_part


@dataclass(frozen=True, slots=True)
class Training:
    """One model to train.

    Attributes:
        link_nodes: Size of the links it decides for.
        method: Name of the method.
        seed: Seed of all randomness.
        until_s: End of training.
        tune_until_s: End of tuning.
        place: Location of its steps.
    """

    link_nodes: int
    method: str
    seed: int
    until_s: int
    tune_until_s: int
    place: str


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """The inputs of a process that trains.

    Attributes:
        data: Decisions for all link sizes.
        settings: Bounds of the training; each training has its own seed.
        folder: Where steps are stored.
    """

    data: HandOvers
    settings: TrainingSettings
    folder: Path


def train_ahead(
    trainings: Sequence[Training], data: HandOvers, settings: TrainingSettings, steps: KeptSteps, executor: Executor
) -> None:
    """Trains ahead, and stores the steps in their folder.

    With one local process, or without a folder, there is no gain, and nothing is done.

    Raises:
        ConfigurationError: A slice is empty, the data lack what a method needs, or a package is missing.
        SlurmError: A job failed; finished steps stay.
    """
    pieces = together(trainings)
    if steps.folder is None or (isinstance(executor, Processes) and min(executor.workers, len(pieces)) < 2):
        return
    for places in executor(_trainer, Work(data, settings, steps.folder), pieces):
        for place in places:
            steps.tell(place)


def together(trainings: Sequence[Training]) -> list[tuple[Training, ...]]:
    """Groups trainings that share the pre-training of a network.

    The later ones of a group find it done.
    """
    found: dict[tuple[object, ...], list[Training]] = {}
    for one in trainings:
        of_same_data = (one.link_nodes, one.seed, one.until_s, one.tune_until_s)
        found.setdefault((method_named(one.method).body or one.place, *of_same_data), []).append(one)
    return [tuple(same) for same in found.values()]


def _trainer(work: Work) -> Callable[[tuple[Training, ...]], list[str]]:
    """Returns the function that does trainings in turn and returns their locations."""

    def train(trainings: tuple[Training, ...]) -> list[str]:
        for one in trainings:
            data, tune = split(work.data[work.data.link_nodes == one.link_nodes], one.until_s, one.tune_until_s)
            steps = KeptSteps(work.folder).under(one.place)
            train_part(one.method, data, tune, replace(work.settings, seed=one.seed), steps)
        return [one.place for one in trainings]

    return train
