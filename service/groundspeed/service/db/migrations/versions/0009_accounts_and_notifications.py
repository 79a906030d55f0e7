"""Accounts with their sign-ins, whose a token is, who is told of what, and what is left out of the queue for a time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_JSON = sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "account",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("provider", sa.String(length=40), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("handle", sa.String(length=120), nullable=False),
        sa.Column("login", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("email", sa.String(length=320), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("role_from", sa.String(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("signed_in_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_account")),
        sa.UniqueConstraint("handle", name=op.f("uq_account_handle")),
        sa.UniqueConstraint("provider", "subject", name=op.f("uq_account_provider_subject")),
    )
    with op.batch_alter_table("account", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_account_email"), ["email"], unique=False)

    op.create_table(
        "signinstart",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("provider", sa.String(length=40), nullable=False),
        sa.Column("browser", sa.String(length=64), nullable=False),
        sa.Column("nonce", sa.String(), nullable=False),
        sa.Column("verifier", sa.String(), nullable=False),
        sa.Column("next", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_signinstart")),
    )
    with op.batch_alter_table("signinstart", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_signinstart_created_at"), ["created_at"], unique=False)

    op.create_table(
        "signintry",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_signintry")),
    )
    with op.batch_alter_table("signintry", schema=None) as batch_op:
        batch_op.create_index("ix_signintry_source", ["source", "at"], unique=False)

    op.create_table(
        "channel",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("project_id", sa.Integer(), nullable=True),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("secret", sa.String(), nullable=False),
        sa.Column("events", _JSON, nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("template", sa.String(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["project.id"], name=op.f("fk_channel_project_id_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_channel")),
        sa.UniqueConstraint("name", name=op.f("uq_channel_name")),
    )
    with op.batch_alter_table("channel", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_channel_project_id"), ["project_id"], unique=False)

    op.create_table(
        "signedin",
        sa.Column("sha256", sa.String(length=64), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["account.id"], name=op.f("fk_signedin_account_id_account")),
        sa.PrimaryKeyConstraint("sha256", name=op.f("pk_signedin")),
    )
    with op.batch_alter_table("signedin", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_signedin_account_id"), ["account_id"], unique=False)
        batch_op.create_index(batch_op.f("ix_signedin_expires_at"), ["expires_at"], unique=False)

    op.create_table(
        "notification",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("channel_id", sa.Integer(), nullable=False),
        sa.Column("regression_id", sa.Integer(), nullable=True),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("event", sa.String(length=40), nullable=False),
        sa.Column("facts", _JSON, nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("batch", sa.String(length=60), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["channel_id"], ["channel.id"], name=op.f("fk_notification_channel_id_channel")),
        sa.ForeignKeyConstraint(
            ["regression_id"], ["regression.id"], name=op.f("fk_notification_regression_id_regression")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notification")),
        sa.UniqueConstraint("channel_id", "key", name=op.f("uq_notification_channel_id_key")),
    )
    with op.batch_alter_table("notification", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_notification_batch"), ["batch"], unique=False)
        batch_op.create_index(batch_op.f("ix_notification_channel_id"), ["channel_id"], unique=False)
        batch_op.create_index("ix_notification_due", ["state", "not_before"], unique=False)
        batch_op.create_index(batch_op.f("ix_notification_regression_id"), ["regression_id"], unique=False)

    with op.batch_alter_table("regression", schema=None) as batch_op:
        batch_op.add_column(sa.Column("ignored_at", sa.DateTime(timezone=True), nullable=True))
        batch_op.create_index(batch_op.f("ix_regression_ignored_at"), ["ignored_at"], unique=False)

    with op.batch_alter_table("token", schema=None) as batch_op:
        batch_op.add_column(sa.Column("account_id", sa.Integer(), nullable=True))
        batch_op.create_index(batch_op.f("ix_token_account_id"), ["account_id"], unique=False)
        batch_op.create_foreign_key(batch_op.f("fk_token_account_id_account"), "account", ["account_id"], ["id"])


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
