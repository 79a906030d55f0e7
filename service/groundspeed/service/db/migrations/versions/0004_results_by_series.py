"""Results: partitioned by series on PostgreSQL, read from the index alone on both; marks say which commit is new."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

PARTITIONS = 16
COLUMNS = "id, run_id, series_id, revision_id, environment_id, value, spread, count, state, samples, created_at"
INDEXED = ["series_id", "revision_id", "environment_id", "value", "spread", "state", "run_id"]
REFERENCES = {"run_id": "run", "series_id": "series"}
COPIED = {"revision_id": "revision", "environment_id": "environment"}
"""Copies of what the run says, which is checked there: a second check of each row would cost and tell nothing."""


def upgrade() -> None:
    with op.batch_alter_table("seriesmark", schema=None) as batch:
        batch.add_column(sa.Column("revision_id", sa.Integer(), nullable=True))
    op.drop_index("ix_result_series", table_name="result")
    if op.get_bind().dialect.name == "postgresql":
        _partition()
    else:
        with op.batch_alter_table("result", schema=None) as batch:
            for column, table in COPIED.items():
                batch.drop_constraint(f"fk_result_{column}_{table}", type_="foreignkey")
    op.create_index("ix_result_series", "result", INDEXED, unique=False)


def _partition() -> None:
    """The same table, as sixteen; of a row larger than 2 kB the samples go out of line."""
    op.execute("ALTER TABLE result RENAME TO result_old")
    op.execute("ALTER TABLE result_old RENAME CONSTRAINT pk_result TO pk_result_old")
    op.execute("ALTER TABLE result_old RENAME CONSTRAINT uq_result_run_id_series_id TO uq_result_old")
    op.execute("ALTER SEQUENCE result_id_seq OWNED BY NONE")
    op.execute(
        "CREATE TABLE result (LIKE result_old INCLUDING DEFAULTS, "
        "CONSTRAINT pk_result PRIMARY KEY (series_id, id), "
        "CONSTRAINT uq_result_run_id_series_id UNIQUE (run_id, series_id)) PARTITION BY HASH (series_id)"
    )
    op.execute("ALTER TABLE result ALTER COLUMN samples SET STORAGE EXTERNAL")
    for i in range(PARTITIONS):
        op.execute(
            f"CREATE TABLE result_{i:02d} PARTITION OF result "
            f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {i}) WITH (toast_tuple_target = 128)"
        )
    op.execute(f"INSERT INTO result ({COLUMNS}) SELECT {COLUMNS} FROM result_old")  # noqa: S608 - names are our own
    op.execute("DROP TABLE result_old")
    op.execute("ALTER SEQUENCE result_id_seq OWNED BY result.id")
    for column, table in REFERENCES.items():
        name = f"fk_result_{column}_{table}"
        op.execute(f"ALTER TABLE result ADD CONSTRAINT {name} FOREIGN KEY ({column}) REFERENCES {table} (id)")


def downgrade() -> None:
    raise NotImplementedError("Going back means restoring the backup that was made before the upgrade.")
