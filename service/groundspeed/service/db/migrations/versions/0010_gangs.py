"""Attempts at one job on several nodes share a gang; nodes say where others reach them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempt", sa.Column("gang", sa.String(length=36), nullable=True))
    op.add_column("attempt", sa.Column("rank", sa.Integer(), nullable=False, server_default="0"))
    op.create_index("ix_attempt_gang", "attempt", ["gang"])
    op.add_column("node", sa.Column("address", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
