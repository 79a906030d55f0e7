"""Logging that outlives the stream it was set up on."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest

from groundspeed.service import logformat


@pytest.fixture
def restored() -> Iterator[None]:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])


@pytest.mark.usefixtures("restored")
def test_a_line_goes_to_the_standard_error_of_its_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set up on one stream that is closed later; lines go to the one that took its place, and none is lost in noise."""
    first, second = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", first)
    logformat.configure("INFO", "json")
    first.close()
    logging.getLogger("groundspeed.test").warning("into a closed stream: dropped without a traceback")
    monkeypatch.setattr(sys, "stderr", second)
    with logformat.about(job="7"):
        logging.getLogger("groundspeed.test").warning("still here")
    (line,) = [json.loads(text) for text in second.getvalue().splitlines()]
    assert (line["message"], line["job"]) == ("still here", "7")
