"""What was decided about a pull request, when it is due again, and the issues that tell of regressions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    with op.batch_alter_table("delivery", schema=None) as batch_op:
        batch_op.add_column(sa.Column("digest", sa.String(length=64), nullable=False, server_default=""))
        batch_op.create_index(batch_op.f("ix_delivery_digest"), ["digest"], unique=False)
    with op.batch_alter_table("forgerepository", schema=None) as batch_op:
        batch_op.add_column(sa.Column("quiet_until", sa.DateTime(timezone=True), nullable=True))
    with op.batch_alter_table("pullrequest", schema=None) as batch_op:
        batch_op.add_column(sa.Column("kind", sa.String(), nullable=False, server_default="pull"))
        batch_op.add_column(sa.Column("head_ref", sa.String(), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("due_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.add_column(sa.Column("refresh", sa.Boolean(), nullable=False, server_default=sa.false()))
        batch_op.add_column(sa.Column("round", sa.Integer(), nullable=False, server_default="0"))
        batch_op.add_column(sa.Column("wish", _JSON, nullable=False, server_default="{}"))
        batch_op.add_column(sa.Column("outcome", sa.String(), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("outcome_sha", sa.String(length=64), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("compared_sha", sa.String(length=64), nullable=False, server_default=""))
        batch_op.add_column(sa.Column("note", sa.String(), nullable=False, server_default=""))
        batch_op.create_index(batch_op.f("ix_pullrequest_due_at"), ["due_at"], unique=False)
    with op.batch_alter_table("forgeaction", schema=None) as batch_op:
        batch_op.add_column(sa.Column("wanted", sa.Integer(), nullable=False, server_default="1"))
    op.create_table(
        "forgeissue",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("regression_id", sa.Integer(), nullable=False),
        sa.Column("repository_id", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=True),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["regression_id"], ["regression.id"], name=op.f("fk_forgeissue_regression_id_regression")
        ),
        sa.ForeignKeyConstraint(
            ["repository_id"], ["forgerepository.id"], name=op.f("fk_forgeissue_repository_id_forgerepository")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_forgeissue")),
        sa.UniqueConstraint("regression_id", name=op.f("uq_forgeissue_regression_id")),
    )
    with op.batch_alter_table("forgeissue", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_forgeissue_repository_id"), ["repository_id"], unique=False)


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
