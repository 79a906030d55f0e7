"""What a commit graph says of imported commits, written to their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, update
from sqlmodel import Session

from groundspeed.service.db.identities import core
from groundspeed.service.db.tables import Revision
from groundspeed.service.db.types import clean_text
from groundspeed.service.usecases.import_order import Graph


def describe(session: Session, ids: Mapping[str, int], graph: Graph) -> None:
    """Parents, times, tags, titles and authors of the commits that the graph knows; ``ids`` by hash."""
    known = [
        (revision_id, commit) for sha, revision_id in ids.items() if (commit := graph.commits.get(sha)) is not None
    ]
    placed = [
        {
            "row": revision_id, "parents": list(commit.parents), "authored_at": commit.authored_at,
            "committed_at": commit.committed_at, "tags": list(commit.tags),
        }
        for revision_id, commit in known
    ]  # fmt: skip
    told = [
        {"row": revision_id, "title": clean_text(commit.title)[:500], "author": clean_text(commit.author)[:200]}
        for revision_id, commit in known
        if commit.title
    ]
    set_columns(session, placed)
    set_columns(session, told)


def set_columns(session: Session, values: Sequence[Mapping[str, Any]]) -> None:
    """Set columns of many commits, each with its id as "row"."""
    if values:
        table = core(Revision)
        session.connection().execute(update(table).where(table.c.id == bindparam("row")), list(values))
