"""A regression found on the branch is told by one issue, which is closed when it has recovered."""

from __future__ import annotations

import doctest
from datetime import timedelta
from typing import Any

import pytest

from forge.office import Office
from groundspeed.service.db import forge_tables as f
from groundspeed.service.db import tables as t
from groundspeed.service.domain.pulls import rules
from groundspeed.service.usecases.pulls import issues
from world import NOW


def test_docstring_examples_hold() -> None:
    assert doctest.testmod(issues).failed == 0
    assert doctest.testmod(rules).failed == 0


def add(desk: Office, row: Any) -> Any:
    with desk.db.transaction() as session:
        session.add(row)
    return row.id


@pytest.fixture
def regression(desk: Office) -> int:
    """Confirmed, between two commits of which one came by pull request 7."""
    pull = desk.open(1)
    desk.answer(pull)
    (series,) = desk.rows(t.Series)
    titles = ["Start", "Merge pull request #7 from @evil/x", "Faster (#12)"]
    shas = [f"{i}" * 40 for i in range(1, 4)]
    ids = [
        add(desk, t.Revision(project_id=1, sha=sha, position=90 + i, title=title, authored_at=NOW, committed_at=NOW))
        for i, (sha, title) in enumerate(zip(shas, titles, strict=True))
    ]
    found = add(
        desk,
        t.Regression(project_id=1, title="train is 5 % slower", before_revision_id=ids[0], after_revision_id=ids[2]),
    )
    add(
        desk,
        t.ChangePoint(series_id=series.id, regression_id=found, before_revision_id=ids[0], after_revision_id=ids[2],
                      state="confirmed", kind="regression", ratio=1.05),
    )  # fmt: skip
    return int(found)


def move(desk: Office, regression: int, state: str) -> None:
    with desk.db.transaction() as session:
        row = session.get_one(t.Regression, regression)
        row.state, row.updated_at = state, row.updated_at + timedelta(seconds=1)
        session.add(row)
    desk.now += timedelta(minutes=1)
    desk.settle()


def test_one_issue_a_cause_from_opening_to_closing(desk: Office, regression: int) -> None:
    desk.settle()
    desk.settle()
    ((number, issue),) = desk.repo.issues.items()
    assert issue["title"] == "Performance: train is 5 % slower"
    assert "Pull requests: #7, #12" in issue["body"]
    assert "train&#91;batch&#95;size=8&#93;" in issue["body"]
    assert "+5.0 %" in issue["body"]
    assert "@evil" not in issue["body"]
    assert f"/projects/toy/regressions/{regression}" in issue["body"]
    with desk.db.transaction() as session:
        row = session.get_one(t.Regression, regression)
        row.title, row.updated_at = "train is 6 % slower", row.updated_at + timedelta(seconds=1)
        session.add(row)
    desk.settle()
    assert "6 % slower" in desk.repo.issues[number]["body"]
    move(desk, regression, "recovered")
    assert desk.repo.issues[number]["state"] == "closed"
    assert "the level before it is reached again" in desk.repo.issues[number]["body"]
    writes = desk.github.count("PATCH", f"/issues/{number}")
    desk.settle()
    assert desk.github.count("PATCH", f"/issues/{number}") == writes
    move(desk, regression, "new")
    assert desk.repo.issues[number]["state"] == "open"
    assert len(desk.repo.issues) == 1


def test_an_issue_that_was_opened_and_not_noted_is_found_again(desk: Office, regression: int) -> None:
    desk.settle()
    with desk.db.transaction() as session:
        known = session.get_one(f.ForgeIssue, 1)
        known.number, known.digest, known.updated_at = None, "", NOW - timedelta(days=999)
        action = next(a for a in session.query(f.ForgeAction) if a.kind == "issue")
        action.tries = 1
        session.add_all([known, action])
    desk.settle()
    assert len(desk.repo.issues) == 1
    assert desk.rows(f.ForgeIssue)[0].number == next(iter(desk.repo.issues))
    assert regression


def test_issues_can_be_switched_off_and_old_regressions_are_not_told(desk: Office, regression: int) -> None:
    for issues_wanted in (False, True):
        config = {"github": {"issues": issues_wanted, "issue_labels": ["performance"]}}
        add(desk, t.Request(project_id=1, kind="push", idempotency_key=str(issues_wanted), state="done", config=config))
        if issues_wanted:
            add(desk, f.ForgeIssue(regression_id=regression, repository_id=1, closed=True))
        desk.settle()
        assert desk.repo.issues == {}, "the second time: it was an open regression when the repository was linked"
