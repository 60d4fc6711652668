"""Files that commands write: checked before the work, and whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from mirage.errors import ConfigurationError


def check_output(path: str | os.PathLike[str]) -> None:
    """Refusal, before the work, of a file that could not be written after it.

    Raises:
        ConfigurationError: The folder is absent or closed, or the name is that of a folder.
    """
    place = Path(path)
    if place.is_dir():
        raise ConfigurationError(f"cannot write {path}: it is a folder; name a file")
    if not place.parent.is_dir():
        raise ConfigurationError(f"cannot write {path}: there is no folder {place.parent}; make it, or name another")
    regular = place.is_file() or not place.exists()
    if not os.access(place.resolve().parent if regular else place, os.W_OK):
        raise ConfigurationError(f"cannot write {path}: permission denied; name another place")


def check_page(path: str | os.PathLike[str]) -> None:
    """Refusal, before the work, of a page that could not be written after it, or whose name is no page's.

    Raises:
        ConfigurationError: As ``check_output`` says, or the name of a new file ends in something else than ``.html``.
    """
    check_output(path)
    place = Path(path)
    if place.suffix.lower() != ".html" and (place.is_file() or not place.exists()):
        raise ConfigurationError(f"cannot write {path}: it is a page, so its name must end in .html")


def as_policy(path: str) -> str:
    """The name of a policy that is a file: with a folder before it, even where that is this one."""
    return path if os.sep in path else f".{os.sep}{path}"


def checkpoint_of(out: str) -> Path | None:
    """The file beside an output that keeps what is finished of it; None beside a pipe or a device."""
    return Path(f"{out}.checkpoint") if Path(out).is_file() or not Path(out).exists() else None


@contextmanager
def resumable(kept: Path | None) -> Iterator[None]:
    """Work that keeps what is finished in a file; an interruption tells where that is."""
    try:
        yield
    except KeyboardInterrupt:
        if kept is not None and kept.exists():
            click.echo(f"mirage: what is finished is in {kept}; the same command goes on from there", err=True)
        raise
