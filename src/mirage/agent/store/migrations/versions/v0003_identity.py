"""Identity of a store and its chains; trouble, reasons, earlier runs of a link."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mirage.agent.store.identity import OF_CHAIN, OF_STORE, random_letters

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the identity of the store and of its chains, and the columns for their problems."""
    store = op.create_table(
        "store",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("identity", sa.String(40), nullable=False),
        sa.Column("cluster", sa.Text, nullable=False),
        sa.Column("polled_s", sa.BigInteger, nullable=False),
        sa.Column("removed", sa.Integer, nullable=False),
    )
    op.bulk_insert(
        store, [{"id": 1, "identity": random_letters(OF_STORE), "cluster": "", "polled_s": -1, "removed": 0}]
    )
    with op.batch_alter_table("chains") as chains:
        for column in (
            sa.Column("key", sa.String(40), nullable=False, server_default=""),
            sa.Column("trouble", sa.Text, nullable=False, server_default=""),
            sa.Column("quick_ends", sa.Integer, nullable=False, server_default="0"),
            sa.Column("stopped_s", sa.BigInteger, nullable=False, server_default="-1"),
        ):
            chains.add_column(column)
    connection = op.get_bind()
    known = sa.table("chains", sa.column("id"), sa.column("key"))
    for (number,) in connection.execute(sa.select(known.c.id)).all():
        named = known.update().where(known.c.id == number).values(key=random_letters(OF_CHAIN))
        connection.execute(named)
    op.add_column("links", sa.Column("reason", sa.Text, nullable=False, server_default=""))
    op.add_column("links", sa.Column("earlier", sa.JSON, nullable=False, server_default="[]"))
