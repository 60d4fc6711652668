"""The store in SQLite or PostgreSQL, through SQLAlchemy Core."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError

from mirage.agent.model import (
    Chain,
    ChainSpec,
    ChainState,
    DecisionRecord,
    EventRecord,
    Link,
    LinkState,
    StoreIdentity,
)
from mirage.agent.store.database import Database, KeyExists
from mirage.agent.store.engine import make_engine
from mirage.agent.store.identity import OF_CHAIN, random_letters
from mirage.agent.store.lease import LeasedDatabase
from mirage.agent.store.rows import chain_of, decision_of, link_of, row_of, settable, spec_from_json, spec_to_json
from mirage.agent.store.schema import chains, decisions, events, links, store
from mirage.agent.store.store_file import StoreFile, path_of, remains
from mirage.errors import ConfigurationError, StoreError, StoreGone, UnknownName, WrongCluster, shortened, shown
from mirage.job_state import MISSING

RECENT_LINKS = 3

DETAILED_LINKS = 50
"""Number of a chain's last links of which all decisions are stored; of earlier ones, those that submitted a job are.

A decision takes 271 bytes: with links of two days and decisions every half an hour, a chain has 1.3 MB of them.
"""

LONGEST_POLICY = 80
"""Characters of a policy in the table of decisions; PostgreSQL refuses longer ones."""

EVENTS = 100
"""Number of events that are read for messages at once."""


def open_store(url: str | URL) -> SqlStore:
    """Open a store, after an update of its tables.

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


def open_to_read(url: str | URL) -> SqlStore:
    """Open a store, read-only where its file cannot be written (``SqlStore.unwritable``).

    Where there never was a file, none is made: the store is empty, and in memory.

    Raises:
        StoreError: It cannot be read either, or has another version.
        ConfigurationError: The URL is none.
    """
    if (path := _absent_file(url)) is not None and not remains(path):
        return open_store("sqlite://")
    try:
        return open_store(url)
    except StoreGone:
        raise
    except StoreError as error:
        if path_of(make_url(url)) is None:
            raise
        try:
            store = SqlStore(make_engine(url, reads_only=True), unwritable=str(error))
            store.check_version()
        except StoreError:
            raise error from None
        return store


def check_store(url: str) -> None:
    """Check that a store can be made or written; it is neither made nor updated.

    Raises:
        StoreError: It cannot.
        ConfigurationError: The URL is none.
    """
    if (path := _absent_file(url)) is not None:
        StoreFile.check_creatable(path)
        return
    database = Database(make_engine(url))
    try:
        database.check_writable()
    finally:
        database.close()


def _absent_file(url: str | URL) -> Path | None:
    """The file of a store if it does not exist; None otherwise."""
    with suppress(ArgumentError, ValueError):  # make_engine reports a URL that is none
        path = path_of(make_url(url))
        if path is not None:
            try:
                path.stat()
            except FileNotFoundError:
                return path
            except OSError:  # opening it reports this
                return None
    return None


