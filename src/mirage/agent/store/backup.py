"""Rolling backups of an SQLite store: ``store.db.backup-1``, the newest, to ``store.db.backup-5``.

Each is a whole store in one file, copied by SQLite itself while others write, and checked before the oldest goes.
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
from mirage.errors import StoreError

KEPT = 5
EVERY_S = HOUR_S
TABLES = frozenset({"alembic_version", "chains", "links"})
"""What makes a database a store, in every version."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A sound backup.

    Attributes:
        number: 1 for the newest.
        made_s: On the cluster's clock, to the minute.
    """

    number: int
    path: Path
    made_s: int


def backup_path(store: Path, number: int) -> Path:
    """Where the backup of that number is."""
    return store.with_name(f"{store.name}.backup-{number}")


def back_up(store: Path, now_s: float) -> Path:
    """Copy the store into the newest backup, and move the older ones on by one.

    Whatever goes wrong, the backups there are stay what they were.

    Raises:
        StoreError: The store is damaged, or there is no room.
    """
    beside = store.with_name(f"{store.name}.backup.{os.getpid()}.part")
    try:
        copy_store(store, beside, minute=int(now_s) // MINUTE_S)
        if wrong := damage(beside):
            raise StoreError(f"the store {store} is damaged: {wrong}; {advice(store)}")
        _roll(store)
        os.replace(beside, backup_path(store, 1))
        _sync(store.parent)
    except (OSError, sqlite3.Error) as error:
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            raise StoreError(f"the store {store} is damaged: {error}; {advice(store)}") from error
        raise StoreError(f"cannot back up the store {store}: {error}; see that there is room on its disk") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
    return backup_path(store, 1)


def copy_store(source: Path, target: Path, minute: int | None = None) -> None:
    """Copy a store, as it is at one moment, into a new file of its own, which is on the disk when this returns.

    Args:
        minute: Since 1970, kept in the copy as the time at which it was made.

    Raises:
        OSError: The copy cannot be made.
        sqlite3.Error: The store cannot be read, or there is no room.
    """
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with _opened(source, "ro") as old, _opened(target, "rw") as new:
        old.backup(new)
        new.execute("PRAGMA journal_mode=DELETE").close()  # one file, without a log beside it
        if minute is not None:
            new.execute(f"PRAGMA user_version={minute}").close()
    with target.open("rb") as file:
        os.fsync(file.fileno())


def into_one_file(store: Path) -> None:
    """Bring a store that nobody uses into one file, without a log beside it, and onto the disk.

    Raises:
        StoreError: It cannot be written.
    """
    try:
        with _opened(store, "rw") as connection:
            connection.execute("PRAGMA journal_mode=DELETE").close()
        with store.open("rb") as file:
            os.fsync(file.fileno())
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"cannot write {store}: {error}; see that there is room on its disk") from error


def damage(store: Path) -> str:
    """What is wrong with a store's file, in words; empty where it is sound."""
    if not store.exists():
        return "there is no such file"
    try:
        with _opened(store, "ro") as connection:
            (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if said != "ok":
                return str(said).replace("\n", " ")
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            return "" if tables >= TABLES else "it is no store of Mirage"
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise StoreError(f"the store {store} is in use: {error}; try again") from error
        return str(error)
    except sqlite3.DatabaseError as error:
        return str(error)


def lease_in(store: Path) -> tuple[str, float] | None:
    """Holder and end of the lease in a store's file, which is only read: what is damaged stays as it is."""
    with contextlib.suppress(sqlite3.Error), _opened(store, "ro") as connection:
        row = connection.execute("SELECT holder, until_s FROM lease").fetchone()
        return (str(row[0]), float(row[1])) if row is not None else None
    return None


def sound_backups(store: Path) -> list[Backup]:
    """The backups that can be put back, the newest first."""
    found = []
    for number in range(1, KEPT + 1):
        path = backup_path(store, number)
        if path.exists() and not damage(path):
            found.append(Backup(number, path, made_s(path)))
    return found


def made_s(backup: Path) -> int:
    """The minute at which a backup was made, in seconds since 1970; 0 where it does not tell.

    Raises:
        sqlite3.Error: It cannot be read.
    """
    with _opened(backup, "ro") as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0]) * MINUTE_S


def advice(store: Path) -> str:
    """What to do about a damaged store."""
    sound = sound_backups(store)
    if not sound:
        return "there is no sound backup; `mirage agent recover` rebuilds it from chains/NAME/chain.json and the jobs"
    from datetime import UTC, datetime

    made = f"{datetime.fromtimestamp(sound[0].made_s, UTC):%Y-%m-%dT%H:%MZ}"
    return f"its newest sound backup is {sound[0].path}, of {made}; `mirage agent recover` puts it back"


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode={mode}", uri=True, timeout=30)) as connection:
        yield connection


def _roll(store: Path) -> None:
    """Make room for a new first backup; a gap in the numbers ends it."""
    last = next((k for k in range(1, KEPT) if not backup_path(store, k).exists()), KEPT)
    for number in range(last - 1, 0, -1):
        os.replace(backup_path(store, number), backup_path(store, number + 1))


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
