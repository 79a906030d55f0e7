"""Bring results of other tools in: streamed, in batches that each stand alone, so that an import can be cut and
repeated.

Importing the same again adds nothing. What was skipped or refused is counted and named with its place.
"""

from __future__ import annotations

import gc
import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import func, select, text, update
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import ensure
from groundspeed.service.db.tables import Project, Request, Revision, Series
from groundspeed.service.db.types import clean_text
from groundspeed.service.errors import Invalid, NotFound
from groundspeed.service.formats import criterion, csv_table, detect
from groundspeed.service.formats.csv_table import ColumnMap
from groundspeed.service.formats.prepared import Prepared, Ready, prepare
from groundspeed.service.formats.records import Grid, Item, Origin, Record, Refused, Skipped, Where, sound
from groundspeed.service.usecases import import_commits, import_order, outbox
from groundspeed.service.usecases.import_order import Graph
from groundspeed.service.usecases.import_places import Places
from groundspeed.service.usecases.import_projects import OneProject
from groundspeed.service.usecases.import_rows import Added, Writer
from groundspeed.service.usecases.import_sources import AsvTree, CriterionTree, Single, Sources, read_tree
from groundspeed.service.usecases.import_tables import link_versions, without_index
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.series import ANALYSE

BATCH_ROWS = 200_000
"""Rows in one transaction: some seconds of work are lost when it dies."""
BATCHES_INTO_NOTHING = 10
"""So many make one transaction while a SQLite store holds no results: then the index is built once, which is faster."""
FEW_BYTES = 1_000_000
"""A posted file up to this size looks up what it needs, and not all commits and jobs of its project ahead."""
FEW_COMMITS = 20
"""Of results of so few commits detection is told where they lie; of more, to look at their series again."""
EXAMPLES = 20
_ANALYSE_AT_ONCE = 500
_REQUEST_KEY = "import"
_SHORT, _WHOLE = re.compile(r"[0-9a-f]{6,39}"), 40
"""What may be the beginning of a whole hash, and how long one is: a number of Subversion is neither."""


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
    """Processes that read asv trees beside this one; 0: as many as there are cores to spare, -1: none."""
    ahead: bool = True
    """Whether what the project has is looked up ahead, which pays when many results come."""


@dataclass(slots=True)
class Reasons:
    """How often something was left out for one reason, and where (the first places only)."""

    count: int = 0
    where: list[Where] = field(default_factory=list)

    def add(self, where: Where) -> None:
        self.count += 1
        if len(self.where) < EXAMPLES:
            self.where.append(where)


@dataclass(slots=True)
class Summary:
    """What an import did. ``order`` says what the order of commits rests on, ``unplaced`` how many have no place in
    it.
    """

    project: str
    files: int = 0
    read: int = 0
    """Values that the sources hold."""
    added: Added = field(default_factory=Added)
    series: int = 0
    revisions: int = 0
    unplaced: int = 0
    order: str = ""
    skipped: dict[str, Reasons] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)

    def skip(self, skipped: Skipped) -> None:
        # the same sentence about other names or numbers is the same reason
        reason = re.sub(r"\d+(?:\.\d+)?", "N", re.sub(r'"[^"]*"', '"…"', skipped.reason))
        if len(self.skipped) >= 200 and reason not in self.skipped:
            reason = "other reasons"
        self.skipped.setdefault(reason, Reasons()).add(skipped.where)


Progress = Callable[[Summary, str], None]
"""Called after every file with the summary so far and the file's name."""


def _silent(_summary: Summary, _name: str) -> None:
    return


