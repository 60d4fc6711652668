"""The cache folder: compiled kernels and digests of source files, all reproducible."""

from __future__ import annotations

import os
from pathlib import Path

from mirage.user_folder import user_folder


def cache_folder() -> Path:
    """Returns ``mirage`` in ``XDG_CACHE_HOME`` (default ``~/.cache``); it may not exist yet.

    A relative path does not count, as in the XDG specification.

    Raises:
        ConfigurationError: No home folder is known.
    """
    return user_folder(os.environ, "XDG_CACHE_HOME", ".cache") / "mirage"
