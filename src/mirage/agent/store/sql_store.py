"""The store in SQLite or PostgreSQL, through SQLAlchemy Core."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from mirage.agent.model import Chain, ChainSpec, ChainState, DecisionRecord, EventRecord, Link, LinkState
from mirage.agent.store.engine import make_engine
from mirage.agent.store.schema import chains, decisions, events, lease, links
from mirage.errors import ConfigurationError, LeaseHeld, StoreError, UnknownName, shown
from mirage.job_state import MISSING, JobState
from mirage.slurm.values import Submission

NEWEST = "0002"
"""Version of the tables in ``schema``."""

RECENT_LINKS = 3
_MIGRATION_LOCK = 7_241_920_346  # any number, the same in every agent

_REMEDIES = (
    (("disk is full", "disk full", "no space left", "quota exceeded"), "make room on its disk and try again"),
    (("is locked", "lock timeout"), "another process has held it for long; end that one, or try again"),
    (("readonly", "read-only", "permission denied"), "get the right to write there, or name another with MIRAGE_STORE"),
    (("malformed", "not a database"), "put a copy of it back in its place, or name another with MIRAGE_STORE"),
    (("connection", "connect to server"), "see that its server runs and can be reached, and try again"),
    (("disk i/o error",), "see that its disk is in order and has room, and that locks work there"),
)
"""Words of a data base's complaint, and what helps."""


def open_store(url: str) -> SqlStore:
    """Open a store, bringing its tables up to date first.

    Args:
        url: ``sqlite:////home/ada/.mirage/store.db``, ``postgresql+psycopg://host/database``.

    Raises:
        StoreError: It cannot be opened, or was written by a newer Mirage.
        ConfigurationError: The URL is none.
    """
    store = SqlStore(make_engine(url))
    try:
        store.migrate()
    except StoreError:
        store.close()
        raise
    return store