def run(db: Database, options: Options, now: datetime, progress: Progress = _silent) -> Summary:
    """Import everything. Raises :class:`Invalid` for options that cannot be; a source that cannot be read is in the
    summary, and the others are imported all the same.
    """
    if options.format and options.format not in detect.BY_NAME:
        raise Invalid(f"There is no format {options.format}.", f"Known are {', '.join(sorted(detect.BY_NAME))}.")
    graph = _graph(options)
    summary = Summary(options.project)
    with db.transaction() as session:
        project = _project(session, options.project, now)
        request = _request(session, project, now)
    importer = _Importer(db, options, graph, summary, Writer(Places(project, request, now)), progress)
    with Sources(options.paths) as sources:
        with _rare_collection():
            importer.all(sources)
        summary.refused += sources.refused
    importer.finish(now)
    return summary


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
) -> Summary:
    """Import one file that came over the network; ``name`` is only shown. The project must be there already.

    Raises :class:`NotFound` for an unknown project, :class:`Invalid` for a body that cannot be read at all.
    """
    with db.read() as session:
        if session.scalars(select(col(Project.id)).where(col(Project.slug) == project)).first() is None:
            raise NotFound(
                f"There is no project {project}.",
                "`groundspeed project add` or a first `groundspeed import` on the service's machine makes it.",
            )
    with tempfile.TemporaryDirectory(prefix="groundspeed-post-") as folder:
        path = Path(folder) / (re.sub(r"[^A-Za-z0-9._-]", "_", name).strip(".")[-100:] or "posted")
        path.write_bytes(body)
        summary = run(db, Options(project, (path,), form, None, commit, time, ahead=len(body) > FEW_BYTES), now)
    if summary.refused and not summary.read:
        error = summary.refused[0]
        raise Invalid(f"{error.where}: {error.reason}", error.advice)
    return summary


def _graph(options: Options) -> Graph | None:
    if options.repo is not None and options.graph is not None:
        raise Invalid("--repo and --graph both give the order of commits.", "Give one of them.")
    if options.repo is not None:
        return import_order.of_repository(options.repo, options.branch)
    return import_order.of_file(options.graph) if options.graph is not None else None


def _project(session: Session, slug: str, now: datetime) -> int:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", slug):
        raise Invalid(f'"{slug}" cannot name a project.', "Use letters, digits, dots, dashes and underscores.")
    row = {
        "slug": slug, "name": slug, "repo_url": "", "branch": "main", "credential": None, "watch": False,
        "poll_interval_s": 3600.0, "tip_sha": None, "polled_at": None, "config_error": "", "created_at": now,
    }  # fmt: skip
    return ensure(session, Project, [row], key=("slug",))[(slug,)]


def _request(session: Session, project: int, now: datetime) -> int:
    row = {
        "project_id": project, "kind": "import", "idempotency_key": _REQUEST_KEY, "state": "running", "priority": 70,
        "tip_sha": "", "payload": {}, "config": {}, "budget_s": 0.0, "error": "", "created_at": now,
    }  # fmt: skip
    found = ensure(session, Request, [row], key=("project_id", "idempotency_key"))
    return found[project, _REQUEST_KEY]


