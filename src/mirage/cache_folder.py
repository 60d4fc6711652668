"""The cache folder: compiled kernels and digests of source files, all reproducible."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Returns ``mirage`` in ``XDG_CACHE_HOME`` (default ``~/.cache``); it may not exist yet.

    A relative path does not count, as in the XDG specification.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", "")).expanduser()
    return (named if named.is_absolute() else Path("~/.cache").expanduser()) / "mirage"
