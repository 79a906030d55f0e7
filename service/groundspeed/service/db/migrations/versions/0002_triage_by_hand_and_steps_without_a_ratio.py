"""Triage by hand, and steps of series that cross zero: those have a difference and no ratio."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("changepoint", schema=None) as batch_op:
        batch_op.add_column(sa.Column("pinned", sa.Boolean(), nullable=False, server_default=sa.false()))
        batch_op.alter_column("ratio", existing_type=sa.FLOAT(), nullable=True)
        batch_op.alter_column("ratio_low", existing_type=sa.FLOAT(), nullable=True)
        batch_op.alter_column("ratio_high", existing_type=sa.FLOAT(), nullable=True)

    with op.batch_alter_table("regression", schema=None) as batch_op:
        batch_op.add_column(sa.Column("merged_into_id", sa.Integer(), nullable=True))
        batch_op.create_foreign_key(
            batch_op.f("fk_regression_merged_into_id_regression"), "regression", ["merged_into_id"], ["id"]
        )


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
