"""Results that come over the network, a file at a time: as an import, but all of a small one is one transaction.

It is acknowledged after its commit, with what detection is told, so that nothing of it waits for another call.
"""

from __future__ import annotations

import random
import re
import tempfile
import time as clock
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, IntegrityError, NoResultFound
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Project
from groundspeed.service.errors import Invalid, NotFound
from groundspeed.service.formats.source import UNPACK_ERRORS, Document, of_bytes
from groundspeed.service.usecases import importing
from groundspeed.service.usecases.columns import columns
from groundspeed.service.usecases.import_order import NO_GRAPH
from groundspeed.service.usecases.import_places import Places
from groundspeed.service.usecases.import_rows import Writer
from groundspeed.service.usecases.import_sources import Sources, is_archive
from groundspeed.service.usecases.import_summary import Summary
from groundspeed.service.usecases.importing import Importer, Options

FEW_BYTES = 1_000_000
"""A file up to this size looks up what it needs, and not all commits and jobs of its project ahead."""
MAX_UNPACKED_BYTES = 128 * 2**20
"""What is sent packed may become so much: a megabyte of some packings would keep the store busy for hours."""
TRIES = 6
"""Of what stood in another's way: two that make the same rows in another order wait for one another on PostgreSQL."""
_GIVE_WAY = {"40001", "40P01"}


def receive(  # noqa: PLR0913 - one for each thing that is said
    db: Database,
    project: str,
    name: str,
    body: bytes,
    now: datetime,
    *,
    form: str = "",
    commit: str = "",
    time: datetime | None = None,
    mapping: Sequence[str] = (),
) -> Summary:
    """Import one file; ``name`` is only shown, ``mapping`` says what the columns of a table are, ``role=column`` each.
    The project must be there already.

    Raises :class:`NotFound` for an unknown project, :class:`Invalid` for a body that cannot be read at all.
    """
    importing.check_format(form)
    shown = re.sub(r"[^A-Za-z0-9._-]", "_", name).strip(".")[-100:] or "posted"
    options = Options(project, (), form, columns(mapping), commit, time)
    document = of_bytes(shown, body, MAX_UNPACKED_BYTES)
    if _is_long(document, body) or is_archive(shown):
        summary = _again(db, lambda: _as_history(db, shown, body, options, now))
    else:
        summary = _again(db, lambda: _in_one(db, document, options, now))
    if summary.refused and not summary.read:
        error = summary.refused[0]
        raise Invalid(f"{error.where}: {error.reason}", error.advice)
    return summary


def _again(db: Database, take: Callable[[], Summary]) -> Summary:
    """Once more where another was in the way, or a row that was remembered has been deleted since."""
    for _ in range(TRIES - 1):
        try:
            return take()
        except NoResultFound:  # the project is being deleted
            pass
        except DBAPIError as error:
            if not isinstance(error, IntegrityError) and getattr(error.orig, "sqlstate", "") not in _GIVE_WAY:
                raise
        db.forget()
        clock.sleep(random.uniform(0.0, 0.1))  # noqa: S311 - so that they do not meet again
    return take()


def _as_history(db: Database, shown: str, body: bytes, options: Options, now: datetime) -> Summary:
    with db.read() as session:
        _project(session, options.project)
    with tempfile.TemporaryDirectory(prefix="groundspeed-post-") as folder:
        path = Path(folder) / shown
        path.write_bytes(body)
        found = Sources((path,), MAX_UNPACKED_BYTES, MAX_UNPACKED_BYTES)
        return importing.run(db, replace(options, paths=(path,), alone=False), now, sources=found)


def _is_long(document: Document, body: bytes) -> bool:
    """Whether there is much of it, once it is unpacked."""
    if len(body) > FEW_BYTES:
        return True
    try:
        with document.stream() as stream:
            return len(stream.read(FEW_BYTES + 1)) > FEW_BYTES
    except UNPACK_ERRORS:
        return False  # its reader says why


def _in_one(db: Database, document: Document, options: Options, now: datetime) -> Summary:
    summary = Summary(options.project)
    with db.transaction() as session:
        project = _project(session, options.project)
        places = Places(project, importing.request_of(session, project, now), now, known=db.known)
        Importer(db, options, NO_GRAPH, summary, Writer(places)).few(session, document, now)
    places.keep()
    return summary


def _project(session: Session, slug: str) -> int:
    found = session.scalars(select(col(Project.id)).where(col(Project.slug) == slug)).first()
    if found is None:
        raise NotFound(
            f"There is no project {slug}.",
            "`groundspeed project add` or a first `groundspeed import` on the service's machine makes it.",
        )
    return found
