"""Files of networks: published weights of Decima (npz), and our own models (safetensors).

Both contain arrays only and are never unpickled.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mirage.dag.decima.networks.graph_network import SHAPES
from mirage.dag.decima.networks.layers import Floats32, Perceptrons, perceptrons
from mirage.dag.decima.own_features import NAMES
from mirage.errors import ModelFileError, reason
from mirage.predict.model_file import Feature, ModelCard, TrainedOn, read_model_file, write_model_file

KIND, SCHEMA = "dag-decisions", 1

DECIMA_2019, SPARK_SCHED_SIM = "decima-2019", "spark-sched-sim"
"""The two architectures: a limit for the whole job, and executors to add to a stage."""

_GRAPH_LAYERS_2019 = 15
_HEAD_LAYERS_2019 = 8
_PERCEPTRONS = (
    "encoder.node_encoder.mlp_prep",
    "encoder.node_encoder.mlp_msg",
    "encoder.node_encoder.mlp_update",
    "encoder.dag_encoder.mlp",
    "encoder.global_encoder.mlp",
    "stage_policy_network.mlp_score",
    "exec_policy_network.mlp_score",
)
PUBLISHED_SHAPES: Mapping[str, tuple[tuple[int, int], ...]] = {
    DECIMA_2019: (
        *((5, 16), (16, 8), (8, 8)),
        *((8, 16), (16, 8), (8, 8)) * 2,
        *((13, 16), (16, 8), (8, 8)),
        *((8, 16), (16, 8), (8, 8)),
        *((29, 32), (32, 16), (16, 8), (8, 1)),
        *((20, 32), (32, 16), (16, 8), (8, 1)),
    ),
    SPARK_SCHED_SIM: (
        *((5, 32), (32, 16), (16, 16)),
        *((16, 32), (32, 16), (16, 16)) * 2,
        *((21, 32), (32, 16), (16, 16)),
        *((16, 32), (32, 16), (16, 16)),
        *((53, 64), (64, 64), (64, 1)),
        *((36, 64), (64, 64), (64, 1)),
    ),
}
"""Inputs and outputs of each layer: preparation, message, aggregation, job summary, global summary, and two heads."""


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
        _check_finite(path, place, weight, bias, "train the network again")
        layers.append((weight.astype(np.float32), bias.astype(np.float32)))
    return perceptrons(layers)


def read_published(path: str | os.PathLike[str]) -> tuple[str, Perceptrons]:
    """Reads the architecture and the layers from a file of published weights.

    Args:
        path: An npz file with the arrays of a TensorFlow checkpoint (SIGCOMM 2019), or of a PyTorch state
            (spark-sched-sim), by their names there.

    Returns:
        ``DECIMA_2019`` or ``SPARK_SCHED_SIM``, and the layers: preparation, message, aggregation, job summary, global
        summary, stage head, head of the limits or numbers.

    Raises:
        ModelFileError: There is no such file, it is no npz file, or its arrays are of neither architecture.
    """
    arrays = _arrays(Path(path))
    if "actor_agent__Variable" in arrays:
        architecture, layers = DECIMA_2019, _layers_2019(path, arrays)
    else:
        architecture, layers = SPARK_SCHED_SIM, _layers_spark(path, arrays)
    for place, ((weights, biases), shape) in enumerate(zip(layers, PUBLISHED_SHAPES[architecture], strict=True)):
        if weights.shape != shape or biases.shape != shape[1:]:
            raise ModelFileError(
                f"{path}: layer {place} has weights of shape {weights.shape} and biases of {biases.shape}, but"
                f" {architecture} has {shape} and {shape[1:]}; give the weights of one of the published architectures"
            )
        _check_finite(path, place, weights, biases, "copy the file again")
    return architecture, perceptrons(layers)


def _check_finite(path: str | os.PathLike[str], place: int, weights: Floats32, biases: Floats32, remedy: str) -> None:
    if not (np.isfinite(weights).all() and np.isfinite(biases).all()):
        raise ModelFileError(f"{path}: layer {place} contains numbers that are not finite; {remedy}")


def _arrays(path: Path) -> dict[str, Floats32]:
    """The arrays of a file by name; numbers too large for their type become infinite."""
    try:
        with np.load(path, allow_pickle=False) as held, np.errstate(over="ignore"):
            return {name: held[name].astype(np.float32, casting="same_kind") for name in held.files}
    except FileNotFoundError as error:
        raise ModelFileError(f"{path}: no such file; give an npz file of Decima's weights") from error
    except (OSError, EOFError, ValueError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        raise ModelFileError(
            f"{path} cannot be read as an npz file of plain arrays: {reason(error)}; copy the file again"
        ) from error


def _layers_2019(path: str | os.PathLike[str], arrays: dict[str, Floats32]) -> list[tuple[Floats32, Floats32]]:
    """Layers of the TensorFlow checkpoint: 15 numbered pairs, then 8 connected layers."""

    def variable(number: int) -> Floats32:
        return _named(path, arrays, f"actor_agent_{number}__Variable" if number else "actor_agent__Variable")

    def connected(number: int, what: str) -> Floats32:
        return _named(path, arrays, f"actor_agent__fully_connected{f'_{number}' if number else ''}__{what}")

    graph = [(variable(2 * pair), variable(2 * pair + 1)) for pair in range(_GRAPH_LAYERS_2019)]
    return graph + [(connected(n, "weights"), connected(n, "biases")) for n in range(_HEAD_LAYERS_2019)]


def _layers_spark(path: str | os.PathLike[str], arrays: dict[str, Floats32]) -> list[tuple[Floats32, Floats32]]:
    """Layers of the PyTorch state: three of each perceptron, weights output by input."""
    return [
        (_named(path, arrays, f"{name}.{place}.weight").T, _named(path, arrays, f"{name}.{place}.bias"))
        for name in _PERCEPTRONS
        for place in (0, 2, 4)
    ]


def _named(path: str | os.PathLike[str], arrays: dict[str, Floats32], name: str) -> Floats32:
    if name not in arrays:
        raise ModelFileError(
            f"{path}: there is no array {name!r}; give the weights of one of the published architectures"
        )
    return arrays[name]