class SqlStore:
    """A store in a database; every public method is one transaction."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._specs: dict[int, ChainSpec] = {}

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()

    # -- chains ---------------------------------------------------------------------------------------------

    def add_chain(self, name: str, spec: ChainSpec, now_s: int) -> Chain:
        """A new chain with its first link planned."""
        row = _row(Chain(0, name, spec, now_s), "id", "spec") | {"spec": _spec_to_json(spec)}
        try:
            with self._writing() as connection:
                made = connection.execute(chains.insert().values(row))
                key = made.inserted_primary_key
                assert key is not None
                number = int(key[0])
                connection.execute(links.insert().values(_row(Link(number, 1))))
        except _KeyExists as error:
            raise ConfigurationError(f"there is a chain {shown(name)} already; choose another name") from error
        return Chain(number, name, spec, now_s)

    def chains(self, *, alive: bool = False) -> list[Chain]:
        """All chains in order of creation, or only those that are not done."""
        asked = sa.select(*(column for column in chains.c if column.name != "spec")).order_by(chains.c.id)
        if alive:
            asked = asked.where(chains.c.state != ChainState.DONE.value)
        with self._reading() as connection:
            rows = [dict(row._mapping) for row in connection.execute(asked)]
            new = [row["id"] for row in rows if row["id"] not in self._specs]
            if new:  # what the user asked for never changes, and is large: read once
                wanted = sa.select(chains.c.id, chains.c.spec).where(chains.c.id.in_(new))
                for number, spec in connection.execute(wanted):
                    self._specs[number] = _spec_from_json(spec)
        return [_chain(row, self._specs[row["id"]]) for row in rows]

    def chain(self, name: str) -> Chain:
        """By name."""
        found = {chain.name: chain for chain in self.chains()}
        if name not in found:
            raise UnknownName("chain", name, found)
        return found[name]

    def change_chain(self, chain: int, *events: EventRecord, **columns: object) -> None:
        """Set columns of a chain and write events."""
        values = _settable(chains, columns)
        with self._writing() as connection:
            if values and not connection.execute(chains.update().where(chains.c.id == chain).values(values)).rowcount:
                raise StoreError(f"there is no chain with the number {chain} to change")
            _write_events(connection, events)

    def remove_chain(self, chain: int) -> None:
        """Remove a chain that is done, with its links, decisions and events."""
        with self._writing() as connection:
            known = sa.select(chains.c.state).where(chains.c.id == chain)
            if (state := connection.execute(known).scalar()) != ChainState.DONE.value:
                raise ConfigurationError(
                    f"chain {chain} is {state or 'not there'}; only one that is done can be removed"
                )
            for table in (links, _decisions, _events):
                connection.execute(table.delete().where(table.c.chain == chain))
            connection.execute(chains.delete().where(chains.c.id == chain))
        self._specs.pop(chain, None)

    # -- links ----------------------------------------------------------------------------------------------

    def links(self, chain: int | None = None, *, open: bool = False) -> list[Link]:
        """Links by chain and number."""
        asked = sa.select(links).order_by(links.c.chain, links.c.number)
        if chain is not None:
            asked = asked.where(links.c.chain == chain)
        if open:
            newest = (
                sa.select(links.c.chain, sa.func.max(links.c.number).label("newest")).group_by(links.c.chain).subquery()
            )
            asked = asked.join(newest, newest.c.chain == links.c.chain).where(
                sa.or_(links.c.state != LinkState.ENDED.value, links.c.number > newest.c.newest - RECENT_LINKS)
            )
        with self._reading() as connection:
            return [_link(row._mapping) for row in connection.execute(asked)]

    def add_link(self, link: Link, *events: EventRecord) -> None:
        """A new link."""
        try:
            with self._writing() as connection:
                connection.execute(links.insert().values(_row(link)))
                _write_events(connection, events)
        except _KeyExists as error:
            raise StoreError(f"chain {link.chain} has a link {link.number} already") from error

    def change_link(self, chain: int, number: int, *events: EventRecord, **columns: object) -> None:
        """Set columns of a link and write events."""
        values = _settable(links, columns)
        here = (links.c.chain == chain) & (links.c.number == number)
        with self._writing() as connection:
            if values and not connection.execute(links.update().where(here).values(values)).rowcount:
                raise StoreError(f"chain {chain} has no link {number} to change")
            _write_events(connection, events)

    def attempt(self, chain: int, number: int, now_s: int) -> bool:
        """Claim the submission of a planned link."""
        free = (
            (links.c.chain == chain)
            & (links.c.number == number)
            & (links.c.state == LinkState.PLANNED.value)
            & (links.c.attempted_s == MISSING)
        )
        with self._writing() as connection:
            return bool(connection.execute(links.update().where(free).values(attempted_s=now_s)).rowcount)

    # -- what happened --------------------------------------------------------------------------------------

    def add_decisions(self, decisions: list[DecisionRecord]) -> None:
        """Write decisions of policies."""
        if decisions:
            with self._writing() as connection:
                connection.execute(_decisions.insert(), [_row(decision) for decision in decisions])

    def decisions(self, chain: int, *, last: int | None = None) -> list[DecisionRecord]:
        """Of a chain, in order of time."""
        return [_record(row) for row in self._history(_decisions, chain, last)]

    def events(self, chain: int, *, last: int | None = None) -> list[EventRecord]:
        """Of a chain, in order of time."""
        return [EventRecord(**row) for row in self._history(_events, chain, last)]

    def _history(self, table: sa.Table, chain: int, last: int | None) -> list[dict[str, Any]]:
        asked = sa.select(*(column for column in table.c if column.name != "id")).where(table.c.chain == chain)
        asked = asked.order_by(table.c.id.desc()).limit(last)
        with self._reading() as connection:
            return [dict(row._mapping) for row in connection.execute(asked)][::-1]

    def decided_since(self, last: int) -> tuple[int, Counter[tuple[str, bool]]]:
        """The newest decision, and how many since ``last`` by reason and submission."""
        number = sa.func.max(_decisions.c.id)
        asked = sa.select(_decisions.c.reason, _decisions.c.submits, sa.func.count(), number)
        asked = asked.where(_decisions.c.id > last).group_by(_decisions.c.reason, _decisions.c.submits)
        with self._reading() as connection:
            rows = connection.execute(asked).all()
        return max((row[3] for row in rows), default=last), Counter({(row[0], bool(row[1])): row[2] for row in rows})

    def happened_since(self, last: int) -> tuple[int, Counter[str]]:
        """The newest event, and how many since ``last`` by kind."""
        number = sa.func.max(_events.c.id)
        asked = sa.select(_events.c.kind, sa.func.count(), number).where(_events.c.id > last).group_by(_events.c.kind)
        with self._reading() as connection:
            rows = connection.execute(asked).all()
        return max((row[2] for row in rows), default=last), Counter({row[0]: row[1] for row in rows})

    # -- the lease ------------------------------------------------------------------------------------------

    def take_lease(self, holder: str, now_s: float, valid_s: float) -> None:
        """Take or renew the lease."""
        values = {"holder": holder, "until_s": now_s + valid_s}
        free = (lease.c.holder == holder) | (lease.c.until_s < now_s)
        try:
            with self._writing() as connection:
                if connection.execute(lease.update().where(free).values(**values)).rowcount:
                    return
                if connection.execute(sa.select(lease.c.id)).first() is None:
                    connection.execute(lease.insert().values(id=1, **values))
                    return
        except _KeyExists:
            pass  # somebody was quicker
        held = self.lease()
        who, until_s = held if held is not None else ("another agent", now_s)
        raise LeaseHeld(
            f"{who} looks after this store, for {until_s - now_s:.0f} s more unless it renews its lease; "
            "stop that agent first, or give this one a store of its own"
        )

    def drop_lease(self, holder: str) -> None:
        """Give the lease back."""
        with self._writing() as connection:
            connection.execute(lease.delete().where(lease.c.holder == holder))

    def lease(self) -> tuple[str, float] | None:
        """Holder and end of validity."""
        with self._reading() as connection:
            row = connection.execute(sa.select(lease.c.holder, lease.c.until_s)).first()
        return (str(row[0]), float(row[1])) if row is not None else None

    # -- tables ---------------------------------------------------------------------------------------------

    def migrate(self) -> None:
        """Bring the tables up to date, all or nothing; agents wait for each other."""
        with self._reading() as connection:
            present = _version(connection)
        if present == NEWEST:
            return
        with self._writing() as connection:
            if self.engine.dialect.name == "postgresql":
                connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            present = _version(connection)
            if present is not None and present > NEWEST:
                raise StoreError(
                    f"the store {self.engine.url} is of version {present}, newer than this Mirage knows ({NEWEST}); "
                    "upgrade Mirage, or name another store with MIRAGE_STORE"
                )
            upgrade(connection)

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
            yield connection

    @contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Errors of the database in our own words."""
        try:
            yield
        except IntegrityError as error:
            raise _KeyExists(str(error.orig)) from error
        except (SQLAlchemyError, OSError) as error:
            said = str(getattr(error, "orig", None) or error).strip()
            helps = (what for words, what in _REMEDIES if any(word in said.lower() for word in words))
            what = next(helps, "mend that and try again")
            raise StoreError(f"the store {self.engine.url} cannot be used: {said}; {what}") from error


