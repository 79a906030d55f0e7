"""Deliveries of a forge, its repositories and pull requests, and what it is told."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "delivery",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("guid", sa.String(length=100), nullable=False),
        sa.Column("event", sa.String(length=100), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("processed_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery")),
        sa.UniqueConstraint("guid", name=op.f("uq_delivery_guid")),
    )
    with op.batch_alter_table("delivery", schema=None) as batch_op:
        batch_op.create_index("ix_delivery_state", ["state", "id"], unique=False)

    op.create_table(
        "forgerepository",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True),
        sa.Column("forge_id", sa.BigInteger(), nullable=False),
        sa.Column("full_name", sa.String(length=300), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=True),
        sa.Column("private", sa.Boolean(), nullable=False),
        sa.Column("default_branch", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("reconciled_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_forgerepository_project_id_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_forgerepository")),
        sa.UniqueConstraint("forge_id", name=op.f("uq_forgerepository_forge_id")),
    )
    with op.batch_alter_table("forgerepository", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_forgerepository_full_name"), ["full_name"], unique=False)
        batch_op.create_index(batch_op.f("ix_forgerepository_project_id"), ["project_id"], unique=False)

    op.create_table(
        "pullrequest",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("association", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("merged", sa.Boolean(), nullable=False),
        sa.Column("draft", sa.Boolean(), nullable=False),
        sa.Column("from_fork", sa.Boolean(), nullable=False),
        sa.Column("head_sha", sa.String(length=64), nullable=False),
        sa.Column("base_ref", sa.String(), nullable=False),
        sa.Column("base_sha", sa.String(length=64), nullable=False),
        sa.Column("labels", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.Column("updated_at", sa.String(), nullable=False),
        sa.Column("approved_sha", sa.String(), nullable=False),
        sa.Column("approved_by", sa.String(), nullable=False),
        sa.Column("accepted_sha", sa.String(), nullable=False),
        sa.Column("accepted_by", sa.String(), nullable=False),
        sa.Column("accepted_reason", sa.String(), nullable=False),
        sa.Column("request_id", sa.Integer(), nullable=True),
        sa.Column("measured_sha", sa.String(length=64), nullable=False),
        sa.Column("check_id", sa.BigInteger(), nullable=True),
        sa.Column("check_sha", sa.String(length=64), nullable=False),
        sa.Column("comment_id", sa.BigInteger(), nullable=True),
        sa.Column("told", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["forgerepository.id"], name=op.f("fk_pullrequest_repository_id_forgerepository")
        ),
        sa.ForeignKeyConstraint(["request_id"], ["request.id"], name=op.f("fk_pullrequest_request_id_request")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pullrequest")),
        sa.UniqueConstraint("repository_id", "number", name=op.f("uq_pullrequest_repository_id_number")),
    )
    with op.batch_alter_table("pullrequest", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_pullrequest_head_sha"), ["head_sha"], unique=False)
        batch_op.create_index(batch_op.f("ix_pullrequest_request_id"), ["request_id"], unique=False)

    op.create_table(
        "forgeaction",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("pull_id", sa.Integer(), nullable=True),
        sa.Column("idempotency_key", sa.String(length=200), nullable=False),
        sa.Column("payload", sa.JSON().with_variant(postgresql.JSONB(), "postgresql"), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["pull_id"], ["pullrequest.id"], name=op.f("fk_forgeaction_pull_id_pullrequest")),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["forgerepository.id"], name=op.f("fk_forgeaction_repository_id_forgerepository")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_forgeaction")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_forgeaction_idempotency_key")),
    )
    with op.batch_alter_table("forgeaction", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_forgeaction_pull_id"), ["pull_id"], unique=False)
        batch_op.create_index("ix_forgeaction_state", ["state", "not_before"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
