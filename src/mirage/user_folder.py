"""Folders of the user: named by a variable, or in the home folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mirage.errors import ConfigurationError


def user_folder(environment: Mapping[str, str], variable: str, name: str) -> Path:
    """Returns the folder of a variable; by default that name in the home folder.

    A relative path does not count, as in the XDG specification.

    Raises:
        ConfigurationError: No home folder is known.
    """
    try:
        named = Path(environment.get(variable, "")).expanduser()
        return named if named.is_absolute() else Path(environment.get("HOME") or "~").expanduser() / name
    except RuntimeError as error:  # the user has no entry in the password database
        raise ConfigurationError(f"no home folder is known: set HOME or {variable}") from error
