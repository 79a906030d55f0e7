"""A change of environment over many nodes: campaigns and each node's part in one."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def _json() -> sa.types.TypeEngine[Any]:
    return sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "campaign",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=False),
        sa.Column("revision_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("phase", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("wanted", _json(), nullable=False),
        sa.Column("plan", _json(), nullable=False),
        sa.Column("report", _json(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_campaign_project_id_project")),
        sa.ForeignKeyConstraint(["revision_id"], ["revision.id"], name=op.f("fk_campaign_revision_id_revision")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaign")),
        sa.UniqueConstraint("name", name=op.f("uq_campaign_name")),
    )
    op.create_index(op.f("ix_campaign_project_id"), "campaign", ["project_id"])
    op.create_index(op.f("ix_campaign_state"), "campaign", ["state"])
    op.create_table(
        "campaignnode",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("campaign_id", sa.Integer(), nullable=False),
        sa.Column("node_id", sa.Integer(), nullable=False),
        sa.Column("wave", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("state_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("before_environment_id", sa.Integer(), nullable=True),
        sa.Column("after_environment_id", sa.Integer(), nullable=True),
        sa.Column("lost", _json(), nullable=False),
        sa.Column("other", _json(), nullable=False),
        sa.Column("jobs", _json(), nullable=False),
        sa.Column("reused", sa.Boolean(), nullable=False),
        sa.Column("hook", _json(), nullable=False),
        sa.ForeignKeyConstraint(
            ["after_environment_id"], ["environment.id"], name=op.f("fk_campaignnode_after_environment_id_environment")
        ),
        sa.ForeignKeyConstraint(
            ["before_environment_id"],
            ["environment.id"],
            name=op.f("fk_campaignnode_before_environment_id_environment"),
        ),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaign.id"], name=op.f("fk_campaignnode_campaign_id_campaign")),
        sa.ForeignKeyConstraint(["node_id"], ["node.id"], name=op.f("fk_campaignnode_node_id_node")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_campaignnode")),
        sa.UniqueConstraint("campaign_id", "node_id", name=op.f("uq_campaignnode_campaign_id_node_id")),
    )
    op.create_index(op.f("ix_campaignnode_node_id"), "campaignnode", ["node_id"])


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
