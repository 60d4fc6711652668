"""The tables of the agent's store in their newest version."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, ForeignKey, Integer, MetaData, String, Table, Text

metadata = MetaData()

store = Table(
    "store",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # one row, number 1
    Column("identity", String(40), nullable=False),
    Column("cluster", Text, nullable=False, default=""),
    Column("polled_s", BigInteger, nullable=False, default=-1),
    Column("removed", Integer, nullable=False, default=0),  # highest number of a chain that was removed: none is reused
    Column("notified", BigInteger, nullable=False, default=0),  # number of the last event with messages that were sent
)

chains = Table(
    "chains",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("name", String(63), nullable=False, unique=True),
    Column("spec", JSON, nullable=False),
    Column("created_s", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("why", Text, nullable=False, default=""),
    Column("refusals", Integer, nullable=False, default=0),
    Column("failures", Integer, nullable=False, default=0),
    Column("next_try_s", BigInteger, nullable=False, default=0),
    Column("next_look_s", BigInteger, nullable=False, default=0),
    Column("key", String(40), nullable=False),
    Column("trouble", Text, nullable=False, default=""),
    Column("quick_ends", Integer, nullable=False, default=0),
    Column("stopped_s", BigInteger, nullable=False, default=-1),
    Column("wrong_forecasts", Integer, nullable=False, default=0),
    Column("resumed_s", BigInteger, nullable=False, default=-1),
    Column("edits", Integer, nullable=False, default=0),
    Column("excluded", Text, nullable=False, default=""),
    Column("reserved", Text, nullable=False, default=""),
)

links = Table(
    "links",
    metadata,
    Column("chain", ForeignKey("chains.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("state", String(16), nullable=False, index=True),
    *(
        Column(name, BigInteger, nullable=False, default=-1)
        for name in (
            "job", "attempted_s", "submitted_s", "released_s", "started_s", "limit_s", "ready_s", "signalled_s",
            "cancelled_s", "ended_s", "begins_s", "withdrawn_s",
        )
    ),
    Column("finished", Boolean, nullable=False, default=False),
    Column("outcome", Integer, nullable=False, default=-1),
    Column("exit_code", Integer, nullable=False, default=0),
    Column("reason", Text, nullable=False, default=""),
    Column("earlier", JSON, nullable=False),
    Column("given_up", Integer, nullable=False, default=0),
    Column("nodelist", Text, nullable=False, default=""),
    Column("progress", String(40), nullable=False, default=""),
    Column("shortened_from_s", BigInteger, nullable=False, default=-1),
    Column("ends_s", BigInteger, nullable=False, default=-1),
)  # fmt: skip

decisions = Table(
    "decisions",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("chain", ForeignKey("chains.id"), nullable=False, index=True),
    Column("link", Integer, nullable=False),
    Column("time_s", BigInteger, nullable=False),
    Column("policy", String(80), nullable=False),
    Column("submits", Boolean, nullable=False),
    Column("reason", Text, nullable=False),
    Column("estimate", JSON, nullable=False),
    Column("saw", JSON, nullable=False),
    Column("thought", String(48), nullable=False, default=""),
)

events = Table(
    "events",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("chain", ForeignKey("chains.id"), nullable=False, index=True),
    Column("link", Integer, nullable=False),
    Column("time_s", BigInteger, nullable=False),
    Column("kind", String(40), nullable=False),
    Column("detail", Text, nullable=False),
)

lease = Table(
    "lease",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),  # one row, number 1
    Column("holder", String(200), nullable=False),
    Column("until_s", Float, nullable=False),
)
