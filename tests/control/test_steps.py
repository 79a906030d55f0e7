"""What one step of the tick stumbles over keeps none of the others from being taken."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from groundspeed.service.control.steps import Steps
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Unavailable


def test_a_step_that_fails_keeps_no_other_from_being_taken(
    sqlite_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    taken: list[int] = []

    def work(one: int) -> None:
        if one == 1:
            raise ValueError("a month of 31 days that has 30")
        if one == 2:
            raise Unavailable("The repository is away.")
        if one == 3:
            with sqlite_database.read() as session:
                session.execute(text("SELECT nothing FROM nowhere"))
        taken.append(one)

    steps = Steps(sqlite_database)
    with caplog.at_level(logging.WARNING):
        steps.each("project", lambda: [1, 2, 3, 4], work)
        steps.each("request", lambda: [int("none")], work)
    assert taken == [4]
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(" failed")[0].split(":")[0] for line in said] == [
        "project 1", "project 2", "project 3", "looking for request",
    ]  # fmt: skip


def test_a_database_that_is_away_ends_the_tick() -> None:
    away = Database("sqlite:////nowhere/at/all.db")
    steps = Steps(away)
    with pytest.raises(OperationalError):
        steps.take("anything", lambda: away.transaction().__enter__())
