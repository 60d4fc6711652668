"""File systems on which nothing can be written, and users without the right to write."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(*words: str, at: Path) -> Iterator[Path]:
    """A file system, mounted at a new folder for a while; skipped where it needs root."""
    at.mkdir()
    if os.geteuid() or subprocess.run(["mount", *words, at], capture_output=True, check=False).returncode:
        pytest.skip("mounting needs root")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", at], check=True)


@contextmanager
def read_only(folder: Path, at: Path) -> Iterator[Path]:
    """The folder once more, on a read-only file system."""
    with mounted("--bind", str(folder), at=at):
        subprocess.run(["mount", "-o", "remount,ro,bind", at], check=True)
        yield at


@contextmanager
def full_disk(folder: Path, at: Path) -> Iterator[Path]:
    """A copy of the files of a folder on a disk without room for another page."""
    with mounted("-t", "tmpfs", "-o", "size=400k,mode=700", "tmpfs", at=at):
        for file in folder.iterdir():
            if file.is_file():
                (at / file.name).write_bytes(file.read_bytes())
                (at / file.name).chmod(0o600)
        fill = subprocess.run(["dd", "if=/dev/zero", f"of={at / 'filler'}", "bs=4k"], capture_output=True, check=False)
        assert b"No space left" in fill.stderr
        yield at


@contextmanager
def as_other_user() -> Iterator[None]:
    """This process with the rights of a user without any files here."""
    if os.geteuid():
        pytest.skip("becoming another user needs root")
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
