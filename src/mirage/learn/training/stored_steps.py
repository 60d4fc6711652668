"""Steps of a training that survive a power cut: each is stored when done, and done once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError
from mirage.learn.hand_overs import HandOvers
from mirage.learn.regression.model_contract import Arrays
from mirage.learn.training.methods import METHODS, SPLIT_BY, versions
from mirage.study.trial import code_key, key_of

CURVE = "curve/"
"""Prefix of a step's arrays that are learning curves."""


@dataclass(slots=True)
class StoredSteps:
    """Steps in a folder, one file each; a truncated file is made again.

    Attributes:
        folder: Where steps are stored; None to store nothing.
        progress: Called with the name of every finished step.
        curves: The learning curves of all steps so far, by step and curve.
        location: Location of these steps among all, for names.
    """

    folder: Path | None = None
    progress: Callable[[str], None] | None = None
    curves: dict[str, NDArray[Any]] = field(default_factory=dict)
    location: str = ""

    def under(self, location: str) -> Self:
        """Steps of a part of the work, in a subfolder; curves and progress are shared."""
        whole = f"{self.location}/{location}" if self.location else location
        return type(self)(self.folder, self.progress, self.curves, whole)

    @property
    def checkpoints(self) -> Path | None:
        """The parent folder of these steps; its other steps learn from the same data."""
        return None if self.folder is None else self.folder / self.location.rpartition("/")[0]

    def report(self, words: str) -> None:
        """Reports the progress of a long step."""
        if self.progress is not None:
            self.progress(f"{self.location}, {words}" if self.location else words)

    def done(self, name: str, make: Callable[[], Mapping[str, NDArray[Any]]]) -> Arrays:
        """The arrays of a step, made now or read back.

        Raises:
            ConfigurationError: The folder cannot be written.
        """
        whole = f"{self.location}/{name}" if self.location else name
        path = None if self.folder is None else self.folder / f"{whole}.safetensors"
        found = None if path is None else _read(path)
        if found is None:
            found = dict(make())
            if path is not None:
                _write(path, found)
        for key, values in found.items():
            if key.startswith(CURVE):
                self.curves[f"{whole}/{key.removeprefix(CURVE)}"] = values
        if self.progress is not None:
            self.progress(whole)
        return {key: values for key, values in found.items() if not key.startswith(CURVE)}


def training_key(data: HandOvers, *settings: object) -> str:
    """Digest of everything that determines a training: data, settings, and training code."""
    columns = (data.window_s, data.link_nodes, data.time_s, data.outcome_s, data.features, data.snapshots)
    trainers = {method.trainer.partition(":")[0] for method in METHODS.values()}
    code = code_key([*SPLIT_BY, *trainers])
    return key_of(code, versions(METHODS), settings, *(values.tobytes() for values in columns))


def _read(path: Path) -> dict[str, NDArray[Any]] | None:
    """The arrays in a file; None if it does not exist or cannot be read."""
    import safetensors.numpy

    try:
        return dict(safetensors.numpy.load(path.read_bytes()))
    except (OSError, ValueError, KeyError, safetensors.SafetensorError):
        return None


def _write(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    import safetensors.numpy

    whole = {name: np.ascontiguousarray(values) for name, values in arrays.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, safetensors.numpy.save(whole))
    except OSError as error:
        raise ConfigurationError(f"cannot store steps of the training in {path.parent}: {error.strerror}") from error