class _KeyExists(StoreError):
    """A row with that key is there already."""


_decisions, _events = decisions, events


def _version(connection: Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()


def upgrade(connection: Connection, to: str = "head") -> None:
    """Run the scripts that are missing, inside the transaction of this connection."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "mirage.agent.store:migrations")
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def _write_events(connection: Connection, records: tuple[EventRecord, ...]) -> None:
    if records:
        connection.execute(_events.insert(), [_row(record) for record in records])


def _row(value: Any, *without: str) -> dict[str, Any]:
    fields = (field.name for field in dataclasses.fields(value) if field.name not in without)
    return {name: _storable(getattr(value, name)) for name in fields}


def _storable(value: Any) -> Any:
    """A value as both databases take it: without NUL, lone surrogates and infinity."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {name: float(v) if math.isfinite(v) else str(float(v)) for name, v in value.items()}
    return value


def _record(row: dict[str, Any]) -> DecisionRecord:
    numbers = {name: {key: float(v) for key, v in row[name].items()} for name in ("estimate", "saw")}
    return DecisionRecord(**{**row, **numbers})


def _settable(table: sa.Table, columns: dict[str, object]) -> dict[str, object]:
    """The columns as they are stored; those that name a row, or never change, cannot be set."""
    known = {column.name for column in table.c if not column.primary_key} - {"name", "spec", "created_s"}
    if unknown := columns.keys() - known:
        raise TypeError(
            f"{table.name} have no {', '.join(sorted(unknown))} to set; they have {', '.join(sorted(known))}"
        )
    return {name: _storable(value) for name, value in columns.items()}


def _chain(row: dict[str, Any], spec: ChainSpec) -> Chain:
    return Chain(**{**row, "state": ChainState(row["state"])}, spec=spec)


def _link(row: Any) -> Link:
    return Link(**{**row, "state": LinkState(row["state"]), "outcome": JobState(row["outcome"])})


def _spec_to_json(spec: ChainSpec) -> dict[str, Any]:
    return dataclasses.asdict(spec)


def _spec_from_json(text: dict[str, Any]) -> ChainSpec:
    known = {field.name for field in dataclasses.fields(ChainSpec)}
    asked = text["submission"]
    submission = Submission(**{**asked, "arguments": tuple(asked["arguments"])})
    return ChainSpec(**{**{k: v for k, v in text.items() if k in known}, "submission": submission})
