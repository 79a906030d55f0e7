"""A regression that a maintainer accepted on a pull request comes back as a change point once it is merged.

It is the same change and was decided before it was merged, so it alerts nobody: its regression starts out accepted.
The merge is found on the branch as the accepted head itself (fast-forward), as a commit with that head among its
parents (merge commit), or by the forge's mark "(#12)" at the end of a title (squash).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import String, bindparam, cast, or_, select
from sqlmodel import Session, col

from groundspeed.service.db.forge_tables import ForgeRepository, PullRequest
from groundspeed.service.db.tables import AuditEntry, ChangePoint, Revision, Verdict
from groundspeed.service.domain import findings as domain
from groundspeed.service.domain.identity import Accepted, foretold
from groundspeed.service.usecases.causes import Causes
from groundspeed.service.usecases.steps import Member
from groundspeed.service.usecases.triage import MACHINE

_CALLED = ("regressed", "improved", "changed")
_ACCEPTED = (
    select(Verdict, PullRequest)
    .join(Revision, col(Revision.id) == col(Verdict.head_revision_id))
    .join(PullRequest, col(PullRequest.accepted_sha) == col(Revision.sha))
    .join(ForgeRepository, col(ForgeRepository.id) == col(PullRequest.repository_id))
    .where(col(Verdict.series_id) == bindparam("series"), col(Verdict.answer).in_(_CALLED))
    .where(col(Verdict.ratio).is_not(None))
    .where(col(ForgeRepository.project_id) == bindparam("project"), col(PullRequest.merged).is_(True))
    .order_by(col(Verdict.id).desc())
)


@dataclass(frozen=True, slots=True)
class _Told:
    """An accepted verdict, with the pull request that it was given on."""

    verdict_id: int
    number: int
    reason: str
    by: str
    ratio: float
    x: int


def announced(
    session: Session, project_id: int, series_id: int, found: Sequence[domain.ChangePoint]
) -> dict[int, dict[str, Any]]:
    """For indices of change points that an accepted verdict has announced: what to keep in their ``detail``."""
    if not found:
        return {}
    told = {one.verdict_id: one for one in _accepted(session, project_id, series_id)}
    pairs = foretold([Accepted(one.verdict_id, one.x, one.ratio) for one in told.values()], found)
    return {index: _detail(told[verdict_id]) for index, verdict_id in pairs.items()}


def _detail(one: _Told) -> dict[str, Any]:
    words = (
        f"The gate of pull request #{one.number} had announced it ({one.ratio - 1:+.2%}), and {one.by} accepted it: "
        f"{one.reason}"
    )
    return {"verdict": one.verdict_id, "pull": one.number, "reason": one.reason, "by": one.by, "words": words}


def _accepted(session: Session, project_id: int, series_id: int) -> list[_Told]:
    out: dict[int, _Told] = {}
    for verdict, pull in session.execute(_ACCEPTED, {"series": series_id, "project": project_id}).tuples():
        x = _merge(session, project_id, pull)
        if x is not None and pull.number not in out:
            reason, by = pull.accepted_reason, pull.accepted_by
            out[pull.number] = _Told(verdict.id or 0, pull.number, reason, by, verdict.ratio or 1.0, x)
    return list(out.values())


def _merge(session: Session, project_id: int, pull: PullRequest) -> int | None:
    """Position on the branch at which the accepted head came in; None: not there (yet)."""
    head = pull.accepted_sha
    ways = [col(Revision.sha) == head, cast(col(Revision.parents), String).contains(f'"{head}"', autoescape=True)]
    if pull.head_sha == head:
        ways.append(col(Revision.title).endswith(f"(#{pull.number})", autoescape=True))
    query = (
        select(col(Revision.position))
        .where(col(Revision.project_id) == project_id, col(Revision.position).is_not(None), or_(*ways))
        .order_by(col(Revision.position))
        .limit(1)
    )
    return session.scalars(query).one_or_none()


def accept(causes: Causes, changed: Sequence[Member], now: datetime) -> None:
    """Regressions that are new and consist of announced changes alone start out accepted, and nobody is told again."""
    session = causes.session
    marked = {row.regression_id: _mark(row) for row in changed if _mark(row) and row.state != "withdrawn"}
    if marked:
        causes.write()
    for regression_id, mark in sorted((one, mark) for one, mark in marked.items() if one is not None):
        regression = causes.known(regression_id)
        query = select(ChangePoint).where(
            col(ChangePoint.regression_id) == regression_id, col(ChangePoint.state) != "withdrawn"
        )
        if regression.state != "new" or not all(_mark(row) for row in session.scalars(query)):
            continue
        causes.move(regression, "accepted", now, str(mark["words"]))
        regression.note = regression.note or str(mark["reason"])
        regression.notified_at = regression.notified_at or now
        causes.changed(regression)


def reopen(causes: Causes, changed: Sequence[Member], now: datetime) -> None:
    """A change that nobody announced has joined a regression that was accepted because of announced ones: tell it."""
    fresh = {row.regression_id for row in changed if row.created_at == now and not _mark(row)}
    for regression_id in sorted(one for one in fresh if one is not None):
        regression = causes.known(regression_id)
        if regression.state == "accepted" and _by_machine(causes, regression_id):
            words = "a change that no gate had announced has the same suspects"
            causes.move(regression, "new", now, words)
            regression.notified_at = None
            causes.changed(regression)


def _by_machine(causes: Causes, regression_id: int) -> bool:
    causes.write()
    query = (
        select(col(AuditEntry.actor))
        .where(col(AuditEntry.subject_type) == "regression", col(AuditEntry.subject_id) == str(regression_id))
        .where(col(AuditEntry.action) == "regression.state")
        .order_by(col(AuditEntry.id).desc())
        .limit(1)
    )
    return causes.session.scalars(query).one_or_none() == MACHINE


def _mark(row: Member) -> Mapping[str, Any]:
    mark: Mapping[str, Any] = row.detail.get("foretold") or {}
    return mark
