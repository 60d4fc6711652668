"""Checks of the files that commands write, before the work starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from mirage.atomic_file import check_place
from mirage.errors import ConfigurationError


def check_output(path: str | os.PathLike[str], *inputs: str | os.PathLike[str] | None) -> None:
    """Checks before the work that an output file can be written after it.

    Args:
        path: The output.
        inputs: Files that the command reads; None where an option was not given.

    Raises:
        ConfigurationError: The name is empty or ``-``, the folder is absent or not writable, the working directory is
            gone, or the path is a folder, an input, a read-only file or a loop of symbolic links.
    """
    if not os.fspath(path):
        raise ConfigurationError("the name of the file to write is empty; name a file")
    if os.fspath(path) == "-":
        raise ConfigurationError("cannot write -: standard output is /dev/stdout, and a file of this name is ./-")
    place = Path(path)
    check_place(path)
    for one in [Path(name) for name in inputs if name]:
        if place.is_file() and one.is_file() and place.samefile(one):
            raise ConfigurationError(f"cannot write {path}: it is the file that is read; name another")
    if place.is_dir():
        raise ConfigurationError(f"cannot write {path}: it is a folder; name a file")
    if not place.parent.is_dir():
        raise ConfigurationError(f"cannot write {path}: there is no folder {place.parent}; make it, or name another")
    regular = place.is_file() or not place.exists()
    if place.exists() and not os.access(place, os.W_OK):
        raise ConfigurationError(f"cannot write {path}: the file is read-only; make it writable, or name another")
    if not os.access(place.resolve().parent if regular else place, os.W_OK):
        raise ConfigurationError(f"cannot write {path}: permission denied; name another place")


def check_distinct(*outputs: str | None) -> None:
    """Checks that no two outputs of a command are one file, of which only the last would stay.

    Raises:
        ConfigurationError: Two are.
    """
    files = [Path(one).resolve() for one in outputs if one and (Path(one).is_file() or not Path(one).exists())]
    for number, file in enumerate(files):
        if file in files[:number]:
            raise ConfigurationError(f"cannot write two outputs to {file}; name two files")


def check_page(path: str | os.PathLike[str], *inputs: str | None) -> None:
    """Checks before the work that an HTML page can be written after it.

    Args:
        path: The page.
        inputs: Files that the command reads; None where an option was not given.

    Raises:
        ConfigurationError: ``check_output`` raises it, or the name of a regular file does not end in ``.html``.
    """
    check_output(path, *inputs)
    place = Path(path)
    if place.suffix.lower() != ".html" and (place.is_file() or not place.exists()):
        raise ConfigurationError(f"cannot write {path}: it is a page, so its name must end in .html")


def echo_outcome(text: str) -> None:
    """Prints the outcome of a change that has taken place, whatever happens to the output.

    An output that cannot be written (a full disk, a closed pipe) is only a warning with the text: an error would make
    a script repeat the change.
    """
    try:
        click.echo(text)
        sys.stdout.flush()
    except OSError as error:
        discard_stdout()
        click.echo(f"mirage: warning: cannot write the output: {error.strerror}; it is done: {text}", err=True)


def discard_stdout() -> None:
    """Redirects standard output to /dev/null, so that Python reports no second error at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def as_policy(path: str) -> str:
    """Returns a file as a policy name: with a folder in front, even for the current folder."""
    return path if os.sep in path else f".{os.sep}{path}"


def checkpoint_of(out: str) -> Path | None:
    """Returns the checkpoint file next to an output; None for a pipe or a device."""
    return Path(f"{out}.checkpoint") if Path(out).is_file() or not Path(out).exists() else None


@contextmanager
def resumable(journal: Path | None) -> Iterator[None]:
    """Context of work with a checkpoint file: an interruption prints where that file is."""
    try:
        yield
    except KeyboardInterrupt:
        if journal is not None and journal.exists():
            click.echo(f"mirage: finished results are in {journal}; the same command resumes from there", err=True)
        raise
