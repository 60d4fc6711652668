"""Brakes: wrong forecasts in a row, and the start of the count of a day's links."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the columns of the brakes."""
    op.add_column("chains", sa.Column("wrong_forecasts", sa.Integer, nullable=False, server_default="0"))
    op.add_column("chains", sa.Column("resumed_s", sa.BigInteger, nullable=False, server_default="-1"))
