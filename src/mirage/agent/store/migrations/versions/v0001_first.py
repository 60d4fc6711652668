"""Chains, links, decisions, events, the lease."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_TIMES = (
    "job", "attempted_s", "submitted_s", "released_s", "started_s", "limit_s", "ready_s", "signalled_s", "ended_s",
)  # fmt: skip


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "chains",
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
    op.create_table(
        "links",
        sa.Column("chain", sa.Integer, sa.ForeignKey("chains.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("state", sa.String(16), nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _TIMES),
        sa.Column("finished", sa.Boolean, nullable=False),
        sa.Column("outcome", sa.Integer, nullable=False),
        sa.Column("exit_code", sa.Integer, nullable=False),
    )
    key = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "decisions",
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
    op.create_table(
        "events",
        sa.Column("id", key, primary_key=True),
        sa.Column("chain", sa.Integer, sa.ForeignKey("chains.id"), nullable=False),
        sa.Column("link", sa.Integer, nullable=False),
        sa.Column("time_s", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
    op.create_table(
        "lease",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("holder", sa.String(200), nullable=False),
        sa.Column("until_s", sa.Float, nullable=False),
    )
