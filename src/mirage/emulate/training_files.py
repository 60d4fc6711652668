"""The two files of an emulated training: its checkpoint and its progress.

Both are JSON and appear complete or not at all. ``docs/how-to/emulate.md`` describes their fields.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from mirage.atomic_file import write_output
from mirage.errors import ConfigurationError, reason, shown

VERSION = 1
_LEAST = {"batch": 1, "step": 0, "jobs": 1}


@dataclass(frozen=True, slots=True)
class SavedTraining:
    """A checkpoint.

    Attributes:
        model: The model.
        batch: Samples of an update.
        step: Updates done.
        work_s: Emulated seconds of all steps so far, of all jobs that resumed from this file.
        jobs: Number of jobs that contributed, 1 for the first.
    """

    model: str
    batch: int
    step: int
    work_s: float
    jobs: int


def write_checkpoint(path: Path, saved: SavedTraining) -> None:
    """Writes a checkpoint atomically.

    Raises:
        ConfigurationError: The file cannot be written; the former checkpoint is unchanged.
    """
    write_output(path, json.dumps({"version": VERSION, **asdict(saved)}) + "\n")


def read_checkpoint(path: Path, model: str) -> SavedTraining | None:
    """The checkpoint in a file; None without one.

    Raises:
        ConfigurationError: The file is no checkpoint, or that of another model.
    """
    if path.exists() and not path.is_file():  # /dev/full never ends, and a pipe waits for a writer
        raise ConfigurationError(f"{path}: a checkpoint is a regular file, and this is none; name another")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"{path}: cannot be read as a checkpoint: {reason(error)}; name another file, or remove it"
        ) from error
    names = {field.name for field in fields(SavedTraining)}
    is_one = isinstance(found, dict) and found.pop("version", None) == VERSION and set(found) == names
    if not is_one or not all(type(found[name]) is int and found[name] >= least for name, least in _LEAST.items()):
        raise ConfigurationError(f"{path}: {shown(found)} is no checkpoint of an emulated training; name another file")
    if found["model"] != model:
        raise ConfigurationError(f"{path}: a checkpoint of {found['model']}, not of {model}; name another file")
    return SavedTraining(**found)


def write_progress(path: Path, progress: dict[str, Any]) -> None:
    """Replaces the progress file.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    write_output(path, json.dumps({"version": VERSION, **progress}) + "\n")