@dataclass(slots=True)
class _Importer:
    db: Database
    options: Options
    graph: Graph | None
    summary: Summary
    writer: Writer
    progress: Progress
    described: dict[str, Any] = field(default_factory=dict)
    """What asv trees say of their benchmarks and machines, which an export gives back."""
    _resolved: dict[str, str] = field(default_factory=dict)
    _known: list[str] | None = None
    _projects: OneProject = field(init=False)

    def __post_init__(self) -> None:
        self._projects = OneProject(self.options.project_from)

    def all(self, sources: Sources) -> None:
        items = self._items(sources)
        exhausted, first = False, True
        while not exhausted:
            with self.db.transaction() as session:
                _tune(session)
                self.writer.begin(session)
                if first and self.options.ahead:
                    self.writer.places.remember(session)
                first = False
                with without_index(session) as fresh:
                    for _ in range(BATCHES_INTO_NOTHING if fresh else 1):
                        exhausted = exhausted or self._batch(session, items)
                        self.writer.flush(session, ordered=not fresh)
                self._finish_batch(session)
            gc.collect(1)

    def _finish_batch(self, session: Session) -> None:
        request = session.get_one(Request, self.writer.places.request_id)
        payload = dict(request.payload)
        if self.writer.axes:
            payload["axes"] = {**payload.get("axes", {}), **self.writer.axes}
        if self.described:
            old = payload.get("asv", {})
            payload["asv"] = {k: {**old.get(k, {}), **v} for k, v in self.described.items()}
        if payload != request.payload:
            request.payload = payload
            session.add(request)

    def _batch(self, session: Session, items: Iterator[Ready]) -> bool:
        """Take items until the batch is full; returns whether there are no more."""
        group: list[Record] = []
        origin, place = None, None
        for item in items:
            if isinstance(item, Skipped):
                self.summary.skip(item)
                continue
            if isinstance(item, Prepared):
                self._close(session, group)
                self.summary.read += item.read
                if place is None or item.origin is not origin:  # a file's grids share one
                    origin, place = item.origin, self._place(session, item.origin, item.where)
                self.writer.add_grid(session, item, place)
            else:
                self.summary.read += item.values
                if group and not _belongs(group, item):
                    self._close(session, group)
                group.append(item)
            if self.writer.waiting >= self.options.batch_rows:
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
                yield from self._tree(source)
                continue
            for document, parsed in self._parsers(source):
                self.summary.files += 1
                try:
                    for item in sound(parsed):
                        yield prepare(item) if isinstance(item, Grid) else item
                except Refused as error:
                    self.summary.refused.append(error)
                except (ArithmeticError, LookupError, TypeError, ValueError, RecursionError, AttributeError) as error:
                    # A file that a parser stumbles over must not stop the import of the others.
                    reason = f"could not be understood ({type(error).__name__}: {str(error)[:100]})."
                    self.summary.refused.append(Refused(reason, Where(document), "Please report it with the file."))
                self.summary.added = self.writer.added
                self.progress(self.summary, document)

    def _tree(self, source: AsvTree) -> Iterator[Ready]:
        """The files of an asv tree, read by other processes when there are many."""
        for (_, name), (found, refused) in zip(source.files, read_tree(source, self.options.processes), strict=True):
            self.summary.files += 1
            yield from found
            if refused is not None:
                self.summary.refused.append(refused)
            self.summary.added = self.writer.added
            self.progress(self.summary, name)

    def _parsers(self, source: Single | CriterionTree) -> Iterator[tuple[str, Iterator[Item]]]:
        if isinstance(source, CriterionTree):
            yield source.name, criterion.parse_tree(list(source.documents))
        elif self.options.mapping is not None and (self.options.format or "csv") == "csv":
            yield source.document.name, csv_table.parse(source.document, self.options.mapping)
        else:
            yield source.document.name, self._projects.only(source.document, self.options.format)

    def _describe(self, source: AsvTree) -> None:
        benchmarks = {name: {k: v for k, v in b.items() if k != "code"} for name, b in source.tree.benchmarks.items()}
        self.described.setdefault("benchmarks", {}).update(benchmarks)
        self.described.setdefault("machines", {}).update({m["machine"]: dict(m) for m in source.tree.machines.values()})

    def _place(self, session: Session, origin: Origin, where: Where) -> Any:
        sha, moment = self._identify(origin, where)
        return self.writer.places.place(session, origin, sha, moment)

    def _identify(self, origin: Origin, where: Where) -> tuple[str, datetime | None]:
        """The revision that an origin's results are of, and its time; one is made up and named so where none is
        given.
        """
        moment = origin.committed_at or origin.measured_at or self.options.time
        commit = origin.commit or self.options.commit
        if commit:
            return self._resolve(commit), moment
        if moment is not None:
            return f"at-{moment.astimezone(UTC):%Y%m%dT%H%M%S}", moment
        return f"file-{hashlib.blake2b(where.source.encode('utf-8', 'replace'), digest_size=8).hexdigest()}", None

    def _resolve(self, commit: str) -> str:
        known = self._resolved.get(commit)
        if known is None:
            known = self.graph.resolve(commit) if self.graph else commit
            if known == commit and _SHORT.fullmatch(commit):
                if self._known is None:
                    self._known = [sha for sha in self._shas() if len(sha) >= _WHOLE]
                longer = [sha for sha in self._known if sha.startswith(commit)]
                known = longer[0] if len(longer) == 1 else commit
            self._resolved[commit] = known = clean_text(known)[:64]
        return known

    def _shas(self) -> list[str]:
        with self.db.read() as session:
            query = select(col(Revision.sha)).where(col(Revision.project_id) == self.writer.places.project_id)
            return list(session.scalars(query))

    def finish(self, now: datetime) -> None:
        """Put the commits in order, link versions, and hand the series to detection."""
        with self.db.transaction() as session:
            project = session.get_one(Project, self.writer.places.project_id)
            request = session.get_one(Request, self.writer.places.request_id)
            moved = self._order(session, project, request)
            link_versions(session, self.writer.places.project_id)
            if moved:  # what detection keeps of a series counts commits as they stood
                ours = col(Series.project_id) == self.writer.places.project_id
                session.execute(held(select(col(Series.id)).where(ours).order_by(col(Series.id))))
                session.execute(update(Series).where(ours, col(Series.state).is_not(None)).values(state=None))
            series = self.writer.mark(session, whole=moved or len(self.writer.places.commits) > FEW_COMMITS)
            if self.options.analyse:
                for start in range(0, len(series), _ANALYSE_AT_ONCE):
                    outbox.enqueue(session, ANALYSE, {"series_ids": series[start : start + _ANALYSE_AT_ONCE]})
            request.state, request.finished_at = "done", now
            session.add(request)
        self.summary.series = len(series)
        self.summary.added = self.writer.added

    def _order(self, session: Session, project: Project, request: Request) -> bool:
        """Give the commits their places; returns whether one that was there before has another place now."""
        mine = col(Revision.project_id) == project.id
        watched = project.tip_sha is not None
        before = request.payload.get("order", "")
        if self.graph is None and (watched or before not in {"", "dates"}):
            self.summary.order = "the order that the project has already"
            counts = select(func.count(), func.count(col(Revision.position))).select_from(Revision).where(mine)
            self.summary.revisions, placed_ones = session.execute(counts).tuples().one()
            self.summary.unplaced = self.summary.revisions - placed_ones
            return False
        query = select(col(Revision.sha), col(Revision.committed_at), col(Revision.id), col(Revision.position))
        rows = session.execute(query.where(mine)).tuples().all()
        self.summary.revisions = len(rows)
        measured = [(sha, at) for sha, at, _, _ in rows]
        placed = import_order.positions(self.graph, measured, first_parent_only=watched)
        others = [
            {"row": revision_id, "position": placed.get(sha)}
            for sha, _, revision_id, position in rows
            if placed.get(sha) != position and not (watched and sha not in placed)
        ]
        import_commits.set_columns(session, others)
        moved = any(one["row"] not in self.writer.places.fresh for one in others)
        if self.graph is not None:
            import_commits.describe(session, {sha: i for sha, _, i, _ in rows if i is not None}, self.graph)
        self.summary.unplaced = len(rows) - len(placed)
        self.summary.order = (
            self.graph.origin if self.graph else "the dates of the commits, because no repository was given"
        )
        request.payload = {**request.payload, "order": "graph" if self.graph else "dates"}
        return moved


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


@contextmanager
def _rare_collection() -> Iterator[None]:
    """Rows that wait to be written are millions of objects without cycles: once a batch is enough to look for some."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _tune(session: Session) -> None:
    """SQLite keeps 2 MB of pages by itself: too few for indexes over millions of rows."""
    if session.get_bind().dialect.name == "sqlite":
        session.execute(text("PRAGMA cache_size = -65536"))
    else:
        with ExitStack():
            session.execute(text("SET LOCAL synchronous_commit = off"))
