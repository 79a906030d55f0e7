"""How far a slow walk over a large table has come."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "bookmark",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_bookmark")),
    )


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
