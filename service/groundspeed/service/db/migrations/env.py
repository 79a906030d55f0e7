"""Alembic's entry: always run by ``groundspeed.service.db.migrate``, which hands over an open connection."""

from __future__ import annotations

from typing import Any, Literal

from alembic import context
from sqlmodel import SQLModel

from groundspeed.service.db import (  # noqa: F401 - fills the metadata
    account_tables,
    campaign_tables,
    forge_tables,
    notification_tables,
    tables,
)
from groundspeed.service.db.migrate import is_ours
from groundspeed.service.db.types import BigId, UtcDateTime

_RENDERED = {
    UtcDateTime: "sa.DateTime(timezone=True)",
    BigId: 'sa.BigInteger().with_variant(sa.Integer(), "sqlite")',
}
"""Migrations name SQL types and import nothing of ours: they must mean the same in ten years."""


def _render(kind: str, item: Any, _context: Any) -> str | Literal[False]:
    if kind != "type":
        return False
    if type(item).__name__ == "AutoString":
        return f"sa.String(length={item.length})" if item.length else "sa.String()"
    if type(item).__name__ == "JSON":
        return 'sa.JSON().with_variant(postgresql.JSONB(), "postgresql")'
    return _RENDERED.get(type(item), False)


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=SQLModel.metadata,
    render_item=_render,
    include_object=is_ours,
    compare_type=True,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
