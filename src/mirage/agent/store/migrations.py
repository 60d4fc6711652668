"""Migrations of a store's tables: one function a version.

A function never changes once it was released. They only add tables, columns, indices and rows, which SQLAlchemy writes
for SQLite and PostgreSQL alike, so a login node needs no package for migrations. A test compares their result with
``schema``.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.schema import CreateColumn

from mirage.agent.store.identity import OF_CHAIN, OF_STORE, random_letters

_VERSION = sa.Table("alembic_version", sa.MetaData(), sa.Column("version_num", sa.String(32), primary_key=True))
"""Table of the version; the name is that of the package which stores were first made with."""


def version_of(connection: Connection) -> str | None:
    """The version of the tables; None where there are none."""
    if not sa.inspect(connection).has_table(_VERSION.name):
        return None
    return connection.execute(sa.select(_VERSION.c.version_num)).scalar()


def upgrade(connection: Connection, to: str | None = None) -> None:
    """Runs the missing migrations, inside the transaction of this connection.

    Args:
        connection: A connection to the database.
        to: The last version to make; None for the newest.
    """
    present = version_of(connection)
    if present is None:
        _VERSION.create(connection)
    for version, migrate in _MIGRATIONS.items():
        if (present is None or version > present) and (to is None or version <= to):
            migrate(connection)
            connection.execute(sa.delete(_VERSION))
            connection.execute(sa.insert(_VERSION).values(version_num=version))


def _add_columns(connection: Connection, table: str, *columns: sa.Column[object]) -> None:
    for column in columns:
        sa.Table(table, sa.MetaData(), column)
        described = CreateColumn(column).compile(connection)
        connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {described}"))


def _times(*names: str) -> list[sa.Column[object]]:
    return [sa.Column(name, sa.BigInteger, nullable=False, server_default="-1") for name in names]


def _first(connection: Connection) -> None:
    """Chains, links, decisions, events, the lease."""
    tables = sa.MetaData()
    sa.Table(
        "chains",
        tables,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("name", sa.String(63), nullable=False, unique=True),
        sa.Column("spec", sa.JSON, nullable=False),
        sa.Column("created_s", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("refusals", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("next_try_s", sa.BigInteger, nullable=False),
        sa.Column("next_look_s", sa.BigInteger, nullable=False),
    )
    times = (
        "job", "attempted_s", "submitted_s", "released_s", "started_s", "limit_s", "ready_s", "signalled_s", "ended_s",
    )  # fmt: skip
    sa.Table(
        "links",
        tables,
        sa.Column("chain", sa.Integer, sa.ForeignKey("chains.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("state", sa.String(16), nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in times),
        sa.Column("finished", sa.Boolean, nullable=False),
        sa.Column("outcome", sa.Integer, nullable=False),
        sa.Column("exit_code", sa.Integer, nullable=False),
    )
    key = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    sa.Table(
        "decisions",
        tables,
        sa.Column("id", key, primary_key=True),
        sa.Column("chain", sa.Integer, sa.ForeignKey("chains.id"), nullable=False),
        sa.Column("link", sa.Integer, nullable=False),
        sa.Column("time_s", sa.BigInteger, nullable=False),
        sa.Column("policy", sa.String(80), nullable=False),
        sa.Column("submits", sa.Boolean, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("estimate", sa.JSON, nullable=False),
        sa.Column("saw", sa.JSON, nullable=False),
    )
    sa.Table(
        "events",
        tables,
        sa.Column("id", key, primary_key=True),
        sa.Column("chain", sa.Integer, sa.ForeignKey("chains.id"), nullable=False),
        sa.Column("link", sa.Integer, nullable=False),
        sa.Column("time_s", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    sa.Table(
        "lease",
        tables,
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("holder", sa.String(200), nullable=False),
        sa.Column("until_s", sa.Float, nullable=False),
    )
    tables.create_all(connection, checkfirst=False)


def _cancelled(connection: Connection) -> None:
    """The time of our cancellation of a link, and indices for the queries of every poll."""
    _add_columns(connection, "links", *_times("cancelled_s"))
    for table, column in (("links", "state"), ("decisions", "chain"), ("events", "chain")):
        connection.execute(sa.text(f"CREATE INDEX ix_{table}_{column} ON {table} ({column})"))


def _identity(connection: Connection) -> None:
    """Identity of a store and its chains; trouble, reasons, earlier runs of a link."""
    store = sa.Table(
        "store",
        sa.MetaData(),
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("identity", sa.String(40), nullable=False),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("polled_s", sa.BigInteger, nullable=False),
        sa.Column("removed", sa.Integer, nullable=False),
    )
    store.create(connection, checkfirst=False)
    row = {"id": 1, "identity": random_letters(OF_STORE), "cluster": "", "polled_s": -1, "removed": 0}
    connection.execute(sa.insert(store).values(row))
    _add_columns(
        connection,
        "chains",
        sa.Column("key", sa.String(40), nullable=False, server_default=""),
        sa.Column("trouble", sa.Text, nullable=False, server_default=""),
        sa.Column("quick_ends", sa.Integer, nullable=False, server_default="0"),
        *_times("stopped_s"),
    )
    chains = sa.table("chains", sa.column("id"), sa.column("key"))
    for (number,) in connection.execute(sa.select(chains.c.id)).all():
        connection.execute(chains.update().where(chains.c.id == number).values(key=random_letters(OF_CHAIN)))
    _add_columns(
        connection,
        "links",
        sa.Column("reason", sa.Text, nullable=False, server_default=""),
        sa.Column("earlier", sa.JSON, nullable=False, server_default="[]"),
    )


def _revisions(connection: Connection) -> None:
    """Postponed and withdrawn links, and changes of queued links by decisions."""
    given_up: sa.Column[object] = sa.Column("given_up", sa.Integer, nullable=False, server_default="0")
    _add_columns(connection, "links", *_times("begins_s", "withdrawn_s"), given_up)
    revision: sa.Column[object] = sa.Column("thought", sa.String(48), nullable=False, server_default="")
    _add_columns(connection, "decisions", revision)


def _brakes(connection: Connection) -> None:
    """Wrong forecasts in a row, and the start of the count of a day's links."""
    wrong: sa.Column[object] = sa.Column("wrong_forecasts", sa.Integer, nullable=False, server_default="0")
    _add_columns(connection, "chains", wrong, *_times("resumed_s"))


