"""The folder of what can be made again: compiled kernels and digests of source files."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``mirage`` in ``XDG_CACHE_HOME``, by default in ``~/.cache``; it may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "mirage"
