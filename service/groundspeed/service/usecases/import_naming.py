"""Which commit imported results are of: as they name it, as whoever imports them does, or made up from time or file."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.tables import Revision
from groundspeed.service.db.types import clean_text
from groundspeed.service.formats.records import Origin, Where
from groundspeed.service.usecases.import_order import Later

_SHORT, _WHOLE = re.compile(r"[0-9a-f]{6,39}"), 40
"""What may be the beginning of a whole hash, and how long one is: a number of Subversion is neither."""


@dataclass(slots=True)
class Naming:
    """Of one project. ``commit`` and ``time`` stand in where results name none; a short hash becomes the whole one
    that the graph, or else the project, has for it.
    """

    project_id: int
    graph: Later
    commit: str
    time: datetime | None
    _resolved: dict[str, str] = field(default_factory=dict)
    _whole: list[str] | None = None
    """The project's own, read when the first short one is met."""

    def of(self, session: Session, origin: Origin, where: Where) -> tuple[str, datetime | None]:
        """The revision that an origin's results are of, and its time."""
        moment = origin.committed_at or origin.measured_at or self.time
        commit = origin.commit or self.commit
        if commit:
            return self._resolve(session, commit), moment
        if moment is not None:
            return f"at-{moment.astimezone(UTC):%Y%m%dT%H%M%S}", moment
        return f"file-{hashlib.blake2b(where.source.encode('utf-8', 'replace'), digest_size=8).hexdigest()}", None

    def _resolve(self, session: Session, commit: str) -> str:
        known = self._resolved.get(commit)
        if known is None:
            graph = self.graph.read() if len(commit) != self.graph.length else None
            known = graph.resolve(commit) if graph else commit
            if known == commit and _SHORT.fullmatch(commit):
                longer = [sha for sha in self._of_project(session) if sha.startswith(commit)]
                known = longer[0] if len(longer) == 1 else commit
            self._resolved[commit] = known = clean_text(known)[:64]
        return known

    def _of_project(self, session: Session) -> list[str]:
        if self._whole is None:
            query = select(col(Revision.sha)).where(col(Revision.project_id) == self.project_id)
            self._whole = [sha for sha in session.scalars(query) if len(sha) >= _WHOLE]
        return self._whole
