"""Rolling backups of an SQLite store: ``store.db.backup-1`` (newest) to ``-5``.

Each is a whole store in one file, copied by SQLite itself while others write, and checked before the oldest is removed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from mirage.duration import HOUR_S, MINUTE_S
from mirage.errors import StoreError, reason

BACKUPS = 5
EVERY_S = HOUR_S
TABLES = frozenset({"alembic_version", "chains", "links"})
"""Tables that every version of a store has."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A sound backup.

    Attributes:
        number: 1 for the newest.
        made_s: Time of the backup on the cluster's clock, to the minute.
    """

    number: int
    path: Path
    made_s: int


def backup_path(store: Path, number: int) -> Path:
    """The path of the backup with a number."""
    return store.with_name(f"{store.name}.backup-{number}")


def back_up(store: Path, now_s: float) -> Path:
    """Copy the store into the newest backup, and renumber the older ones.

    On any error the existing backups stay as they are.

    Raises:
        StoreError: The store is damaged, or the disk is full.
    """
    partial_copy = store.with_name(f"{store.name}.backup.{os.getpid()}.part")
    try:
        copy_store(store, partial_copy, minute=int(now_s) // MINUTE_S)
        if wrong := damage(partial_copy):
            raise StoreError(f"the store {store} is damaged: {wrong}; {advice(store)}")
        _roll(store)
        os.replace(partial_copy, backup_path(store, 1))
        _sync(store.parent)
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            raise StoreError(f"the store {store} is damaged: {error}; {advice(store)}") from error
        raise StoreError(f"cannot back up the store {store}: {error}; check that its disk has room") from error
    finally:
        with contextlib.suppress(OSError):
            partial_copy.unlink()
    return backup_path(store, 1)


def copy_store(source: Path, target: Path, minute: int | None = None) -> None:
    """Copy a store, as it is at one moment, into a new file, and sync it to the disk.

    Args:
        minute: Minutes since 1970, stored in the copy as the time of its creation.

    Raises:
        OSError: The copy cannot be made.
        sqlite3.Error: The store cannot be read, or the disk is full.
    """
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with _opened(source, "ro") as old, _opened(target, "rw") as new:
        old.backup(new)
        new.execute("PRAGMA journal_mode=DELETE").close()  # one file, without a log
        if minute is not None:
            new.execute(f"PRAGMA user_version={minute}").close()
    with target.open("rb") as file:
        os.fsync(file.fileno())


def into_one_file(store: Path) -> None:
    """Bring an unused store into one file, without a log, and sync it to the disk.

    Raises:
        StoreError: It cannot be written.
    """
    try:
        with _opened(store, "rw") as connection:
            connection.execute("PRAGMA journal_mode=DELETE").close()
        with store.open("rb") as file:
            os.fsync(file.fileno())
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot write {store}: {reason(error)}; check that its disk has room") from error


def damage(store: Path) -> str:
    """The damage of a store's file as text; empty where it is sound."""
    if not store.exists():
        return "there is no such file"
    if not store.is_file():  # SQLite would wait for a writer of a pipe
        return "it is not a file"
    try:
        with _opened(store, "ro") as connection:
            (result,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if result != "ok":
                return str(result).replace("\n", " ")
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            return "" if tables >= TABLES else "it is not a store of Mirage"
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise StoreError(f"the store {store} is in use: {error}; try again") from error
        return str(error)
    except sqlite3.DatabaseError as error:
        return str(error)


def lease_in(store: Path) -> tuple[str, float] | None:
    """Holder and end of the lease in a store's file, which is only read.

    A damaged file stays as it is; None where the lease cannot be read.
    """
    if not store.is_file():
        return None
    with contextlib.suppress(sqlite3.Error), _opened(store, "ro") as connection:
        row = connection.execute("SELECT holder, until_s FROM lease").fetchone()
        return (str(row[0]), float(row[1])) if row is not None else None
    return None


def sound_backups(store: Path) -> list[Backup]:
    """The backups that can be restored, the newest first."""
    found = []
    for number in range(1, BACKUPS + 1):
        path = backup_path(store, number)
        if path.exists() and not damage(path):
            found.append(Backup(number, path, made_s(path)))
    return found


def made_s(backup: Path) -> int:
    """The minute of a backup's creation, in seconds since 1970; 0 where not recorded.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    with _opened(backup, "ro") as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0]) * MINUTE_S


def advice(store: Path) -> str:
    """The remedy for a damaged store."""
    sound = sound_backups(store)
    if not sound:
        return "there is no sound backup; `mirage agent recover` rebuilds it from chains/NAME/chain.json and the jobs"
    from datetime import UTC, datetime

    made = f"{datetime.fromtimestamp(sound[0].made_s, UTC):%Y-%m-%dT%H:%MZ}"
    return f"its newest sound backup is {sound[0].path}, of {made}; `mirage agent recover` restores it"


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=30)) as connection:
        yield connection


def _roll(store: Path) -> None:
    """Make room for a new first backup; a gap in the numbers ends it."""
    last = next((k for k in range(1, BACKUPS) if not backup_path(store, k).exists()), BACKUPS)
    for number in range(last - 1, 0, -1):
        os.replace(backup_path(store, number), backup_path(store, number + 1))


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
