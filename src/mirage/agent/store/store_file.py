"""The file of an SQLite store: private, never made anew by accident, and the same one until we close it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import URL

from mirage.agent.paths import close_to_others, private_folder
from mirage.agent.store.chain_file import kept_chains
from mirage.errors import StoreError, StoreGone

BESIDE = ("-wal", "-shm", "-journal")
"""Files that SQLite keeps beside a database, by the end of their names."""

PUT_BACK = "`mirage agent recover` puts it back"


def path_of(url: URL) -> Path | None:
    """The file of a store; None where it is none: in memory, or on a server."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:") or "uri" in url.query:
        return None
    return Path(str(url.database)).absolute()


@dataclass(frozen=True, slots=True)
class StoreFile:
    """The file of a store as it was when it was opened.

    Attributes:
        identity: Device and inode.
    """

    path: Path
    identity: tuple[int, int]

    @classmethod
    def open(cls, path: Path) -> StoreFile:
        """The file, made where there is none and never was; for its owner only: environments may hold secrets.

        Raises:
            StoreError: It cannot be made.
            StoreGone: There was one: its backups or its chains are still there.
        """
        try:
            private_folder(path.parent)
            if not path.exists():
                refuse_anew(path, "gone")
            number = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                found = os.fstat(number)
            finally:
                os.close(number)
            close_to_others(path, *(path.with_name(path.name + end) for end in BESIDE))
        except OSError as error:
            raise StoreError(
                f"cannot open the store {path}: {error.strerror}; name another with MIRAGE_STORE"
            ) from error
        return cls(path, (found.st_dev, found.st_ino))

    @classmethod
    def of(cls, path: Path) -> StoreFile:
        """The file that is there.

        Raises:
            StoreError: There is none.
        """
        try:
            found = os.stat(path)
        except OSError as error:
            raise StoreError(f"cannot read the store {path}: {error.strerror}") from error
        return cls(path, (found.st_dev, found.st_ino))

    def check(self) -> None:
        """See that the path still leads to the file that was opened.

        Raises:
            StoreGone: It was deleted or moved, or another file took its place.
        """
        try:
            found = os.stat(self.path)
        except FileNotFoundError as error:
            raise StoreGone(
                f"the store {self.path} was deleted or moved; where it was deleted, {PUT_BACK}; where its folder was "
                "moved: MIRAGE_HOME=FOLDER mirage agent start"
            ) from error
        except OSError as error:
            raise StoreError(f"the store {self.path} cannot be reached: {error.strerror}; try again") from error
        if (found.st_dev, found.st_ino) != self.identity:
            raise StoreGone(f"another file took the place of the store {self.path}; what used the old one must end")

    def connector(self, patience_s: float) -> Callable[[], sqlite3.Connection]:
        """Makes connections that never make a file."""

        def connect() -> sqlite3.Connection:
            self.check()
            return sqlite3.connect(
                f"file:{quote(str(self.path))}?mode=rw", uri=True, timeout=patience_s, check_same_thread=False
            )

        return connect

    def reader(self, patience_s: float) -> Callable[[], sqlite3.Connection]:
        """Makes connections that never write, on a read-only file system or a full disk as well.

        A WAL database is read through its index in shared memory, which a reader makes where no writer has
        (https://sqlite.org/wal.html#readonly). Where it cannot, the file alone is read if all changes are in it.
        """

        def connect() -> sqlite3.Connection:
            self.check()
            try:
                return self._read("mode=ro", patience_s)
            except sqlite3.OperationalError:
                log = self.path.with_name(f"{self.path.name}-wal")
                if log.exists() and log.stat().st_size:
                    raise
                return self._read("mode=ro&immutable=1", patience_s)

        return connect

    def _read(self, how: str, patience_s: float) -> sqlite3.Connection:
        """A connection that has read the database's schema."""
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?{how}", uri=True, timeout=patience_s, check_same_thread=False
        )
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").close()
        except sqlite3.Error:
            connection.close()
            raise
        return connection


def refuse_anew(path: Path, how: str) -> None:
    """Refuse to begin an empty store where there has been one.

    Args:
        how: What is the matter with the present file.

    Raises:
        StoreGone: Its backups or its chains are still there.
    """
    if left := remains(path):
        raise StoreGone(
            f"the store {path} is {how}, but {left} tell that there was one; {PUT_BACK}. To begin with an empty one, "
            "move them elsewhere first"
        )


def remains(path: Path) -> str:
    """What tells that a store has been at this path, in words; empty where nothing does."""
    backups = [found.name for found in path.parent.glob(f"{path.name}.backup-[0-9]")]
    chains = [kept.name for kept in kept_chains(path.parent)[0] if kept.is_of(path)]
    words = [f"its backups ({', '.join(sorted(backups))})"] if backups else []
    return " and ".join(words + ([f"the files of its chains ({', '.join(chains)})"] if chains else []))
