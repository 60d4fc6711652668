"""Learning curves for TensorBoard: event files, one run for each training."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mirage.errors import ConfigurationError
from mirage.extras import install


def write_event_files(curves: Mapping[str, NDArray[Any]], folder: Path) -> None:
    """Writes one event file for each training, in a folder of its name.

    Args:
        curves: ``training/curve`` → its values by round.
        folder: The folder for ``tensorboard --logdir``; existing files stay.

    Raises:
        ConfigurationError: TensorBoard is not installed, or the folder cannot be written.
    """
    try:
        event: Any = import_module("tensorboard.compat.proto.event_pb2")
        summary: Any = import_module("tensorboard.compat.proto.summary_pb2")
        files: Any = import_module("tensorboard.summary.writer.event_file_writer")
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"learning curves as event files need TensorBoard, which is not installed; run: {install('learn')}"
        ) from error
    try:
        for run, of_run in by_run(curves).items():
            writer = files.EventFileWriter(str(folder / run))
            for name, values in of_run.items():
                for step, value in enumerate(values.tolist()):
                    event_summary = summary.Summary(value=[summary.Summary.Value(tag=name, simple_value=value)])
                    writer.add_event(event.Event(step=step, wall_time=float(step), summary=event_summary))
            writer.close()
    except OSError as error:
        raise ConfigurationError(f"cannot write learning curves to {folder}: {error.strerror}") from error


def by_run(curves: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, NDArray[Any]]]:
    """Training → its curves by name."""
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for whole, values in curves.items():
        run, _, name = whole.rpartition("/")
        found.setdefault(run, {})[name] = values
    return found
