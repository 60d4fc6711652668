"""Checkpoints of a training: network, Adam's state and progress, in one file with JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from mirage.errors import ModelFileError
from mirage.predict.model_file import ModelCard, TrainedOn, read_model_file, write_model_file
from mirage.study.work_journal import check_plan

_KIND, _SCHEMA = "dag-training", 1


def save_checkpoint(
    path: Path, network: torch.nn.Module, optimizer: torch.optim.Optimizer, settings: Mapping[str, Any]
) -> None:
    """Writes a checkpoint in one step.

    Args:
        path: The file.
        network: Its parameters are stored.
        optimizer: Its state is stored.
        settings: Everything else, JSON values, the plan among it.
    """
    arrays = {f"network.{name}": values.numpy() for name, values in network.state_dict().items()}
    for place, remembered in optimizer.state_dict()["state"].items():
        arrays |= {f"optimizer.{place}.{name}": values.numpy() for name, values in remembered.items()}
    write_model_file(path, ModelCard(_KIND, _SCHEMA, (), TrainedOn("", 0, 0, 0), settings=settings), arrays)


def load_checkpoint(
    path: Path, network: torch.nn.Module, optimizer: torch.optim.Optimizer, plan: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """Restores a checkpoint; returns its settings, or None where there is no file.

    Raises:
        ConfigurationError: It belongs to a training with another plan; the message lists the differences.
        ModelFileError: It is not a checkpoint.
    """
    if not path.exists():
        return None
    held = read_model_file(path, _KIND, _SCHEMA)
    check_plan(path, held.card.settings.get("plan"), plan)
    state: dict[int, dict[str, torch.Tensor]] = {}
    weights: dict[str, torch.Tensor] = {}
    for name, values in held.arrays.items():
        part, _, rest = name.partition(".")
        if part == "network":
            weights[rest] = torch.from_numpy(values.copy())
        else:
            place, _, what = rest.partition(".")
            state.setdefault(int(place), {})[what] = torch.from_numpy(values.copy())
    try:
        network.load_state_dict(weights)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    except (KeyError, RuntimeError, ValueError) as error:
        raise ModelFileError(f"{path} does not fit the network of this version ({error}); remove it") from error
    return held.card.settings
