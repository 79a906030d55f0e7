"""The end of an import: commits in their order, versions of benchmarks linked, series handed to detection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Literal

from sqlalchemy import func, select, update
from sqlmodel import Session, col

from groundspeed.service.db.tables import Project, Request, Revision, Series
from groundspeed.service.usecases import import_commits, import_order, outbox
from groundspeed.service.usecases.import_order import Graph
from groundspeed.service.usecases.import_rows import Writer
from groundspeed.service.usecases.import_tables import link_versions
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.topics import ANALYSE

FEW_COMMITS = 20
"""Of results of so few commits detection is told where they lie; of more, to look at their series again."""
_ANALYSE_AT_ONCE = 500


Moved = Literal["", "along", "anew"]
"""What became of the places of commits that were there before: nothing, other places in the same order, or another
order (also where one has a place for the first time, or none any more).
"""


@dataclass(frozen=True, slots=True)
class Order:
    """What the order of the project's commits rests on, how many there are, and how many have no place in it."""

    words: str
    revisions: int
    unplaced: int
    moved: Moved


def finish(session: Session, writer: Writer, graph: Graph | None, now: datetime, order: Order | None = None) -> Order:
    """Put the commits of the project in order, unless that was done (``order``), and link versions."""
    project, request = hold(session, writer)
    order = order or _order(session, project, request, writer, graph)
    link_versions(session, project.id or 0)
    request.state, request.finished_at = "done", now
    session.add(request)
    return order


def put_in_order(session: Session, writer: Writer, graph: Graph | None) -> Order:
    """Put the commits of the project in order."""
    return _order(session, *hold(session, writer), writer, graph)


def finish_few(session: Session, writer: Writer, now: datetime) -> Moved:
    """The same where a few results came into a project that stands: what they cannot have changed is not looked at."""
    places = writer.places
    moved = _place_new(session, writer) if places.fresh else ""
    if places.made_benchmark:
        link_versions(session, places.project_id)
    session.execute(update(Request).where(col(Request.id) == places.request_id).values(state="done", finished_at=now))
    return moved


def tell(session: Session, writer: Writer, *, moved: Moved, analyse: bool = True) -> int:
    """Mark the series that something came for, and all where commits stand in another order, and ask for their
    analysis; returns how many there are.
    """
    project_id = writer.places.project_id
    if moved:  # what detection keeps of a series counts commits as they stood
        ours = col(Series.project_id) == project_id
        every = session.scalars(held(select(col(Series.id)).where(ours).order_by(col(Series.id)))).all()
        session.execute(update(Series).where(ours, col(Series.state).is_not(None)).values(state=None))
        if moved == "anew":
            writer.touched.update(one for one in every if one is not None)
    series = writer.mark(session, whole=bool(moved) or len(writer.places.commits) > FEW_COMMITS)
    if analyse:
        for start in range(0, len(series), _ANALYSE_AT_ONCE):
            outbox.enqueue(session, ANALYSE, {"series_ids": series[start : start + _ANALYSE_AT_ONCE]})
    return len(series)


def _place_new(session: Session, writer: Writer) -> Moved:
    """Give new commits their places; those that are newer than all others by their dates come after them."""
    project, request = hold(session, writer)
    if _stands(project, request) or (_by_dates(request) and _append(session, writer)):
        return ""
    return _order(session, project, request, writer, None).moved


def hold(session: Session, writer: Writer) -> tuple[Project, Request]:
    """The project, and the request of its imports, held: two must not give their commits the same place."""
    query = held(select(Request).where(col(Request.id) == writer.places.request_id))
    request = session.scalars(query.execution_options(populate_existing=True)).one()
    return session.get_one(Project, writer.places.project_id), request


def _stands(project: Project, request: Request) -> bool:
    """Whether the project's commits have an order that results without a graph do not touch."""
    return project.tip_sha is not None or request.payload.get("order", "") not in {"", "dates"}


def _by_dates(request: Request) -> bool:
    return bool(request.payload.get("order", "") == "dates")


def _append(session: Session, writer: Writer) -> bool:
    """Place the new commits behind the last one where they belong there; returns whether they do."""
    columns = select(col(Revision.committed_at), col(Revision.sha), col(Revision.id), col(Revision.position))
    mine = columns.where(col(Revision.project_id) == writer.places.project_id)
    newest = mine.where(col(Revision.position).is_not(None)).order_by(col(Revision.position).desc()).limit(1)
    last = session.execute(newest).tuples().first()
    fresh = sorted(session.execute(mine.where(col(Revision.id).in_(writer.places.fresh))).tuples())
    if last is None or fresh[0][:2] <= last[:2]:
        return False
    first = (last[3] or 0) + 1
    import_commits.set_columns(session, [{"row": row[2], "position": first + i} for i, row in enumerate(fresh)])
    return True


def _order(session: Session, project: Project, request: Request, writer: Writer, graph: Graph | None) -> Order:
    """Give the commits their places."""
    mine = col(Revision.project_id) == project.id
    if graph is None and _stands(project, request):
        counts = select(func.count(), func.count(col(Revision.position))).select_from(Revision).where(mine)
        every, placed_ones = session.execute(counts).tuples().one()
        return Order("the order that the project has already", every, every - placed_ones, moved="")
    watched = project.tip_sha is not None
    query = select(col(Revision.sha), col(Revision.committed_at), col(Revision.id), col(Revision.position))
    rows = session.execute(query.where(mine)).tuples().all()
    measured = [(sha, at) for sha, at, _, _ in rows]
    placed = import_order.positions(graph, measured, first_parent_only=watched)
    others = [
        {"row": revision_id, "position": placed.get(sha)}
        for sha, _, revision_id, position in rows
        if placed.get(sha) != position and not (watched and sha not in placed)
    ]
    import_commits.set_columns(session, others)
    before = [(position, placed.get(sha)) for sha, _, id_, position in rows if id_ not in writer.places.fresh]
    if graph is not None:
        import_commits.describe(session, {sha: i for sha, _, i, _ in rows if i is not None}, graph)
    words = graph.origin if graph else "the dates of the commits, because no repository was given"
    request.payload = {**request.payload, "order": "graph" if graph else "dates"}
    return Order(words, len(rows), len(rows) - len(placed), _moved(before, watched=watched))


def _moved(places: Sequence[tuple[int | None, int | None]], *, watched: bool) -> Moved:
    """Of commits that were there before, from their old places and their new ones; in a project that is ``watched``
    those that its graph does not know keep theirs.
    """
    changed = [(old, new) for old, new in places if not (watched and new is None)]
    if all(old == new for old, new in changed):
        return ""
    if any((old is None) != (new is None) for old, new in changed):
        return "anew"
    order = [new for _, new in sorted((old, new) for old, new in changed if old is not None and new is not None)]
    return "along" if all(a < b for a, b in pairwise(order)) else "anew"