def _edits(connection: Connection) -> None:
    """The number of changes of a chain's specification, and the last event with messages."""
    _add_columns(connection, "chains", sa.Column("edits", sa.Integer, nullable=False, server_default="0"))
    _add_columns(connection, "store", sa.Column("notified", sa.BigInteger, nullable=False, server_default="0"))


def _nodes(connection: Connection) -> None:
    """The nodes of a link, and those that the next links of a chain avoid."""
    for table, name in (("links", "nodelist"), ("chains", "excluded")):
        _add_columns(connection, table, sa.Column(name, sa.Text, nullable=False, server_default=""))


def _progress(connection: Connection) -> None:
    """The progress at the end of a link."""
    progress: sa.Column[object] = sa.Column("progress", sa.String(40), nullable=False, server_default="")
    _add_columns(connection, "links", progress)


def _reservations(connection: Connection) -> None:
    """The time in which no link can run, and the usual limit of a shortened link."""
    _add_columns(connection, "chains", sa.Column("reserved", sa.Text, nullable=False, server_default=""))
    _add_columns(connection, "links", *_times("shortened_from_s"))


def _suspensions(connection: Connection) -> None:
    """The end of the limit of a link that was suspended."""
    _add_columns(connection, "links", *_times("ends_s"))


_MIGRATIONS: dict[str, Callable[[Connection], None]] = {
    "0001": _first,
    "0002": _cancelled,
    "0003": _identity,
    "0004": _revisions,
    "0005": _brakes,
    "0006": _edits,
    "0007": _nodes,
    "0008": _progress,
    "0009": _reservations,
    "0010": _suspensions,
}

NEWEST = max(_MIGRATIONS)
"""Version of the tables in ``schema``."""
