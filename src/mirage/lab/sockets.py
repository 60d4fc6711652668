"""Checks of a directory for a lab: no space in its path, and short enough for sockets."""

from __future__ import annotations

from pathlib import Path

from mirage.errors import ConfigurationError, shown

LONGEST_BYTES = 107
"""``sun_path`` of Linux holds 108 bytes, the last of them a zero (unix(7))."""


def require_one_word(directory: Path) -> None:
    """Check that a directory's path has no space: slurm.conf has no way to quote one.

    Raises:
        ConfigurationError: It has.
    """
    if any(character.isspace() for character in str(directory)):
        raise ConfigurationError(f"{shown(directory)}: Slurm reads no path with a space; choose another directory")


def require_short_path(directory: Path, socket: Path) -> None:
    """Check that a socket's path in a directory is not too long.

    Args:
        directory: The user's choice.
        socket: The longest socket in it.

    Raises:
        ConfigurationError: The path is too long; the message contains by how many bytes.
    """
    if (over := len(bytes(socket)) - LONGEST_BYTES) > 0:
        raise ConfigurationError(
            f"{directory} is too long a path for a Unix socket, by {over} bytes; choose a shorter one"
        )
