"""Files of pictures: which kinds may be asked for, and how they are written."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from mirage.errors import ConfigurationError
from mirage.whole_file import write_whole

BY_MATPLOTLIB = (".png", ".pdf")
"""Kinds that the extra ``plot`` draws."""


def picture_kind(path: str | os.PathLike[str], kinds: Sequence[str]) -> str:
    """The kind of picture that a file's name asks for.

    Args:
        path: The file.
        kinds: Those that can be drawn, as ``.svg``.

    Raises:
        ConfigurationError: It is none of these, or matplotlib is missing for it.
    """
    kind = Path(path).suffix.lower()
    if kind not in kinds:
        named = (" or " if len(kinds) < 3 else ", ").join(kinds)
        raise ConfigurationError(f"cannot draw into {path}: its name must end in {named}")
    if kind in BY_MATPLOTLIB and importlib.util.find_spec("matplotlib") is None:
        others = " or ".join(other for other in kinds if other not in BY_MATPLOTLIB)
        raise ConfigurationError(
            'a bitmap needs matplotlib, which is not installed; run: pip install "mirage-hpc[plot]", or draw into a '
            f"{others} file"
        )
    return kind


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a drawing, a page or figures as text.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}") from error
