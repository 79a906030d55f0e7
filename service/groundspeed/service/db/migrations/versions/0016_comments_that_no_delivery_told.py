"""How far a repository's comments have been read for commands that no delivery told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("forgerepository", sa.Column("comments_at", sa.String(), nullable=False, server_default=""))


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
