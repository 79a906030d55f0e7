"""Bring results of other tools in: streamed, in batches that each stand alone, so that an import can be cut and
repeated.

Importing the same again adds nothing. What was skipped or refused is counted and named with its place.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlmodel import Session

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Project, Request
from groundspeed.service.db.unique import ensure
from groundspeed.service.errors import Invalid, Unavailable
from groundspeed.service.formats.plain import Block
from groundspeed.service.formats.prepared import Prepared, Ready, prepare
from groundspeed.service.formats.records import (
    STUMBLES,
    Grid,
    Item,
    Origin,
    Record,
    Refused,
    Skipped,
    Where,
    sound,
    stumbled,
)
from groundspeed.service.formats.source import Document
from groundspeed.service.process import rare_collection
from groundspeed.service.usecases import import_finish, import_order
from groundspeed.service.usecases.import_finish import Order
from groundspeed.service.usecases.import_kept import Kept
from groundspeed.service.usecases.import_naming import Naming
from groundspeed.service.usecases.import_order import Later
from groundspeed.service.usecases.import_places import Places
from groundspeed.service.usecases.import_rows import Writer
from groundspeed.service.usecases.import_sources import AsvTree, CriterionTree, Single, Sources
from groundspeed.service.usecases.import_summary import Progress, Summary, silent
from groundspeed.service.usecases.import_tables import is_empty, tune, without_index

if TYPE_CHECKING:  # an asv tree is read without the readers of other formats
    from groundspeed.service.formats.csv_table import ColumnMap
    from groundspeed.service.usecases.beforehand import Beforehand
    from groundspeed.service.usecases.import_projects import OneProject

BATCH_ROWS = 200_000
"""Rows in one transaction: some seconds of work are lost when it dies."""
BATCHES_INTO_NOTHING = 10
"""So many make one transaction while a SQLite store holds no results: then the index is built once, which is faster."""
PARTS = 4
"""Of such a batch, written one after the other: so much less waits in memory."""
_REQUEST_KEY = "import"


@dataclass(frozen=True, slots=True)
class Options:
    """What to import. ``project`` is a slug, made when there is none of it.

    ``format`` empty: found by content, file by file. ``commit`` and ``time`` stand in where results name none.
    ``repo`` or ``graph`` give the order of commits; without both dates do.
    """

    project: str
    paths: tuple[Path, ...]
    format: str = ""
    mapping: ColumnMap | None = None
    commit: str = ""
    time: datetime | None = None
    repo: Path | None = None
    graph: Path | None = None
    branch: str = ""
    analyse: bool = True
    batch_rows: int = BATCH_ROWS
    project_from: str = ""
    """Of sources that name the projects of their results: the one to take; ``*``: all of them."""
    processes: int = 0
    """Processes that read asv trees beside this one; 0: as many as pay, -1: none."""
    alone: bool = True
    """Nobody is kept waiting who would read the store meanwhile."""


def run(
    db: Database,
    options: Options,
    now: datetime,
    progress: Progress = silent,
    sources: Sources | None = None,
    early: Beforehand | None = None,
) -> Summary:
    """Import everything. Raises :class:`Invalid` for options that cannot be; a source that cannot be read is in the
    summary, and the others are imported all the same.

    ``sources`` are those of the options where their reading has begun. ``early`` is told what was written into an empty
    SQLite store while it gets its indexes: for who is going to look for changes next.
    """
    check_format(options.format)
    summary = Summary(options.project)
    with rare_collection(), _graph(options) as graph:
        with db.transaction() as session:
            project = _project(session, options.project, now)
            request = request_of(session, project, now)
        importer = Importer(db, options, graph, summary, Writer(Places(project, request, now)), progress, early)
        with sources or Sources(options.paths) as all_:
            importer.all(all_)
            summary.refused += all_.refused
        with db.transaction() as session:
            importer.finish(session, now)
    return summary


def check_format(name: str) -> None:
    """Raises :class:`Invalid` for a format that is not known."""
    if not name:
        return
    from groundspeed.service.formats import detect

    if name not in detect.BY_NAME:
        raise Invalid(f"There is no format {name}.", f"Known are {', '.join(sorted(detect.BY_NAME))}.")


@contextmanager
def _graph(options: Options) -> Iterator[Later]:
    if options.repo is not None and options.graph is not None:
        raise Invalid("--repo and --graph both give the order of commits.", "Give one of them.")
    if options.repo is not None:
        with import_order.of_repository(options.repo, options.branch) as later:
            yield later
        return
    given = import_order.of_file(options.graph) if options.graph is not None else None
    yield Later(lambda: given)


def _project(session: Session, slug: str, now: datetime) -> int:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", slug):
        raise Invalid(f'"{slug}" cannot name a project.', "Use letters, digits, dots, dashes and underscores.")
    row = {
        "slug": slug, "name": slug, "repo_url": "", "branch": "main", "credential": None, "watch": False,
        "poll_interval_s": 3600.0, "tip_sha": None, "polled_at": None, "config_error": "", "created_at": now,
    }  # fmt: skip
    return ensure(session, Project, [row], key=("slug",))[(slug,)]


def request_of(session: Session, project: int, now: datetime) -> int:
    """The request that all imports of a project belong to."""
    row = {
        "project_id": project, "kind": "import", "idempotency_key": _REQUEST_KEY, "state": "running", "priority": 70,
        "tip_sha": "", "payload": {}, "config": {}, "budget_s": 0.0, "error": "", "created_at": now,
    }  # fmt: skip
    found = ensure(session, Request, [row], key=("project_id", "idempotency_key"))
    return found[project, _REQUEST_KEY]


@dataclass(slots=True)
class Importer:
    """Takes sources into one project, batch by batch."""

    db: Database
    options: Options
    graph: Later
    summary: Summary
    writer: Writer
    progress: Progress = silent
    early: Beforehand | None = None
    described: dict[str, Any] = field(default_factory=dict)
    """What asv trees say of their benchmarks and machines, which an export gives back."""
    _news: set[int] = field(default_factory=set)
    """Series that something came for in transactions that have ended."""
    _order: Order | None = None
    """That of the commits, where they have it before the end."""
    _naming: Naming = field(init=False)
    _projects: OneProject | None = None

    def __post_init__(self) -> None:
        given = self.options.commit, self.options.time
        self._naming = Naming(self.writer.places.project_id, self.graph, *given)

    def all(self, sources: Sources) -> None:
        items, large = self._items(sources), sources.large
        exhausted, first = False, True
        while not exhausted:
            with self._first(large=large) if first else self.db.transaction() as session:
                tune(session)
                self.writer.begin(session)
                if first:
                    self._look_ahead(session)
                first = False
                self.writer.places.look_again()
                with without_index(session) as fresh:
                    self.writer.kept = Kept() if fresh and self.early is not None else None
                    rows = self.options.batch_rows
                    times, rows = (PARTS * BATCHES_INTO_NOTHING, max(rows // PARTS, 1)) if fresh else (1, rows)
                    while times and not exhausted:
                        exhausted, times = self._batch(session, items, rows), times - 1
                        self.writer.flush(session, ordered=not fresh)
                    if exhausted:
                        self._begin_to_look(session)
                self._keep_described(session)
                # Marked with its results, so that none is overlooked if the import is cut before its end.
                self._news.update(self.writer.mark(session, whole=True))
            if not exhausted:
                self.writer.kept = None  # more will come than is kept
                gc.collect(1)

    def _begin_to_look(self, session: Session) -> None:
        """Have others look at all that was written into an empty store, if that is known."""
        kept, self.writer.kept = self.writer.kept, None
        if kept is None or self.early is None:
            return
        with suppress(Invalid, Unavailable):  # whoever ends the import is told that the commits have no order
            self._order = import_finish.put_in_order(session, self.writer, self.graph.read())
            self.early.begin(session, self.writer.places.project_id, sorted(self.writer.touched), kept)

    def _first(self, *, large: bool) -> AbstractContextManager[Session]:
        with self.db.read() as session:
            into_nothing = self.options.alone and is_empty(session)
        return self.db.first_of_many(into_nothing=into_nothing, large=large)

    def _look_ahead(self, session: Session) -> None:
        """Everything that is written next is of a project and a request that are there, and of what is seen here."""
        session.get_one(Request, self.writer.places.request_id)
        self.writer.places.remember(session)

    def few(self, session: Session, document: Document, now: datetime) -> None:
        """All of one small document in one transaction, looking up only what it needs."""
        self.writer.begin(session)
        items = self._documents(Single(document))
        while not self._batch(session, items, self.options.batch_rows):
            self.writer.flush(session)
        self.writer.flush(session)
        self._keep_described(session)
        moved = import_finish.finish_few(session, self.writer, now)
        self.summary.series = import_finish.tell(session, self.writer, moved=moved)
        self.summary.added = self.writer.added

    def _keep_described(self, session: Session) -> None:
        """What an export gives back, with the project's request."""
        if not (self.writer.axes or self.described):
            return
        _, request = import_finish.hold(session, self.writer)
        payload = dict(request.payload)
        if self.writer.axes:
            old = payload.get("axes", {})
            longer = {name: axes for name, axes in self.writer.axes.items() if len(axes) > len(old.get(name, ()))}
            payload["axes"] = {**old, **longer}
        if self.described:
            old = payload.get("asv", {})
            payload["asv"] = {k: {**old.get(k, {}), **v} for k, v in self.described.items()}
        if payload != request.payload:
            request.payload = payload
            session.add(request)

    def _batch(self, session: Session, items: Iterator[Ready], rows: int) -> bool:
        """Take items until so many rows wait; returns whether there are no more."""
        group: list[Record] = []
        origin, place = None, None
        for item in items:
            if isinstance(item, Skipped):
                self.summary.skip(item)
                continue
            if isinstance(item, Prepared | Block):
                self._close(session, group)
                self.summary.read += item.read
                if place is None or item.origin is not origin:  # a file's grids share one
                    origin, place = item.origin, self._place(session, item.origin, item.where)
                if isinstance(item, Block):
                    self.writer.add_block(session, item, place)
                else:
                    self.writer.add_grid(session, item, place)
            else:
                self.summary.read += item.values
                if group and not _belongs(group, item):
                    self._close(session, group)
                group.append(item)
            if self.writer.waiting >= rows:
                self._close(session, group)
                return False
        self._close(session, group)
        return True

    def _close(self, session: Session, group: list[Record]) -> None:
        if group:
            self.writer.add_records(session, group, self._place(session, group[0].origin, group[0].where))
            group.clear()

    def _items(self, sources: Sources) -> Iterator[Ready]:
        for source in sources.find():
            if isinstance(source, AsvTree):
                self._describe(source)
                yield from self._tree(source, sources.read(source, self.options.processes))
            else:
                yield from self._documents(source)

    def _documents(self, source: Single | CriterionTree) -> Iterator[Ready]:
        for document, parsed in self._parsers(source):
            self.summary.files += 1
            try:
                for item in sound(parsed):
                    yield prepare(item) if isinstance(item, Grid) else item
            except Refused as error:
                self.summary.refused.append(error)
            except STUMBLES as error:
                self.summary.refused.append(stumbled(error, Where(document)))
            self.summary.added = self.writer.added
            self.progress(self.summary, document)

    def _tree(self, source: AsvTree, read: Iterator[tuple[list[Ready], Refused | None]]) -> Iterator[Ready]:
        """The files of an asv tree."""
        for (_, name), (found, refused) in zip(source.files, read, strict=True):
            self.summary.files += 1
            yield from found
            if refused is not None:
                self.summary.refused.append(refused)
            self.summary.added = self.writer.added
            self.progress(self.summary, name)

    def _parsers(self, source: Single | CriterionTree) -> Iterator[tuple[str, Iterator[Item]]]:
        from groundspeed.service.formats import criterion
        from groundspeed.service.usecases.import_projects import OneProject

        if self._projects is None:
            self._projects = OneProject(self.options.project_from)
        if isinstance(source, CriterionTree):
            yield source.name, criterion.parse_tree(list(source.documents))
        else:
            yield source.document.name, self._projects.only(source.document, self.options.format, self.options.mapping)

    def _describe(self, source: AsvTree) -> None:
        benchmarks = {name: {k: v for k, v in b.items() if k != "code"} for name, b in source.tree.benchmarks.items()}
        self.described.setdefault("benchmarks", {}).update(benchmarks)
        self.described.setdefault("machines", {}).update({m["machine"]: dict(m) for m in source.tree.machines.values()})

    def _place(self, session: Session, origin: Origin, where: Where) -> Any:
        sha, moment = self._naming.of(session, origin, where)
        return self.writer.places.place(session, origin, sha, moment)

    def finish(self, session: Session, now: datetime) -> None:
        """Put the commits in order, link versions, and hand the series to detection."""
        order = import_finish.finish(session, self.writer, self.graph.read(), now, self._order)
        self.summary.order, self.summary.revisions = order.words, order.revisions
        self.summary.unplaced = order.unplaced
        self.writer.touched |= self._news  # again: what was looked at meanwhile had no place yet
        analyse = self.options.analyse
        self.summary.series = import_finish.tell(session, self.writer, moved=order.moved, analyse=analyse)
        self.summary.added = self.writer.added


def _belongs(group: list[Record], record: Record) -> bool:
    """Whether a record is another metric of the same process as those of ``group``."""
    first = group[0]
    same = (first.benchmark, first.version, first.params) == (record.benchmark, record.version, record.params)
    return (
        same
        and first.origin == record.origin
        and all(r.metric.name != record.metric.name for r in group)
        and len(group) < 500
    )
