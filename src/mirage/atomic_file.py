"""Files that appear under their name only when they are complete."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from pathlib import Path

from mirage.errors import ConfigurationError

_DESCRIPTOR = re.compile(r"/dev/(?P<stream>stdout|stderr)|/(dev|proc/self)/fd/(?P<number>\d+)")
_STREAMS = {"stdout": 1, "stderr": 2}


def write_atomically(path: str | os.PathLike[str], content: bytes, mode: int | None = None) -> None:
    """Writes a file atomically: to a temporary file in the same folder, then renamed.

    If writing fails, an existing file of that name is unchanged. A pipe or a device is written to directly, and so is
    the file behind ``/dev/stdout``, which may have been opened to append to it.

    Args:
        path: The file; a symbolic link is followed.
        content: The complete content.
        mode: Permissions of the file, before the umask is applied; by default those of an existing file, or all.

    Raises:
        OSError: The file cannot be written.
    """
    path = Path(path)
    if descriptor := _DESCRIPTOR.fullmatch(str(path)):
        if sys.stdout is not None:
            sys.stdout.flush()
        with open(os.dup(int(descriptor["number"] or _STREAMS[descriptor["stream"]])), "wb") as file:
            file.write(content)
        return
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        path.write_bytes(content)
        return
    target = path.resolve()
    if mode is None:
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666
    # process numbers repeat: on other hosts of a shared file system, in containers, and after a killed process
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def check_place(path: str | os.PathLike[str]) -> None:
    """Checks that a path leads to a place, whether or not a file is there.

    Args:
        path: The file or folder.

    Raises:
        ConfigurationError: The path is a loop of symbolic links, in a closed folder, or relative to a folder that is
            gone.
    """
    try:
        if not os.path.isabs(path):
            os.getcwd()
    except FileNotFoundError as error:
        raise ConfigurationError("the working directory is gone; change into one that exists") from error
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}; name another place") from error


def write_output(path: str | os.PathLike[str], content: str | bytes, mode: int | None = None) -> None:
    """Writes an output file of a command atomically.

    Args:
        path: The file; a symbolic link is followed.
        content: The complete content; in a text, what UTF-8 cannot encode becomes a question mark.
        mode: Permissions of the file, before the umask is applied; by default those of an existing file, or all.

    Raises:
        ConfigurationError: The file cannot be written; an existing file is unchanged.
        BrokenPipeError: It is a pipe, and nobody reads it.
    """
    try:
        write_atomically(path, content.encode("utf-8", "replace") if isinstance(content, str) else content, mode)
    except BrokenPipeError:  # the reader of a pipe has enough
        raise
    except OSError as error:
        raise ConfigurationError(f"cannot write {path}: {error.strerror}; name another place") from error
