"""Files of our own graph network: safetensors with a card, as for all models."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from mirage.dag.decima.networks.graph_network import SHAPES
from mirage.dag.decima.networks.layers import Perceptrons, perceptrons
from mirage.dag.decima.own_features import NAMES
from mirage.errors import ModelFileError
from mirage.predict.model_file import Feature, ModelCard, TrainedOn, read_model_file, write_model_file

KIND, SCHEMA = "dag-decisions", 1


def write_network(
    path: str | os.PathLike[str],
    net: Perceptrons,
    *,
    jobs: int,
    figures: Mapping[str, float],
    settings: Mapping[str, Any],
) -> None:
    """Writes a trained network to a file.

    Args:
        path: The file.
        net: The network.
        jobs: Number of jobs in its training.
        figures: Of its evaluation, by name.
        settings: Settings of its training; JSON values.

    Raises:
        ConfigurationError: The extra ``predict`` is not installed.
        OSError: The file cannot be written.
    """
    card = ModelCard(
        kind=KIND,
        schema=SCHEMA,
        features=tuple(Feature(name, "1") for name in NAMES),
        trained_on=TrainedOn("simulated jobs of stages", 0, 0, jobs),
        figures=figures,
        settings=settings,
    )
    arrays = {}
    for place, (begin, inputs, outputs) in enumerate(net.layers.tolist()):
        middle = begin + inputs * outputs
        arrays[f"layer.{place:02d}.weight"] = net.numbers[begin:middle].reshape(inputs, outputs)
        arrays[f"layer.{place:02d}.bias"] = net.numbers[middle : middle + outputs]
    write_model_file(path, card, arrays)


def read_network(path: str | os.PathLike[str]) -> Perceptrons:
    """Reads the network in a file.

    Raises:
        ConfigurationError: The extra ``predict`` is not installed.
        ModelFileError: The file contains no such network.
    """
    held = read_model_file(path, KIND, SCHEMA)
    names = tuple(feature.name for feature in held.card.features)
    if names != NAMES:
        raise ModelFileError(f"{path} uses other features than this version; train the network again")
    layers = []
    for place, shape in enumerate(SHAPES):
        weight, bias = (held.arrays.get(f"layer.{place:02d}.{what}", np.zeros(0)) for what in ("weight", "bias"))
        if weight.shape != shape or bias.shape != shape[1:]:
            raise ModelFileError(
                f"{path}: layer {place} has the shape {weight.shape} instead of {shape}; train the network again"
            )
        layers.append((weight.astype(np.float32), bias.astype(np.float32)))
    return perceptrons(layers)
