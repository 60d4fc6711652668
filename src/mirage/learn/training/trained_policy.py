"""Trained policies in model files: a model for each link size, ranges, and a card."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mirage.errors import ConfigurationError, ModelFileError, reason
from mirage.learn.features.repeats import REPEATS
from mirage.learn.hand_overs import HandOvers
from mirage.learn.ranges import REPEATS_BEYOND, Ranges
from mirage.learn.regression.model_contract import Model, TrainingSettings, choices, inputs_at
from mirage.learn.training.methods import METHODS, method_named
from mirage.learn.training.stored_steps import StoredSteps
from mirage.predict.model_file import Feature, ModelCard, TrainedOn, read_model_file, write_model_file

KIND, SCHEMA = "hand-overs", 1
WHAT_IF = "what-if"
"""The method of a link size for which no learned method has been shown to be better."""

_UNITS = {"_h": "h", "_s": "s", "_nodes": "nodes", "_share": "1"}


@dataclass(frozen=True, slots=True, eq=False)
class LinkSizeModel:
    """The model for links of one size.

    Attributes:
        method: Its name; ``WHAT_IF`` without a model.
        model: The model.
        ranges: Training ranges of the features it reads; of none where it reads the history.
        repeats: Training ranges of repeats; None where it has no ranges, or its data have no repeats.
    """

    method: str
    model: Model | None = None
    ranges: Ranges | None = None
    repeats: Ranges | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TrainedPolicy:
    """A trained policy.

    Attributes:
        parts: Nodes of a link → its part.
        trained_on: Its training data.
        figures: Validation figures by name.
        futures: Futures of the forecasts in its training data; 0 without forecasts.
        chosen: How the methods were chosen, for the card; JSON values.
    """

    parts: Mapping[int, LinkSizeModel]
    trained_on: TrainedOn
    figures: Mapping[str, float]
    futures: int = 0
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def card(self) -> ModelCard:
        """The card of the model file."""
        inputs = dict.fromkeys(name for part in self.parts.values() if part.model for name in part.model.inputs)
        sizes = {
            str(nodes): {
                "method": part.method,
                "inputs": list(part.model.inputs) if part.model else [],
                "settings": part.model.settings() if part.model else {},
                "repeats": list(part.repeats.names) if part.repeats else [],
            }
            for nodes, part in sorted(self.parts.items())
        }
        features = tuple(Feature(name, _unit(name)) for name in inputs)
        settings = {"sizes": sizes, "futures": self.futures, "chosen": dict(self.chosen)}
        return ModelCard(KIND, SCHEMA, features, self.trained_on, self.figures, settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file in one step.

        Raises:
            OSError: The file cannot be written.
        """
        arrays: dict[str, NDArray[Any]] = {}
        for nodes, part in self.parts.items():
            model = part.model.as_arrays() if part.model else {}
            ranges = part.ranges.as_arrays() if part.ranges else {}
            repeats = part.repeats.as_arrays() if part.repeats else {}
            arrays |= {f"{nodes}/model/{name}": values for name, values in model.items()}
            arrays |= {f"{nodes}/ranges/{name}": values for name, values in ranges.items()}
            arrays |= {f"{nodes}/repeats/{name}": values for name, values in repeats.items()}
        write_model_file(path, self.card, arrays)


def read_trained(path: str | os.PathLike[str]) -> TrainedPolicy:
    """Reads the trained policy in a file.

    Raises:
        ConfigurationError: A package that its models need is not installed.
        ModelFileError: The file does not exist, is damaged, holds another model, or one of a newer version.
    """
    file = read_model_file(path, KIND, SCHEMA)
    try:
        sizes = file.card.settings["sizes"]
        parts = {int(nodes): _part(nodes, entry, file.arrays) for nodes, entry in sizes.items()}
        futures, chosen = int(file.card.settings["futures"]), file.card.settings["chosen"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        cause = reason(error) if isinstance(error, KeyError) else "their description has another form"
        raise ModelFileError(f"{path}: its models cannot be read ({cause}); train it again") from error
    return TrainedPolicy(parts, file.card.trained_on, file.card.figures, futures, chosen)


def train_link_size(
    method: str, data: HandOvers, tune: HandOvers, settings: TrainingSettings, steps: StoredSteps | None = None
) -> LinkSizeModel:
    """Trains a model for one link size; returns it with its training ranges.

    Args:
        method: Name of the method.
        data: Decisions about links of that size.
        tune: Later decisions.
        settings: Seed and bounds.
        steps: Where steps are stored.

    Raises:
        UnknownName: The method does not exist.
        ConfigurationError: The data lack an input of the method or decisions with a choice, or a package is missing.
    """
    if not all(len(choices(of)) for of in (data, tune)):
        raise ConfigurationError(
            "the data have no decision before the end of a link, as decisions are further apart than a link is long; "
            "make them with a smaller --step"
        )
    model = method_named(method).train()(data, tune, settings, steps or StoredSteps())
    if not model.inputs:
        return LinkSizeModel(method, model)
    values = np.concatenate([inputs_at(of, choices(of)).columns(model.inputs) for of in (data, tune)])
    return LinkSizeModel(method, model, Ranges.of(values, model.inputs), _repeats(data, tune))


def _repeats(*parts: HandOvers) -> Ranges | None:
    """Ranges of the repeats in some data; None where none are known."""
    known = [part.repeats for part in parts if part.repeats is not None and part.has_repeats]
    return Ranges.of(np.concatenate(known), REPEATS, REPEATS_BEYOND) if known else None


def _part(nodes: str, entry: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> LinkSizeModel:
    """Reads the part of one link size from a file."""
    method = str(entry["method"])
    if method == WHAT_IF:
        return LinkSizeModel(method)
    if method not in METHODS:
        raise ValueError(f"unknown method {method}")
    model = METHODS[method].model_class().from_arrays(_within(arrays, f"{nodes}/model/"), entry["settings"])
    inputs, repeats = tuple(entry["inputs"]), tuple(entry.get("repeats", ()))  # older files have no repeats
    return LinkSizeModel(
        method,
        model,
        Ranges.from_arrays(_within(arrays, f"{nodes}/ranges/"), inputs) if inputs else None,
        Ranges.from_arrays(_within(arrays, f"{nodes}/repeats/"), repeats) if repeats else None,
    )


def _within(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}


def _unit(name: str) -> str:
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), "count")
