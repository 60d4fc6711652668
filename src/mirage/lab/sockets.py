"""The longest path of a Unix socket, and a check of a directory's sockets."""

from __future__ import annotations

from pathlib import Path

from mirage.errors import ConfigurationError

LONGEST_BYTES = 107
"""``sun_path`` of Linux holds 108 bytes, the last of them a zero (unix(7))."""


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
