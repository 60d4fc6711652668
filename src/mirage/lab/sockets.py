"""Checks of the path of a lab: Slurm can read it, and it is short enough for sockets."""

from __future__ import annotations

from pathlib import Path

from mirage.errors import ConfigurationError, shown

LONGEST_BYTES = 107
"""``sun_path`` of Linux holds 108 bytes, the last of them a zero (unix(7))."""


_SPECIAL = "#%,[]\\"
"""A comment, a name of the node, the end of an option, a list of hosts, and an escape: slurm.conf can quote none."""


def require_plain_path(directory: Path) -> None:
    """Check that a path has no space and no character with a meaning in Slurm's files.

    Raises:
        ConfigurationError: It has.
    """
    for character in str(directory):
        if character.isspace() or character in _SPECIAL:
            named = "a space" if character.isspace() else shown(character)
            raise ConfigurationError(
                f"{shown(str(directory))}: Slurm reads no path with {named}; choose another directory"
            )


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
