"""Picture files: the supported kinds, and how they are written."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from mirage.atomic_file import write_atomically, write_output
from mirage.errors import ConfigurationError
from mirage.report.picture import Picture
from mirage.report.png import MATPLOTLIB_MISSING, png_of
from mirage.report.svg import svg_file

BY_MATPLOTLIB = (".png", ".pdf")
"""Kinds that need the extra ``plot``."""

KINDS = (".svg", *BY_MATPLOTLIB)
"""Kinds of files that a picture can be written to."""


def picture_kind(path: str | os.PathLike[str], kinds: Sequence[str] = KINDS) -> str:
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
        raise ConfigurationError(f"a bitmap {MATPLOTLIB_MISSING}, or draw into a {others} file")
    return kind


def write_picture(picture: Picture, path: str | os.PathLike[str]) -> None:
    """Writes a picture into a file of the kind that its name ends in.

    Raises:
        ConfigurationError: An unknown kind, matplotlib is missing, or the file cannot be written.
    """
    kind = picture_kind(path)
    if kind == ".svg":
        write_output(path, svg_file(picture))
        return
    try:
        write_atomically(path, png_of(picture, kind[1:]))
    except OSError as error:
        raise ConfigurationError(f"cannot draw into {path}: {error.strerror}") from error
