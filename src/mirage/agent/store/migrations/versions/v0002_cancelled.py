"""The time of our cancellation of a link, and indices for the queries of every poll."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add ``links.cancelled_s`` and the indices."""
    op.add_column("links", sa.Column("cancelled_s", sa.BigInteger, nullable=False, server_default="-1"))
    op.create_index("ix_links_state", "links", ["state"])
    op.create_index("ix_decisions_chain", "decisions", ["chain"])
    op.create_index("ix_events_chain", "events", ["chain"])