class SqlStore(LeasedDatabase):
    """A store in a database; every public method is one transaction.

    Attributes:
        unwritable: The reason for read-only access; empty where it can be written.
    """

    def __init__(self, engine: Engine, unwritable: str = "") -> None:
        super().__init__(engine)
        self.unwritable = unwritable
        self._specs: dict[int, tuple[int, ChainSpec]] = {}

    # -- identity ---------------------------------------------------------------------------------------------

    def identity(self) -> StoreIdentity:
        """The identity of the store, and the cluster of its chains."""
        with self._reading() as connection:
            row = connection.execute(sa.select(store.c.identity, store.c.cluster, store.c.polled_s)).one()
        return StoreIdentity(*row)

    def bind(self, cluster: str) -> None:
        """Bind the store to a cluster, permanently."""
        with self._writing() as connection:
            connection.execute(store.update().where(store.c.cluster == "").values(cluster=cluster))
            known = connection.execute(sa.select(store.c.cluster)).scalar_one()
        self._refuse_other(known, cluster)

    def check_cluster(self, cluster: str) -> None:
        """Refuse another cluster than that of the chains; an unbound store allows any."""
        self._refuse_other(self.identity().cluster or cluster, cluster)

    def _refuse_other(self, known: str, cluster: str) -> None:
        if known != cluster:
            raise WrongCluster(
                f"the chains of {self.engine.url} live on the cluster {known}, and Slurm's commands speak to {cluster} "
                "here; use SLURM_CONF to reach that one, or MIRAGE_HOME to store the chains of this one in another "
                "folder. Where the controller has moved: mirage agent rebind"
            )

    def rebind(self, cluster: str) -> None:
        """Bind the store to a cluster, even if it was bound to another."""
        with self._writing() as connection:
            connection.execute(store.update().values(cluster=cluster))

    def take_identity(self, identity: StoreIdentity) -> None:
        """Take the identity of a lost store, so that the tags of its jobs are ours."""
        with self._writing() as connection:
            connection.execute(store.update().values(identity=identity.identity, cluster=identity.cluster))

    def record_poll(self, now_s: int) -> None:
        """Store the time of an agent's poll of the queue."""
        with self._writing() as connection:
            connection.execute(_POLLED, {"polled_s": now_s})

    # -- chains ---------------------------------------------------------------------------------------------

    def add_chain(self, name: str, spec: ChainSpec, now_s: int) -> Chain:
        """A new chain with its first link planned."""
        made_up = Chain(0, name, spec, now_s, key=random_letters(OF_CHAIN))
        row = row_of(made_up, "id", "spec") | {"spec": spec_to_json(spec)}
        try:
            with self._writing() as connection:
                if number := _number_to_skip(connection):
                    row["id"] = number + 1
                made = connection.execute(chains.insert().values(row))
                key = made.inserted_primary_key
                assert key is not None
                number = int(key[0])
                connection.execute(links.insert().values(row_of(Link(number, 1))))
        except KeyExists as error:
            self.check_name(name)
            raise StoreError(f"chain {shown(name)} was created and removed in the meantime; try again") from error
        return dataclasses.replace(made_up, id=number)

    def check_name(self, name: str) -> None:
        """Refuse a name that a chain has, in any state."""
        with self._reading() as connection:
            state = connection.execute(sa.select(chains.c.state).where(chains.c.name == name)).scalar()
        if state is not None:
            way_out = (
                f"it is done: `mirage chain rm {name}` frees its name, or choose another"
                if state == ChainState.DONE.value
                else f"it is {state}; choose another name"
            )
            raise ConfigurationError(f"there is a chain {shown(name)} already, and {way_out}")

    def restore_chain(self, chain: Chain) -> Chain:
        """Restore a chain of a lost store, with its key, without links, under a new number."""
        with self._writing() as connection:
            row = row_of(chain, "id", "spec") | {"spec": spec_to_json(chain.spec)}
            made = connection.execute(chains.insert().values(row)).inserted_primary_key
            assert made is not None
        return dataclasses.replace(chain, id=int(made[0]))

    def add_adopted_chain(self, chain: Chain, link: Link, event: EventRecord) -> Chain:
        """A new chain with a first link that is a job already."""
        row = row_of(chain, "id", "spec") | {"spec": spec_to_json(chain.spec)}
        same = (links.c.job == link.job) & (links.c.state != LinkState.ENDED.value)
        try:
            with self._writing() as connection:
                taken = sa.select(chains.c.name, links.c.number).join(links, links.c.chain == chains.c.id).where(same)
                if (known := connection.execute(taken).first()) is not None:
                    raise ConfigurationError(f"job {link.job} is link {known[1]} of chain {known[0]} already")
                if number := _number_to_skip(connection):
                    row["id"] = number + 1
                key = connection.execute(chains.insert().values(row)).inserted_primary_key
                assert key is not None
                number = int(key[0])
                connection.execute(links.insert().values(row_of(dataclasses.replace(link, chain=number))))
                _write_events(connection, (dataclasses.replace(event, chain=number),))
        except KeyExists:
            self.check_name(chain.name)
            raise
        return dataclasses.replace(chain, id=number)

    def chains(self, *, alive: bool = False) -> list[Chain]:
        """All chains in order of creation, or only those that are not done."""
        with self._reading() as connection:
            rows = [dict(row._mapping) for row in connection.execute(_ALIVE if alive else _CHAINS)]
            new = [row["id"] for row in rows if self._specs.get(row["id"], _NO_SPEC)[0] != row["edits"]]
            if new:  # specifications are large: read once after each edit
                wanted = sa.select(chains.c.id, chains.c.name, chains.c.spec, chains.c.edits)
                for number, name, spec, edits in connection.execute(wanted.where(chains.c.id.in_(new))):
                    self._specs[number] = edits, spec_from_json(spec, name)
            return [chain_of(row, self._specs[row["id"]][1]) for row in rows]

    def chain(self, name: str) -> Chain:
        """The chain with a name."""
        found = {chain.name: chain for chain in self.chains()}
        if name not in found:
            raise UnknownName("chain", name, found)
        return found[name]

    def change_chain(
        self,
        chain: int,
        *events: EventRecord,
        from_state: ChainState | None = None,
        from_edits: int | None = None,
        **columns: object,
    ) -> bool:
        """Set columns of a chain and write events, unless its state or its edits have changed."""
        values, here = settable(chains, columns), chains.c.id == chain
        unchanged = here if from_state is None else here & (chains.c.state == from_state.value)
        unchanged = unchanged if from_edits is None else unchanged & (chains.c.edits == from_edits)
        with self._writing() as connection:
            if values and not connection.execute(chains.update().where(unchanged).values(values)).rowcount:
                if unchanged is not here and connection.execute(sa.select(chains.c.id).where(here)).first():
                    return False
                raise StoreError(f"there is no chain with the number {chain} to change")
            _write_events(connection, events)
        return True

    def change_spec(self, chain: Chain, spec: ChainSpec, *events: EventRecord) -> None:
        """Replace the specification of a chain as it was read."""
        here = (chains.c.id == chain.id) & (chains.c.edits == chain.edits) & (chains.c.state != ChainState.DONE.value)
        values = settable(chains, {"refusals": 0, "next_try_s": 0, "next_decision_s": 0, "wrong_forecasts": 0})
        values |= {"spec": spec_to_json(spec), "edits": chain.edits + 1}
        with self._writing() as connection:
            if not connection.execute(chains.update().where(here).values(values)).rowcount:
                raise ConfigurationError(
                    f"chain {chain.name} was edited or ended by another command in the meantime; repeat this one"
                )
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
            connection.execute(store.update().where(store.c.removed < chain).values(removed=chain))
        self._specs.pop(chain, None)

    # -- links ----------------------------------------------------------------------------------------------

    def links(self, chain: int | None = None, *, open: bool = False) -> list[Link]:
        """Links by chain and number."""
        query = _OPEN_LINKS if open else _LINKS
        if chain is not None:
            query = query.where(links.c.chain == chain)
        with self._reading() as connection:
            return [link_of(row._mapping) for row in connection.execute(query)]

    def add_link(self, link: Link, *events: EventRecord) -> None:
        """A new link; decisions to wait, before the last ``DETAILED_LINKS`` links, are removed."""
        early = (_decisions.c.chain == link.chain) & (_decisions.c.link < link.number - DETAILED_LINKS)
        try:
            with self._writing() as connection:
                connection.execute(links.insert().values(row_of(link)))
                connection.execute(_decisions.delete().where(early & ~_decisions.c.submits))
                _write_events(connection, events)
        except KeyExists as error:
            raise StoreError(f"chain {link.chain} has a link {link.number} already") from error

    def put_links(self, given: Sequence[Link], *events: EventRecord) -> None:
        """Store links, replacing those with their numbers."""
        with self._writing() as connection:
            for link in given:
                here = (links.c.chain == link.chain) & (links.c.number == link.number)
                connection.execute(links.delete().where(here))
                connection.execute(links.insert().values(row_of(link)))
            _write_events(connection, events)

    def change_link(self, chain: int, number: int, *events: EventRecord, **columns: object) -> None:
        """Set columns of a link and write events."""
        values = settable(links, columns)
        here = (links.c.chain == chain) & (links.c.number == number)
        with self._writing() as connection:
            if values and not connection.execute(links.update().where(here).values(values)).rowcount:
                raise StoreError(f"chain {chain} has no link {number} to change")
            _write_events(connection, events)

    def attempt(self, chain: int, number: int, now_s: int, edits: int) -> bool:
        """Claim the submission of a planned link of a chain that has this number of edits."""
        read = sa.select(chains.c.id).where((chains.c.id == chain) & (chains.c.edits == edits))
        free = (
            (links.c.chain == chain)
            & (links.c.number == number)
            & (links.c.state == LinkState.PLANNED.value)
            & (links.c.attempted_s == MISSING)
            & links.c.chain.in_(read)
        )
        with self._writing() as connection:
            return bool(connection.execute(links.update().where(free).values(attempted_s=now_s)).rowcount)

    # # -- decisions and events -------------------------------------------------------------------------------

    def add_decisions(self, decisions: list[DecisionRecord]) -> None:
        """Write decisions of policies."""
        if decisions:
            with self._writing() as connection:
                connection.execute(_decisions.insert(), [_decision_row(decision) for decision in decisions])

    def decisions(self, chain: int, *, last: int | None = None) -> list[DecisionRecord]:
        """Decisions of a chain, in order of time."""
        return [decision_of(row) for row in self._history(_decisions, chain, last)]

    def events(self, chain: int, *, last: int | None = None) -> list[EventRecord]:
        """Events of a chain, in order of time."""
        return [EventRecord(**row) for row in self._history(_events, chain, last)]

    def _history(self, table: sa.Table, chain: int, last: int | None) -> list[dict[str, Any]]:
        query = sa.select(*(column for column in table.c if column.name != "id")).where(table.c.chain == chain)
        query = query.order_by(table.c.id.desc()).limit(last)
        with self._reading() as connection:
            return [dict(row._mapping) for row in connection.execute(query)][::-1]

    def decided_since(self, last: int) -> tuple[int, Counter[tuple[str, bool]]]:
        """The newest decision, and the counts since ``last`` by reason and submission."""
        number = sa.func.max(_decisions.c.id)
        query = sa.select(_decisions.c.reason, _decisions.c.submits, sa.func.count(), number)
        query = query.where(_decisions.c.id > last).group_by(_decisions.c.reason, _decisions.c.submits)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return max((row[3] for row in rows), default=last), Counter({(row[0], bool(row[1])): row[2] for row in rows})

    def happened_since(self, last: int) -> tuple[int, Counter[str]]:
        """The newest event, and the counts since ``last`` by kind."""
        number = sa.func.max(_events.c.id)
        query = sa.select(_events.c.kind, sa.func.count(), number).where(_events.c.id > last).group_by(_events.c.kind)
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return max((row[2] for row in rows), default=last), Counter({row[0]: row[1] for row in rows})

    def events_to_notify(self, kinds: Sequence[str], after: int = 0) -> tuple[int, list[EventRecord]]:
        """The oldest events of some kinds without sent messages, and the number of the last one."""
        notified = sa.select(store.c.notified).scalar_subquery()
        query = sa.select(_events).where(_events.c.id > notified, _events.c.id > after, _events.c.kind.in_(kinds))
        with self._reading() as connection:
            rows = [dict(row._mapping) for row in connection.execute(query.order_by(_events.c.id).limit(EVENTS))]
        last = rows[-1]["id"] if rows else 0
        return last, [EventRecord(**{k: v for k, v in row.items() if k != "id"}) for row in rows]

    def record_notified(self, last: int, *events: EventRecord) -> None:
        """Store that the messages about events up to a number were sent, and write events."""
        with self._writing() as connection:
            connection.execute(store.update().values(notified=last))
            _write_events(connection, events)


