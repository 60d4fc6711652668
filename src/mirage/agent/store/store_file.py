"""The file of an SQLite store: private, and never replaced while it is open.

A missing file is created only where there was no store before.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.engine import URL

from mirage.agent.paths import close_to_others, private_folder, try_folder
from mirage.agent.store.chain_file import read_chain_files
from mirage.errors import StoreError, StoreGone

SIDE_FILES = ("-wal", "-shm", "-journal")
"""Files of SQLite with a database, by the suffix of their names."""

RECOVER = "`mirage agent recover` restores it"


def path_of(url: URL) -> Path | None:
    """The file of a store; None for a store in memory or on a server."""
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
        """The file, created where there never was one, for its owner only.

        Environments may contain secrets. An existing file is never opened here: to close it would drop the locks of
        all connections of this process (https://sqlite.org/howtocorrupt.html, 2.2), so that the next command that ends
        deletes a log that is in use.

        Raises:
            StoreError: It cannot be created.
            StoreGone: There was a store: its backups or its chains still exist.
        """
        try:
            private_folder(path.parent)
            if not path.exists():
                refuse_anew(path, "gone")
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
            found = os.stat(path)
            if not stat.S_ISREG(found.st_mode):  # SQLite would wait for ever for a writer of a pipe
                raise StoreError(f"cannot open the store {path}: it is not a file; name another with MIRAGE_STORE")
            if not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
                number = errno.EROFS if os.statvfs(path).f_flag & os.ST_RDONLY else errno.EACCES
                raise OSError(number, os.strerror(number))
            close_to_others(path, *(path.with_name(path.name + end) for end in SIDE_FILES))
        except OSError as error:
            raise StoreError(
                f"cannot open the store {path}: {error.strerror}; name another with MIRAGE_STORE"
            ) from error
        return cls(path, (found.st_dev, found.st_ino))

    @staticmethod
    def check_creatable(path: Path) -> None:
        """Check that the missing file can be created; it is not.

        Raises:
            StoreError: It cannot be created.
            StoreGone: There was a store: its backups or its chains still exist.
        """
        refuse_anew(path, "gone")
        try:
            try_folder(path.parent)
        except OSError as error:
            raise StoreError(
                f"cannot open the store {path}: {error.strerror}; name another with MIRAGE_STORE"
            ) from error

    @classmethod
    def of(cls, path: Path) -> StoreFile:
        """The existing file.

        Raises:
            StoreError: There is none.
        """
        try:
            found = os.stat(path)
        except OSError as error:
            raise StoreError(f"cannot read the store {path}: {error.strerror}") from error
        if not stat.S_ISREG(found.st_mode):
            raise StoreError(f"cannot read the store {path}: it is not a file; name another with MIRAGE_STORE")
        return cls(path, (found.st_dev, found.st_ino))

    def check(self) -> None:
        """Check that the path still leads to the file that was opened.

        Raises:
            StoreGone: It was deleted or moved, or another file took its place.
        """
        try:
            found = os.stat(self.path)
        except FileNotFoundError as error:
            raise StoreGone(
                f"the store {self.path} was deleted or moved; where it was deleted, {RECOVER}; where its folder was "
                "moved: MIRAGE_HOME=FOLDER mirage agent start"
            ) from error
        except OSError as error:
            raise StoreError(f"the store {self.path} cannot be reached: {error.strerror}; try again") from error
        if (found.st_dev, found.st_ino) != self.identity:
            raise StoreGone(f"another file took the place of the store {self.path}; what used the old one must end")

    def connector(self, patience_s: float) -> Callable[[], sqlite3.Connection]:
        """Returns a function for connections that never create a file."""

        def connect() -> sqlite3.Connection:
            self.check()
            return sqlite3.connect(
                f"file:{quote(str(self.path))}?mode=rw", uri=True, timeout=patience_s, check_same_thread=False
            )

        return connect

    def reader(self, patience_s: float) -> Callable[[], sqlite3.Connection]:
        """Returns a function for connections that never write.

        They work on a read-only file system and on a full disk, too. A WAL database is read through its index in shared
        memory, which a reader creates where no writer has (https://sqlite.org/wal.html#readonly). Where it cannot, the
        file alone is read if it contains all changes.
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
    """Refuse to create an empty store where there was one before.

    Args:
        how: State of the present file: ``gone``, ``empty``.

    Raises:
        StoreGone: Its backups or its chains still exist.
    """
    if left := remains(path):
        raise StoreGone(
            f"the store {path} is {how}, but {left} show that there was one; {RECOVER}. To begin with an empty one, "
            "move them elsewhere first"
        )


def remains(path: Path) -> str:
    """The remains of a store at this path, as text; empty for none."""
    backups = [found.name for found in path.parent.glob(f"{path.name}.backup-[0-9]")]
    chains = [stored.name for stored in read_chain_files(path.parent)[0] if stored.is_of(path)]
    words = [f"its backups ({', '.join(sorted(backups))})"] if backups else []
    return " and ".join(words + ([f"the files of its chains ({', '.join(chains)})"] if chains else []))
