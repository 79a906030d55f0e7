"""Every message that the service can send has a task that takes it, and no two tasks share a name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from groundspeed.service.control import pulls, tasks
from groundspeed.service.control.app import app
from groundspeed.service.control.named import task

NAME = re.compile(r'"(groundspeed\.control\.\w+)"')


def test_a_name_that_is_taken_is_refused() -> None:
    """Celery would keep the first and send the second's messages to it."""
    with pytest.raises(ValueError, match=r"both want the task name 'groundspeed\.control\.tick'"):

        @task("groundspeed.control.tick")
        def another() -> None: ...


def test_every_topic_has_a_task(root: Path) -> None:
    """Names are written where messages are made; each is one that the control worker knows."""
    assert {tasks.__name__, pulls.__name__} == set(app.conf.include)
    source = root / "service" / "groundspeed" / "service"
    topics = {name for path in source.rglob("*.py") for name in NAME.findall(path.read_text())}
    named = {name for name in app.tasks if name.startswith("groundspeed.control.")}
    assert topics == named
