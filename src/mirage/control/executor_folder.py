"""The folder of an executor: its lock and its journal."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mirage.errors import ConfigurationError
from mirage.real_time import wait_until

RESTORED = "restored"
"""The verb of the row that a complete restoration writes into the journal; it is no command."""

_LOCK_PATIENCE_S = 1.0
"""A query of a lock's holder has the lock for an instant."""


def locked(folder: Path) -> int:
    """The descriptor of the lock of a folder; the lock ends with the process.

    Raises:
        ConfigurationError: Another process has the lock, or the folder cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"cannot write {folder}: {error.strerror}; name another folder") from error
    if not wait_until(lambda: _lock(descriptor, fcntl.LOCK_EX), _LOCK_PATIENCE_S):
        pid = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        raise ConfigurationError(
            f"another controller acts with {folder} (process {pid}); end it, or run mirage control off"
        )
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def lock_holder(folder: Path) -> int | None:
    """The process that has the lock of a folder; None if none has.

    Queries share the lock: two at once do not take each other for a controller.
    """
    try:
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        text = "" if _lock(descriptor, fcntl.LOCK_SH) else os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        return int(text) if text.isdecimal() else None
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    """Take a lock if it is free; whether it was."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def append_row(path: Path, row: Mapping[str, Any]) -> None:
    """Append a row to a journal; it is on disk when this returns."""
    with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab") as file:
        file.write(json.dumps(row).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_journal(path: Path) -> list[dict[str, Any]]:
    """The rows of a journal, without one that was cut off by the death of its process."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            if isinstance(row, dict) and isinstance(row.get("verb"), dict):
                rows.append(row)
    return rows


def unrestored(rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The rows of a journal since Slurm was last restored completely.

    What was done before is undone. A user may have set the same values since.
    """
    done = [number for number, row in enumerate(rows) if row["verb"]["name"] == RESTORED]
    return rows[done[-1] + 1 :] if done else rows


def lease_mark(rows: Sequence[Mapping[str, Any]]) -> int:
    """The start of the last lease in a journal; −1 for none.

    A reservation has no comment (22.05.8). So a start in the past is the mark of a lease. It is in the journal before
    the lease is in Slurm: a process that is killed between the two leaves a lease that the next one recognises.
    """
    marks = [row["verb"].get("start_s", 0) for row in rows if row["verb"]["name"] == "lease"]
    return int(marks[-1]) if marks else -1
