"""schemathesis: whatever the API's own description allows, and what it forbids, is answered without a fault of ours."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode

import demo_data
import web_server
from groundspeed.service.api.reference import operations
from groundspeed.service.db.engine import Database

STREAMS = re.compile(r"/events$")
"""Server-sent events of what runs go on for minutes; tests/browser has them."""


@pytest.fixture(scope="module")
def url(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The service over a small history, so that ids that are guessed sometimes exist."""
    folder = tmp_path_factory.mktemp("schema")
    shutil.copyfile(sqlite_template, folder / "groundspeed.db")
    db = Database(f"sqlite:///{folder / 'groundspeed.db'}")
    demo_data.fill(db, demo_data.Shape(slug="a", commits=8, machines=1, extra=0, keep_samples=False))
    with web_server.serve(web_server.app(db, folder)) as address:
        yield address


def fuzz(url: str, examples: int, *, thorough: bool) -> Counter[int]:
    """Ask every operation ``examples`` times what its description allows, and those with a body (``thorough``: all) as
    often what it forbids; returns how often each status came. Fails with the first fault of ours in each operation, and
    its request.
    """
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    document = requests.get(f"{url}/openapi.json", timeout=120).json()
    for _, operation in operations(document):  # the examples name addresses elsewhere; test_reference has them
        for content in operation.get("requestBody", {}).get("content", {}).values():
            content.pop("example", None)
    schema = schemathesis.openapi.from_dict(document)
    seen: Counter[int] = Counter()
    asked: set[str] = set()
    faults: list[str] = []
    with requests.Session() as session:
        for found in schema.get_all_operations():
            operation = found.ok()
            if STREAMS.search(operation.path) and operation.method.upper() == "GET":
                continue
            asked.add(operation.label)
            for mode in modes if thorough or list(operation.body) else modes[:1]:
                try:
                    _ask(operation, mode, examples, session, url, seen)
                except AssertionError as fault:
                    faults.append(f"{operation.label}: {fault}")
    assert not faults, "\n\n".join(faults)
    assert len(asked) > 45
    return seen


def _ask(
    operation: Any, mode: GenerationMode, examples: int, session: requests.Session, url: str, seen: Counter[int]
) -> None:
    strategy = operation.as_strategy(generation_mode=mode)

    @hypothesis.settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=strategy)
    def one(case: Any) -> None:
        reply = case.call(base_url=url, session=session, timeout=120)
        seen[reply.status_code] += 1
        assert reply.status_code < 500, f"{case.as_curl_command()}\n{reply.text[:2000]}"

    try:
        one()
    except hypothesis.errors.Unsatisfiable:
        seen[0] += 1  # nothing can be wrong in a request without parameters


def test_no_operation_fails_whatever_it_is_asked(url: str) -> None:
    seen = fuzz(url, 2, thorough=False)
    assert seen[200] > 10
    assert seen[422] > 10


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_no_operation_fails_however_long_it_is_asked(url: str) -> None:
    seen = fuzz(url, 25, thorough=True)
    assert seen.total() > 1500
