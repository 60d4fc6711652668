"""Revisions: postponed and withdrawn links, and changes of queued links by decisions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the columns of revisions."""
    for name in ("begins_s", "withdrawn_s"):
        op.add_column("links", sa.Column(name, sa.BigInteger, nullable=False, server_default="-1"))
    op.add_column("links", sa.Column("given_up", sa.Integer, nullable=False, server_default="0"))
    op.add_column("decisions", sa.Column("thought", sa.String(48), nullable=False, server_default=""))
