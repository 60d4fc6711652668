"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from mirage.errors import ConfigurationError


def write_whole(path: str | os.PathLike[str], content: bytes, mode: int = 0o666) -> None:
    """A file written beside its place and put there in one step.

    Whatever goes wrong, an older file of that name is still what it was. A pipe or a device is written to directly.

    Args:
        path: The file; a symbolic link is followed.
        content: All of it.
        mode: Permissions of the file, less what the umask takes away.

    Raises:
        OSError: The file cannot be written.
    """
    path = Path(path)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        path.write_bytes(content)
        return
    target = path.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise


def write_output(path: str | os.PathLike[str], content: str | bytes, mode: int = 0o666) -> None:
    """A file that the user asked for, whole; of text, what UTF-8 cannot hold becomes a question mark.

    Args:
        path: The file, as for ``write_whole``.
        content: All of it.
        mode: Permissions of the file, less what the umask takes away.

    Raises:
        ConfigurationError: The file cannot be written; what was there before is untouched.
    """
    try:
        write_whole(path, content.encode("utf-8", "replace") if isinstance(content, str) else content, mode)
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}; name another place") from error