_decisions, _events = decisions, events
_NO_SPEC = (-1, None)

# Statements of every cycle: to build one costs more than to run it.
_POLLED = store.update()
_CHAINS = sa.select(*(column for column in chains.c if column.name != "spec")).order_by(chains.c.id)
_ALIVE = _CHAINS.where(chains.c.state != ChainState.DONE.value)
_LINKS = sa.select(links).order_by(links.c.chain, links.c.number)
_NEWEST = sa.select(links.c.chain, sa.func.max(links.c.number).label("newest")).group_by(links.c.chain).subquery()
_OPEN_LINKS = _LINKS.join(_NEWEST, _NEWEST.c.chain == links.c.chain).where(
    sa.or_(links.c.state != LinkState.ENDED.value, links.c.number > _NEWEST.c.newest - RECENT_LINKS)
)


def _number_to_skip(connection: Connection) -> int:
    """The number of a removed chain that SQLite would reuse; 0 for none.

    A running agent identifies chains by their numbers, and PostgreSQL never reuses one.
    """
    if connection.dialect.name != "sqlite":
        return 0
    removed = connection.execute(sa.select(store.c.removed)).scalar_one()
    newest = connection.execute(sa.select(sa.func.max(chains.c.id))).scalar() or 0
    return int(removed) if removed >= newest else 0


def _decision_row(decision: DecisionRecord) -> dict[str, Any]:
    """The columns of a decision.

    A policy with the path of a model may be longer than its column.
    """
    row = row_of(decision)
    return row | {"policy": shortened(row["policy"], LONGEST_POLICY)}


def _write_events(connection: Connection, records: tuple[EventRecord, ...]) -> None:
    if records:
        connection.execute(_events.insert(), [row_of(record) for record in records])
