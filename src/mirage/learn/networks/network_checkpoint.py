"""Checkpoints of a training: weights, optimiser and figures after an epoch, in one file.

The format is safetensors; nothing is unpickled. A file is replaced in one step, so a training that was killed finds its
last complete epoch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError, reason

_METADATA_KEY = "mirage-training"

TrainingState = dict[str, NDArray[Any]]


def state_of(modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer) -> TrainingState:
    """Everything the next epoch depends on: weights of all modules, and optimiser state."""
    found = {f"{name}/{key}": _copied(value) for name, module in modules.items() for key, value in _weights(module)}
    for index, memory in optimiser.state_dict()["state"].items():
        found |= {f"optimiser/{index}/{key}": _copied(value) for key, value in memory.items()}
    return found


def restore(modules: Mapping[str, nn.Module], optimiser: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Loads a state into modules and optimiser of the same shapes."""
    for name, module in modules.items():
        load_weights(module, {key[len(name) + 1 :]: value for key, value in state.items() if _under(key, name)})
    memory: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in state.items():
        if _under(key, "optimiser"):
            _, index, what = key.split("/")
            memory.setdefault(int(index), {})[what] = torch.from_numpy(value.copy())
    optimiser.load_state_dict({"state": memory, "param_groups": optimiser.state_dict()["param_groups"]})


def weights_of_module(module: nn.Module) -> TrainingState:
    """Copies of a module's weights by name."""
    return {key: _copied(value) for key, value in _weights(module)}


def load_weights(module: nn.Module, weights: Mapping[str, NDArray[Any]]) -> None:
    """Loads weights into a module with the same names and shapes."""
    module.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in weights.items()})


def checkpoint_path(folder: Path | None, stage: str, seed: int, epochs: int) -> Path | None:
    """The checkpoint of a stage in a folder that methods share; None without a folder."""
    return None if folder is None else folder / f"{stage}-seed{seed}-epochs{epochs}.safetensors"


def write_checkpoint(path: Path, state: TrainingState, metadata: Mapping[str, Any]) -> None:
    """Replaces the file of a checkpoint."""
    import safetensors.numpy

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(
        path, safetensors.numpy.save(state, metadata={_METADATA_KEY: json.dumps(metadata, sort_keys=True)})
    )


def read_checkpoint(path: Path) -> tuple[TrainingState, dict[str, Any]]:
    """The state in a checkpoint, and its metadata.

    Raises:
        ConfigurationError: The file is not a checkpoint, or was cut short.
    """
    import safetensors

    try:
        with safetensors.safe_open(path, framework="np") as file:
            metadata = json.loads((file.metadata() or {})[_METADATA_KEY])
            names = file.keys()
            return {name: file.get_tensor(name) for name in names}, metadata
    except (safetensors.SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"{path} is not a checkpoint of a training ({reason(error)}); remove it to start from the beginning"
        ) from error


def _weights(module: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return list(module.state_dict().items())


def _copied(value: torch.Tensor) -> NDArray[Any]:
    """A contiguous copy: the training changes the original."""
    return np.array(value.detach().numpy(), order="C", copy=True)


def _under(key: str, name: str) -> bool:
    return key.startswith(f"{name}/")
