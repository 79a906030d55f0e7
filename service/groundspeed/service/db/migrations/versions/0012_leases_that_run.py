"""Attempts that run have an index of their own, and a sign of life changes no index.

Two indexes go that the first columns of unique ones serve as well, and those of columns that nothing is looked up by.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("delivery", "expires_at", "state", "job_id"):
        op.drop_index(f"ix_attempt_{name}", table_name="attempt")
    op.drop_index("ix_jobside_job_id", table_name="jobside")
    running = sa.text("state = 'running'")
    op.create_index("ix_attempt_running", "attempt", ["node_id"], sqlite_where=running, postgresql_where=running)
    op.create_index("ix_attempt_finished_at", "attempt", ["finished_at"])


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
