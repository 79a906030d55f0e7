"""A series whose benchmark was renamed says which one it goes on as."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("series", schema=None) as batch_op:
        batch_op.add_column(sa.Column("continued_by_id", sa.Integer(), nullable=True))
        batch_op.create_foreign_key("fk_series_continued_by_id_series", "series", ["continued_by_id"], ["id"])


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
