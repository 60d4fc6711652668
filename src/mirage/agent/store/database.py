"""The database of a store: transactions, error messages, schema version and backups."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from mirage.agent.store.backup import EVERY_S, advice, back_up, backup_path, damage, made_s
from mirage.agent.store.migrations import NEWEST, upgrade, version_of
from mirage.agent.store.store_file import path_of, refuse_anew
from mirage.duration import MINUTE_S
from mirage.errors import StoreError, one_line, reason

log = logging.getLogger("mirage.agent")

RETRY_S = 5 * MINUTE_S
"""Time between a failed backup and the next attempt."""

_MIGRATION_LOCK = 7_241_920_346  # any number, but the same in every agent

_DAMAGED = "restore a copy of it in its place, or name another with MIRAGE_STORE"
_CHANGED = "undo that change, or restore a backup: mirage agent stop, then mirage agent recover --from-backup 1"
_REMEDIES = (
    (("disk is full", "disk full", "no space left", "quota exceeded"), "make room on its disk and try again"),
    (("is locked", "lock timeout"), "another process has locked it for long; end that one, or try again"),
    (("readonly", "read-only", "permission denied"), "get the right to write there, or name another with MIRAGE_STORE"),
    (("malformed", "not a database", "no such table"), _DAMAGED),
    (("connection", "connect to server"), "check that its server runs and can be reached, and try again"),
    (("disk i/o error",), "check that its disk works and has room, and that locks work there"),
)
"""Words of a database's error message, and the remedy."""


class Database:
    """A database; every public method of its subclasses is one transaction."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.path = path_of(engine.url)
        self._next_backup_s = -1.0

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    # -- the file -------------------------------------------------------------------------------------------

    def check_present(self) -> None:
        """Check that the store is still the one that was opened; every transaction does, too."""
        with self._reading():
            pass

    def check_writable(self) -> None:
        """Check that the store can be written; nothing is."""
        with self._writing():
            pass

    def backup_if_due(self, now_s: float) -> Path | None:
        """Make the hourly backup, if it is due; returns the new one.

        None where it is not due, or the store is not a file. A failed backup is logged and tried again: it must not
        stop an agent.
        """
        if self.path is None or 0 <= now_s < self._next_backup_s <= now_s + EVERY_S:
            return None
        newest = backup_path(self.path, 1)
        try:
            if self._next_backup_s < 0 and newest.exists() and not damage(newest):
                made = made_s(newest)
                if made <= now_s < made + EVERY_S:
                    self._next_backup_s = made + EVERY_S
                    return None
            self._next_backup_s = now_s + RETRY_S
            made_at = back_up(self.path, now_s)
        except StoreError as error:
            log.warning("no backup", extra={"detail": str(error)})
            return None
        self._next_backup_s = now_s + EVERY_S
        return made_at

    # -- tables ---------------------------------------------------------------------------------------------

    def migrate(self) -> None:
        """Update the tables, all or nothing; agents wait for each other."""
        with self._reading() as connection:
            present = version_of(connection)
        if present == NEWEST:
            return
        if present is None and self.path is not None:
            refuse_anew(self.path, "empty")
        if present is not None and present < NEWEST and self.path is not None:
            back_up(self.path, time.clock_gettime(time.CLOCK_REALTIME))
        with self._writing() as connection:
            if self.engine.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            present = version_of(connection)
            if present is not None and present > NEWEST:
                raise StoreError(
                    f"the store {self.engine.url} is of version {present}, newer than this Mirage knows ({NEWEST}); "
                    "upgrade Mirage, or name another store with MIRAGE_STORE"
                )
            upgrade(connection)

    def check_version(self) -> None:
        """Check that the tables have this version; only a writable store can be updated.

        Raises:
            StoreError: They have another version.
        """
        with self._reading() as connection:
            present = version_of(connection)
        if present != NEWEST:
            raise StoreError(
                f"the store {self.engine.url} is of version {present or 'none'}, and this Mirage reads {NEWEST}; run a "
                "command of the same version, or one that may write there"
            )

    # -- transactions ---------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        with self._translated_errors(), self.engine.connect() as connection:
            connection.info["writes"] = True
            with connection.begin():
                yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._translated_errors(), self.engine.connect() as connection:
            connection.info["writes"] = False
            try:
                yield connection
            except (ValueError, KeyError, TypeError) as error:
                raise StoreError(
                    f"the store {self.engine.url} has a value that another program has changed: {reason(error)}; "
                    f"{'undo that change' if self.path is None else _CHANGED}"
                ) from error

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Translates errors of the database into our messages."""
        try:
            yield
        except IntegrityError as error:
            raise KeyExists(str(error.orig)) from error
        except (SQLAlchemyError, OSError) as error:
            error_text = one_line(str(getattr(error, "orig", None) or error))
            helps = (what for words, what in _REMEDIES if any(word in error_text.lower() for word in words))
            what = next(helps, "fix that and try again")
            if what is _DAMAGED and self.path is not None:
                what = advice(self.path)
            raise StoreError(f"the store {self.engine.url} cannot be used: {error_text}; {what}") from error


class KeyExists(StoreError):
    """A row with that key exists already."""
