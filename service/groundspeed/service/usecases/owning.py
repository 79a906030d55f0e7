"""Owners by path: who gets a regression follows from the files that its suspect commits changed.

Rules stand in groundspeed.toml; the last that fits a path wins, as in a CODEOWNERS file. A person's choice stands.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col

from groundspeed.service.config.model import OwnerSection
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry, Project, Regression, Revision
from groundspeed.service.domain.pulls.rules import ignored as matches
from groundspeed.service.errors import GroundspeedError
from groundspeed.service.repo import Mirrors
from groundspeed.service.usecases import configuration
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.triage import MACHINE, note

log = logging.getLogger(__name__)
LOOK_BACK = timedelta(days=1)
_LOOKED = "owners that were looked for"
MAX_PATHS = 5000


@dataclass(frozen=True, slots=True)
class Case:
    """A regression without an owner, and where to look for one."""

    regression_id: int
    repo_url: str
    credential: str | None
    tip: str
    before: str
    after: str


def owner_of(paths: Iterable[str], rules: Sequence[OwnerSection]) -> str:
    """Whom most of the paths belong to; of several, the one whose rule comes last. "" for nobody."""
    count: Counter[int] = Counter()
    for path in paths:
        fitting = [i for i, rule in enumerate(rules) if matches(path, (rule.path,))]
        if fitting and rules[fitting[-1]].owner:
            count[fitting[-1]] += 1
    by_owner: Counter[str] = Counter()
    for i, number in count.items():
        by_owner[rules[i].owner] += number
    last = {rule.owner: i for i, rule in enumerate(rules)}
    return max(by_owner, key=lambda owner: (by_owner[owner], last[owner]), default="")


def assign(db: Database, mirrors: Mirrors, now: datetime) -> int:
    """Give regressions that were confirmed lately and have no owner the one that the rules name; returns how many.

    Each is looked at once in a process. A repository that is away, or a configuration that is wrong, gives nobody.
    """
    looked: set[int] = db.recent.get(_LOOKED) or set()
    with db.read() as session:
        cases = _cases(session, looked, now)
    db.recent.put(_LOOKED, looked | {case.regression_id for case in cases})
    return sum(_assign(db, mirrors, case, now) for case in cases)


def _cases(session: Session, looked: set[int], now: datetime) -> list[Case]:
    before, after = aliased(Revision), aliased(Revision)
    recent = select(col(AuditEntry.subject_id)).where(
        col(AuditEntry.at) >= now - LOOK_BACK,
        col(AuditEntry.subject_type) == "regression",
        col(AuditEntry.action) == "regression.confirmed",
    )
    fresh = {int(subject) for subject in session.scalars(recent)} - looked
    if not fresh:
        return []
    query = (
        select(
            col(Regression.id), col(Project.repo_url), col(Project.credential), col(Project.tip_sha), col(before.sha),
            col(after.sha),
        )
        .join(Project, col(Project.id) == col(Regression.project_id))
        .join(before, col(before.id) == col(Regression.before_revision_id))
        .join(after, col(after.id) == col(Regression.after_revision_id))
        .where(col(Regression.id).in_(fresh), col(Regression.assignee) == "", col(Project.tip_sha).is_not(None))
    )  # fmt: skip
    return [
        Case(id_ or 0, url, credential, tip or "", b, a) for id_, url, credential, tip, b, a in session.execute(query)
    ]


def _assign(db: Database, mirrors: Mirrors, case: Case, now: datetime) -> bool:
    try:
        owner = _find(mirrors, case)
    except GroundspeedError as error:
        log.warning("regression %s gets no owner: %s", case.regression_id, error)
        return False
    if not owner:
        return False
    with db.transaction() as session:
        row = session.scalars(held(select(Regression).where(col(Regression.id) == case.regression_id))).one()
        if row.assignee:
            return False
        row.assignee, row.updated_at = owner, now
        session.add(row)
        note(session, row, "edit", MACHINE, now, {"from": {"assignee": ""}, "to": {"assignee": owner}})
        return True


def _find(mirrors: Mirrors, case: Case) -> str:
    repo = mirrors.open(case.repo_url, case.credential, fetch=False)
    rules = configuration.at(repo, case.tip).owner
    return owner_of(repo.changed(case.before, case.after)[:MAX_PATHS], rules) if rules else ""
