"""The queue's index leads from a priority to its projects; a request's jobs are found by their state."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_job_queue", table_name="job")
    op.create_index("ix_job_queue", "job", ["state", "priority", "project_id", "id"])
    op.drop_index("ix_job_request_id", table_name="job")
    op.create_index("ix_job_request", "job", ["request_id", "state"])


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
