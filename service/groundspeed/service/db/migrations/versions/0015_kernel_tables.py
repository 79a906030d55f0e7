"""What a run's kernels took has a place of its own, read from its file as that arrives."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "kerneltable",
        sa.Column("run_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("kernels", sa.LargeBinary(), nullable=True),
        sa.Column("why", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name="fk_kerneltable_run_id_run"),
        sa.PrimaryKeyConstraint("run_id", name="pk_kerneltable"),
    )


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
