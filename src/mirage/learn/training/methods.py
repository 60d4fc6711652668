"""Methods of learning by name: one line each, imported when one is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mirage.errors import UnknownName
from mirage.learn.hand_overs import HandOvers
from mirage.learn.packages import check_packages, installed_version
from mirage.learn.regression.model import Model, Steps, TrainingSettings

Trainer = Callable[[HandOvers, HandOvers, TrainingSettings, Steps], Model]
"""Takes decisions, later ones to tune on, settings, and where steps are kept; gives the model."""


@dataclass(frozen=True, slots=True)
class Method:
    """How a model is trained, and how it is read from a file.

    Attributes:
        trainer: Where the trainer is, ``module:function``.
        model: Where the model's class is, ``module:class``, with ``from_arrays``.
        summary: One line for menus.
        package: The module that it is trained with.
        forecast: Whether it reads a forecast.
        body: Networks with one body share its pre-training; None of other methods.
    """

    trainer: str
    model: str
    summary: str
    package: str
    forecast: bool = False
    body: str | None = None

    def train(self) -> Trainer:
        """The trainer."""
        trainer: Trainer = _found(self.trainer)
        return trainer

    def model_class(self) -> type[Model]:
        """The model's class."""
        kind: type[Model] = _found(self.model)
        return kind


_ROOM = "mirage.learn.regression"


def _network(name: str, summary: str) -> Method:
    """A method that trains a network; those of 2023 see no forecast, and have bodies of their own."""
    trainer = f"mirage.learn.reinforcement.network_methods:train_{name.replace('-', '_')}"
    model = "mirage.learn.networks.trained_network:TrainedNetwork"
    published = name.endswith("-2023")
    body = f"{name.partition('-')[0]}{'-2023' if published else ''}"
    return Method(trainer, model, summary, "torch", forecast=not published, body=body)


METHODS: dict[str, Method] = {
    "correction": Method(
        f"{_ROOM}.correction:train_correction",
        f"{_ROOM}.correction:CorrectedForecast",
        "what came of such forecasts: quantiles of the forecast, corrected",
        "xgboost",
        forecast=True,
    ),
    "stopping": Method(
        f"{_ROOM}.stopping:train_stopping",
        f"{_ROOM}.stopping:Stopping",
        "optimal stopping by backward induction on all outcomes, from the forecast",
        "xgboost",
        forecast=True,
    ),
    "boosted": Method(
        f"{_ROOM}.boosted:train_boosted",
        f"{_ROOM}.boosted:BoostedOutcomes",
        "gradient boosting of the outcome's distribution on features of the queue and of the forecast",
        "xgboost",
        forecast=True,
    ),
    "forest": Method(
        f"{_ROOM}.forest:train_forest",
        f"{_ROOM}.forest:QuantileForest",
        "quantile regression forest on features of the queue and of the forecast",
        "sklearn",
        forecast=True,
    ),
    "random-forest-2023": Method(
        f"{_ROOM}.as_published:train_published_forest",
        f"{_ROOM}.as_published:PublishedForest",
        "forest on the flat snapshots of 24 hours, as in Mirage, SC'23",
        "sklearn",
    ),
    "xgboost-2023": Method(
        f"{_ROOM}.as_published:train_published_trees",
        f"{_ROOM}.as_published:PublishedTrees",
        "XGBoost on the flat snapshots of 24 hours, as in Mirage, SC'23",
        "xgboost",
    ),
    "transformer": _network("transformer", "transformer over 24 hours of the queue: the outcome's distribution"),
    "transformer-dqn": _network("transformer-dqn", "the same, fine-tuned by double DQN"),
    "transformer-pg": _network("transformer-pg", "the same, fine-tuned by policy gradient (PPO)"),
    "moe": _network("moe", "mixture of experts over 24 hours of the queue: the outcome's distribution"),
    "moe-dqn": _network("moe-dqn", "the same, fine-tuned by double DQN"),
    "moe-pg": _network("moe-pg", "the same, fine-tuned by policy gradient (PPO)"),
    "transformer-dqn-2023": _network(
        "transformer-dqn-2023", "transformer, regression and threshold, as in Mirage, SC'23"
    ),
    "transformer-pg-2023": _network("transformer-pg-2023", "the same, frozen, under a layer trained by REINFORCE"),
    "moe-dqn-2023": _network("moe-dqn-2023", "mixture of experts, regression and threshold, as in Mirage, SC'23"),
    "moe-pg-2023": _network("moe-pg-2023", "the same, frozen, under a layer trained by REINFORCE"),
}
"""Name → how it is trained."""


SPLIT_BY = ("mirage.learn.training.folds", "mirage.learn.training.trained")
"""Modules that say what a method learns from, and what is kept beside its model: as much a part of a training as it."""


def method_named(name: str) -> Method:
    """A method by its name.

    Raises:
        UnknownName: There is none; the message lists the known ones.
    """
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    return METHODS[name]


def versions(names: Iterable[str]) -> tuple[str, ...]:
    """The versions of the packages that methods are trained with, numpy among them; empty for one that is absent."""
    packages = sorted({"numpy", *(METHODS[name].package for name in names)})
    return tuple(f"{package} {installed_version(package)}" for package in packages)


def check_installed(names: Iterable[str]) -> None:
    """See, before hours of work, that all is installed that training needs.

    Args:
        names: The methods.

    Raises:
        ConfigurationError: A package is not.
        UnknownName: There is no such method.
    """
    if packages := [method_named(name).package for name in names]:
        check_packages("training", ["pyarrow", "safetensors", *packages])
    check_packages("a data set", ["pyarrow"])


def _found(entry: str) -> Any:
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name)
