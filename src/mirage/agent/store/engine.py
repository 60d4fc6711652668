"""The database engine of a store: a private, durable SQLite file, or PostgreSQL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from mirage.agent.store.store_file import StoreFile, path_of
from mirage.errors import ConfigurationError, shown
from mirage.extras import install

BUSY_S = 30
"""Time to wait for another process that writes; a change takes milliseconds, a migration seconds."""

PATIENCE = {"connect_timeout": "10", "tcp_user_timeout": "30000", "keepalives_idle": "30"}
"""Options of libpq: a PostgreSQL server that is gone must not block the agent for the hours of TCP's own timeout."""

SHARED_DISKS = re.compile(r"nfs|lustre|gpfs|beegfs|panfs|ceph|cifs|smb|afs|9p|gluster|orangefs|wekafs|fuse\.")
"""File systems that several hosts share, by the prefix of their type's name."""


def make_engine(url: str | URL, *, reads_only: bool = False) -> Engine:
    """An engine with real transactions, including tables; no connection is made yet.

    A connection with ``info["writes"]`` set begins with the right to write.

    Args:
        reads_only: Whether an SQLite file is only read, and never created.

    Raises:
        ConfigurationError: The URL is invalid, or of an unsupported database.
        StoreError: The file cannot be created, or is gone (``StoreGone``).
    """
    redacted = without_password(str(url))
    try:
        parsed = make_url(url)
        if parsed.drivername in ("postgresql", "postgres"):  # psycopg 3 is what our extra installs
            parsed = parsed.set(drivername="postgresql+psycopg")
        if parsed.get_backend_name() not in ("sqlite", "postgresql"):
            raise ConfigurationError(
                f"{shown(redacted)} is neither sqlite:////path/to/file nor postgresql://user@host/database"
            )
        if parsed.get_backend_name() == "postgresql":
            return _postgresql(parsed)
        return _sqlite_to_read(parsed) if reads_only else _sqlite(parsed)
    except (ArgumentError, NoSuchModuleError, ValueError) as error:  # a port that is no number is a ValueError
        raise ConfigurationError(
            f"{shown(redacted)} is not a database URL; write sqlite:////path/to/file or postgresql://user@host/database"
        ) from error
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{shown(redacted)} needs the package {error.name!r}; for PostgreSQL: {install('postgresql')}"
        ) from error


def without_password(url: str) -> str:
    """A URL without its password, to be shown."""
    return re.sub(r"(://[^:/@]*):.*@", r"\1:***@", url)


def _postgresql(url: URL) -> Engine:
    patience = {name: value for name, value in PATIENCE.items() if name not in url.query}
    return sa.create_engine(url, pool_pre_ping=True, isolation_level="READ COMMITTED", connect_args=patience)


def _sqlite(url: URL) -> Engine:
    path = path_of(url)
    if unknown := sorted(url.query.keys() - {"timeout"}) if "uri" not in url.query else []:
        raise ConfigurationError(
            f"{shown(str(url))}: SQLite takes no option {unknown[0]!r}; leave out what follows the question mark"
        )
    if path is None:
        engine = sa.create_engine(url, connect_args={} if "timeout" in url.query else {"timeout": BUSY_S})
    else:
        file = StoreFile.open(path)
        engine = sa.create_engine(url, creator=file.connector(float(str(url.query.get("timeout", BUSY_S)))))

        @sa.event.listens_for(engine, "checkout")
        def check(*_: Any) -> None:  # before every transaction: writes to a deleted file are lost
            file.check()

    journal = journal_mode(path) if path is not None else "WAL"

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # we begin transactions, below, so that they include DDL
        for pragma in (f"journal_mode={journal}", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.info.get("writes") else "BEGIN")

    return engine


def _sqlite_to_read(url: URL) -> Engine:
    """An engine for a file that cannot be written; each transaction finds a way to read it."""
    path = path_of(url)
    if path is None:
        raise ConfigurationError(f"{shown(str(url))} is not a file that can be read")
    return sa.create_engine(url, creator=StoreFile.of(path).reader(BUSY_S), poolclass=sa.NullPool)


def journal_mode(path: Path, mounts: str | None = None) -> str:
    """``WAL``, or ``DELETE`` where other hosts use the file, too.

    WAL has its index in memory shared by the processes of one host (https://sqlite.org/wal.html); homes of clusters are
    usually network file systems, and a command on another login node would miss the agent's writes.

    Args:
        mounts: The text of ``/proc/self/mountinfo``.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:  # not Linux
            return "WAL"
    return "DELETE" if SHARED_DISKS.match(_file_system(path.absolute(), mounts)) else "WAL"


def _file_system(path: Path, mounts: str) -> str:
    """The type of the file system that a path is on, from the mounts (proc(5))."""
    found, longest = "", -1
    for line in mounts.splitlines():
        place, _, rest = line.partition(" - ")
        words = place.split(" ")
        if len(words) < 5 or not rest:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), words[4]))
        if path.is_relative_to(point) and len(point.parts) >= longest:
            found, longest = rest.split(" ")[0], len(point.parts)
    return found


def place_of(url: str) -> str:
    """The location of a store: the path of its file, or its URL without the password."""
    path = path_of(make_url(url))
    return str(path) if path is not None else without_password(url)
