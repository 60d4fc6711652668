"""Picture files: the supported kinds, and how they are written."""

from __future__ import annotations

import importlib
import importlib.util
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mirage.atomic_file import write_atomically
from mirage.errors import ConfigurationError

BY_MATPLOTLIB = (".png", ".pdf")
"""Kinds that need the extra ``plot``."""

_DPI = 150

_MISSING = 'needs matplotlib, which is not installed; run: pip install "mirage-hpc[plot]"'


def picture_kind(path: str | os.PathLike[str], kinds: Sequence[str]) -> str:
    """Returns the kind of picture that a file's name ends in.

    Args:
        path: The file.
        kinds: The supported kinds, such as ``.svg``.

    Raises:
        ConfigurationError: The kind is not supported, or needs matplotlib, which is missing.
    """
    kind = Path(path).suffix.lower()
    if kind not in kinds:
        named = (" or " if len(kinds) < 3 else ", ").join(kinds)
        raise ConfigurationError(f"cannot draw into {path}: its name must end in {named}")
    if kind in BY_MATPLOTLIB and importlib.util.find_spec("matplotlib") is None:
        others = " or ".join(other for other in kinds if other not in BY_MATPLOTLIB)
        raise ConfigurationError(f"a bitmap {_MISSING}, or draw into a {others} file")
    return kind


def new_figure(width_in: float, height_in: float, **options: Any) -> Any:
    """Returns an empty figure of matplotlib, in inches.

    Raises:
        ConfigurationError: matplotlib is not installed.
    """
    try:
        module: Any = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ConfigurationError(f"a plot {_MISSING}") from error
    return module.Figure(figsize=(width_in, height_in), **options)


def write_figure(figure: Any, path: str | os.PathLike[str]) -> None:
    """Writes a matplotlib figure of the kind that the file's name ends in; by default PNG.

    Raises:
        ConfigurationError: matplotlib does not support the kind, or the file cannot be written.
    """
    try:
        drawn = io.BytesIO()
        figure.savefig(drawn, dpi=_DPI, format=Path(path).suffix[1:].lower() or "png")
        write_atomically(path, drawn.getvalue())
    except OSError as error:
        raise ConfigurationError(f"cannot draw into {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"cannot draw into {path}: {error}") from error
