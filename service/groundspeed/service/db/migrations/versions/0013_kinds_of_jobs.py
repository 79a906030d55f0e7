"""The queue is read by kinds of jobs: what a job requires has a short name in its index."""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")
_JOB = sa.table("job", sa.column("requirements", _JSON), sa.column("needs", sa.String))


def upgrade() -> None:
    op.add_column("job", sa.Column("needs", sa.String(length=16), nullable=False, server_default=""))
    connection = op.get_bind()
    for (requirements,) in connection.execute(sa.select(_JOB.c.requirements).distinct()).all():
        text = json.dumps(requirements, sort_keys=True, separators=(",", ":"))
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        connection.execute(sa.update(_JOB).where(_JOB.c.requirements == requirements).values(needs=name))
    op.drop_index("ix_job_queue", table_name="job")
    op.create_index("ix_job_queue", "job", ["state", "priority", "project_id", "needs", "id"])


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
