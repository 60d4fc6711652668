"""Files with the output of a command of Slurm."""

from __future__ import annotations

from pathlib import Path

from mirage.errors import ConfigurationError


def read_command_output(path: str | Path, command: str) -> str:
    """The text of a file with the output of a command.

    Args:
        path: The file.
        command: The command, for the message.

    Raises:
        ConfigurationError: It cannot be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}; write `{command}` to it") from error
