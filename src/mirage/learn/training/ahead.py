"""Trainings done ahead by an executor: several at once here, or on a Slurm array.

What is trained lies in the folder of kept steps afterwards, so that the training proper finds every step done.
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
        link_nodes: Size of the links that it is about.
        method: By name.
        seed: Of everything random.
        until_s: Where training ends.
        tune_until_s: Where tuning ends.
        place: Of its steps among all.
    """

    link_nodes: int
    method: str
    seed: int
    until_s: int
    tune_until_s: int
    place: str


@dataclass(frozen=True, slots=True, eq=False)
class Work:
    """What a process needs to train.

    Attributes:
        data: Decisions of all sizes of links.
        settings: Bounds of the training; the seed is that of each.
        folder: Where steps are kept.
    """

    data: HandOvers
    settings: TrainingSettings
    folder: Path


def train_ahead(
    trainings: Sequence[Training], data: HandOvers, settings: TrainingSettings, steps: KeptSteps, executor: Executor
) -> None:
    """Train, and leave the steps in their folder. One process of this machine is no gain, and does nothing.

    Raises:
        ConfigurationError: A slice is empty, the data lack what a method needs, or a package is missing.
        SlurmError: A job failed; steps that are done stay.
    """
    pieces = together(trainings)
    if steps.folder is None or (isinstance(executor, Processes) and min(executor.workers, len(pieces)) < 2):
        return
    for places in executor(_trainer, Work(data, settings, steps.folder), pieces):
        for place in places:
            steps.tell(place)


def together(trainings: Sequence[Training]) -> list[tuple[Training, ...]]:
    """Trainings, those in one tuple that share the pre-training of a network: who comes second finds it done."""
    found: dict[tuple[object, ...], list[Training]] = {}
    for one in trainings:
        of_same_data = (one.link_nodes, one.seed, one.until_s, one.tune_until_s)
        found.setdefault((method_named(one.method).body or one.place, *of_same_data), []).append(one)
    return [tuple(same) for same in found.values()]


def _trainer(work: Work) -> Callable[[tuple[Training, ...]], list[str]]:
    """What does one training after another, and gives their places."""

    def train(trainings: tuple[Training, ...]) -> list[str]:
        for one in trainings:
            data, tune = split(work.data[work.data.link_nodes == one.link_nodes], one.until_s, one.tune_until_s)
            steps = KeptSteps(work.folder).under(one.place)
            train_part(one.method, data, tune, replace(work.settings, seed=one.seed), steps)
        return [one.place for one in trainings]

    return train
