"""Methods of learning by name, each imported when used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from mirage.errors import UnknownName
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import Model, TrainingSettings, TrainingSteps
from mirage.learn.required_packages import check_packages, installed_version

Trainer = Callable[[HandOvers, HandOvers, TrainingSettings, TrainingSteps], Model]
"""Takes decisions, later ones to tune on, settings, and stored steps; returns the model."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method: how a model is trained, and how it is read from a file.

    Attributes:
        trainer: The training function, ``module:function``.
        model: The model's class, ``module:class``, with ``from_arrays``.
        summary: One line for menus.
        package: The module that it is trained with.
        forecast: Whether it reads a forecast.
        body: Body of a network; networks with one body share its pre-training. None for other methods.
        tunes: Whether later decisions are only used to tune; a method without it learns from them, too.
        sized: Whether ``TrainingSettings.trees`` sets its number of trees; the others stop early.
    """

    trainer: str
    model: str
    summary: str
    package: str
    forecast: bool = False
    body: str | None = None
    tunes: bool = True
    sized: bool = False

    def train(self) -> Trainer:
        """Imports the trainer."""
        trainer: Trainer = _found(self.trainer)
        return trainer

    def model_class(self) -> type[Model]:
        """Imports the model's class."""
        kind: type[Model] = _found(self.model)
        return kind


_REGRESSION = "mirage.learn.regression"


def _network(name: str, summary: str) -> Method:
    """A method that trains a network; those of 2023 use no forecast and have own bodies."""
    trainer = f"mirage.learn.reinforcement.network_training:train_{name.replace('-', '_')}"
    model = "mirage.learn.networks.network_model:TrainedNetwork"
    published = name.endswith("-2023")
    body = f"{name.partition('-')[0]}{'-2023' if published else ''}"
    return Method(trainer, model, summary, "torch", forecast=not published, body=body)


METHODS: dict[str, Method] = {
    "correction": Method(
        f"{_REGRESSION}.corrected_forecast:train_correction",
        f"{_REGRESSION}.corrected_forecast:CorrectedForecast",
        "quantiles of the forecast, corrected by past outcomes of forecasts",
        "xgboost",
        forecast=True,
    ),
    "stopping": Method(
        f"{_REGRESSION}.optimal_stopping:train_stopping",
        f"{_REGRESSION}.optimal_stopping:OptimalStopping",
        "optimal stopping by backward induction on all outcomes, from the forecast",
        "xgboost",
        forecast=True,
    ),
    "boosted": Method(
        f"{_REGRESSION}.boosted_outcomes:train_boosted",
        f"{_REGRESSION}.boosted_outcomes:BoostedOutcomes",
        "gradient boosting of the outcome's distribution on features of the queue and of the forecast",
        "xgboost",
        forecast=True,
    ),
    "forest": Method(
        f"{_REGRESSION}.quantile_forest:train_forest",
        f"{_REGRESSION}.quantile_forest:QuantileForest",
        "quantile regression forest on features of the queue and of the forecast",
        "sklearn",
        forecast=True,
        tunes=False,
        sized=True,
    ),
    "random-forest-2023": Method(
        f"{_REGRESSION}.published_regression:train_published_forest",
        f"{_REGRESSION}.published_regression:PublishedForest",
        "forest on the flat snapshots of 24 hours, as in Mirage, SC'23",
        "sklearn",
        tunes=False,
        sized=True,
    ),
    "xgboost-2023": Method(
        f"{_REGRESSION}.published_regression:train_published_trees",
        f"{_REGRESSION}.published_regression:PublishedTrees",
        "XGBoost on the flat snapshots of 24 hours, as in Mirage, SC'23",
        "xgboost",
        tunes=False,
        sized=True,
    ),
    "transformer": _network("transformer", "transformer over 24 hours of the queue: the outcome's distribution"),
    "transformer-dqn": _network("transformer-dqn", "transformer over 24 hours of the queue, fine-tuned by double DQN"),
    "transformer-pg": _network(
        "transformer-pg", "transformer over 24 hours of the queue, fine-tuned by policy gradient (PPO)"
    ),
    "moe": _network("moe", "mixture of experts over 24 hours of the queue: the outcome's distribution"),
    "moe-dqn": _network("moe-dqn", "mixture of experts over 24 hours of the queue, fine-tuned by double DQN"),
    "moe-pg": _network("moe-pg", "mixture of experts over 24 hours of the queue, fine-tuned by policy gradient (PPO)"),
    "transformer-dqn-2023": _network(
        "transformer-dqn-2023", "transformer, regression and threshold, as in Mirage, SC'23"
    ),
    "transformer-pg-2023": _network(
        "transformer-pg-2023", "transformer, frozen, under a layer trained by REINFORCE, as in Mirage, SC'23"
    ),
    "moe-dqn-2023": _network("moe-dqn-2023", "mixture of experts, regression and threshold, as in Mirage, SC'23"),
    "moe-pg-2023": _network(
        "moe-pg-2023", "mixture of experts, frozen, under a layer trained by REINFORCE, as in Mirage, SC'23"
    ),
}
"""Name → method."""


SPLIT_BY = ("mirage.learn.training.folds", "mirage.learn.training.trained_policy")
"""Modules that select a method's training data and what is stored with its model; training keys include them."""


def method_named(name: str) -> Method:
    """Finds a method by its name.

    Raises:
        UnknownName: The method does not exist; the message lists the known ones.
    """
    if name not in METHODS:
        raise UnknownName("method", name, METHODS)
    return METHODS[name]


def versions(names: Iterable[str]) -> tuple[str, ...]:
    """Versions of the packages of some methods and of numpy; empty for missing packages."""
    packages = sorted({"numpy", *(METHODS[name].package for name in names)})
    return tuple(f"{package} {installed_version(package)}" for package in packages)


def check_installed(names: Iterable[str]) -> None:
    """Checks, before hours of work, that all packages for training are installed.

    Args:
        names: The methods.

    Raises:
        ConfigurationError: A package is missing.
        UnknownName: A method does not exist.
    """
    if packages := [method_named(name).package for name in names]:
        check_packages("training", ["pyarrow", "safetensors", *packages])
    check_packages("a data set", ["pyarrow"])


def _found(entry: str) -> Any:
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name)
