"""Text files of users, with errors that name the file and the remedy."""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

from mirage.errors import ConfigurationError, reason


def unreadable(error: OSError) -> str:
    """Returns why a file of the user cannot be read, and what to do."""
    remedies = {
        errno.ENOENT: "name one that exists",
        errno.EACCES: "name one that you can read",
        errno.EISDIR: "name a file",
    }
    return f"{reason(error)}; {remedies.get(error.errno or 0, 'name another')}"


def is_device(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a device such as ``/dev/zero``, which may have no end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError, TypeError):  # to read it reports the reason
        return False
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def read_text_file(path: str | os.PathLike[str], remedy: str, *, at_rest: bool = False) -> str:
    """Returns the text of a file in UTF-8, without a byte order mark.

    Args:
        path: The file.
        remedy: What to do if it cannot be read, for the message.
        at_rest: Whether only a regular file is read. Set it for a file with a fixed name, which no user has given in
            this command: to open a pipe there would wait for a writer that never comes.

    Raises:
        FileNotFoundError: There is no such file, and ``at_rest`` is set: such a file is optional.
        ConfigurationError: It cannot be read, is a device, or is not text in UTF-8.
    """
    if is_device(path):
        raise ConfigurationError(f"cannot read {path}: it is a device, which may have no end; {remedy}")
    try:
        if at_rest and not stat.S_ISREG(os.stat(path).st_mode):
            raise ConfigurationError(f"cannot read {path}: it is not a file; {remedy}")
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        if at_rest and isinstance(error, FileNotFoundError):
            if os.path.islink(path):
                raise ConfigurationError(f"cannot read {path}: it is a link to a missing file; {remedy}") from error
            raise
        raise ConfigurationError(f"cannot read {path}: {reason(error)}; {remedy}") from error


def read_toml_file(path: str | os.PathLike[str], remedy: str, *, at_rest: bool = False) -> dict[str, Any]:
    """Returns the content of a TOML file; its arguments are those of ``read_text_file``.

    Raises:
        FileNotFoundError: As in ``read_text_file``.
        ConfigurationError: It cannot be read, or is not TOML.
    """
    return parse_toml(read_text_file(path, remedy, at_rest=at_rest), path)


def parse_toml(text: str, path: str | os.PathLike[str]) -> dict[str, Any]:
    """Returns the content of a TOML text.

    Args:
        text: The text.
        path: Its file, for the message.

    Raises:
        ConfigurationError: It is not TOML.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is a ValueError of its own
        raise ConfigurationError(f"{path} is not TOML: {reason(error)}; correct it there") from error
