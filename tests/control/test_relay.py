"""What a commit leaves in the outbox is sent by the process that committed it, and noted as sent."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from groundspeed.service.control import relay
from groundspeed.service.control.relay import Relay
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import outbox
from groundspeed.service.usecases.outbox import Message
from groundspeed.service.usecases.topics import ANALYSE


class Broker:
    """Takes messages; ``away``: takes none."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.away = False

    def send(self, messages: Sequence[Message]) -> int:
        if self.away:
            raise ConnectionError("the broker is away")
        self.got += [(message.topic, message.payload) for message in messages]
        return len(messages)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr(relay, "send", made.send)
    return made


@pytest.fixture
def running(sqlite_database: Database, broker: Broker) -> Iterator[None]:
    del broker
    made = Relay(sqlite_database)
    made.start()
    yield
    made.stop()


def _tell(database: Database, topic: str, payload: dict[str, Any]) -> None:
    with database.transaction() as session:
        outbox.enqueue(session, topic, payload)


def _unsent(database: Database) -> int:
    with database.read() as session:
        return len(session.exec(select(t.Outbox.id).where(col(t.Outbox.sent_at).is_(None))).all())


def _wait(until: Any) -> None:
    end = time.monotonic() + 120
    while not until():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.usefixtures("running")
def test_detection_is_told_of_a_burst_together_and_workers_at_once(
    sqlite_database: Database, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "GATHER_S", 600.0)
    _tell(sqlite_database, ANALYSE, {"series_ids": [1]})
    _wait(lambda: broker.got)
    for i in range(10):
        _tell(sqlite_database, ANALYSE, {"series_ids": [i % 3, 100 + i]})
    assert len(broker.got) == 1
    _tell(sqlite_database, "groundspeed.run_job", {"job_id": 5})
    _wait(lambda: len(broker.got) == 3)
    first, job, rest = broker.got
    assert first == (ANALYSE, {"series_ids": [1]})
    assert job == ("groundspeed.run_job", {"job_id": 5})
    assert rest == (ANALYSE, {"series_ids": [0, 100, 1, 101, 2, *range(102, 110)]})
    _wait(lambda: _unsent(sqlite_database) == 0)


def test_a_commit_is_told_to_the_relay_of_its_database_alone(
    sqlite_database: Database, sqlite_template: Path, tmp_path: Path
) -> None:
    other = Database(f"sqlite:///{shutil.copyfile(sqlite_template, tmp_path / 'other.db')}")
    here: list[Message] = []
    there: list[Message] = []
    unhook = [outbox.on_commit(other, there.extend), outbox.on_commit(sqlite_database, here.extend)]
    _tell(sqlite_database, ANALYSE, {"series_ids": [1]})
    _tell(other, ANALYSE, {"series_ids": [2]})
    for one in unhook:
        one()
    assert [message.payload for message in here] == [{"series_ids": [1]}]
    assert [message.payload for message in there] == [{"series_ids": [2]}]


@pytest.mark.usefixtures("running")
def test_long_lists_of_series_stay_apart(sqlite_database: Database, broker: Broker) -> None:
    lists = [list(range(start, start + 90)) for start in (0, 90, 180)]
    with sqlite_database.transaction() as session:
        outbox.enqueue_all(session, ANALYSE, [{"series_ids": ids} for ids in lists])
    _wait(lambda: len(broker.got) == len(lists))
    assert sorted(payload["series_ids"] for _, payload in broker.got) == lists


@pytest.mark.usefixtures("running")
def test_what_the_broker_did_not_take_stays_for_the_tick(sqlite_database: Database, broker: Broker) -> None:
    broker.away = True
    _tell(sqlite_database, ANALYSE, {"series_ids": [1]})
    _tell(sqlite_database, ANALYSE, {"series_ids": [2]})
    time.sleep(0.3)
    assert _unsent(sqlite_database) == 2
    broker.away = False
    assert outbox.relay(sqlite_database, broker.send, datetime.now(UTC) + timedelta(minutes=1)) == 2
    assert _unsent(sqlite_database) == 0
