"""The longest path of a Unix socket, and a refusal where a directory's sockets would be longer."""

from __future__ import annotations

from pathlib import Path

from mirage.errors import ConfigurationError

LONGEST_BYTES = 107
"""``sun_path`` of Linux holds 108 bytes, the last of them a zero (unix(7))."""


def require_short_path(directory: Path, socket: Path) -> None:
    """Refuse a directory in which a socket's path would be too long.

    Args:
        directory: What the user chose.
        socket: The longest socket in it.

    Raises:
        ConfigurationError: It says by how many bytes.
    """
    if (over := len(bytes(socket)) - LONGEST_BYTES) > 0:
        raise ConfigurationError(
            f"{directory} is too long a path for a Unix socket, by {over} bytes; choose a shorter one"
        )
