"""Fixtures that every part of the tests may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

AT_ANY_PACE: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
"""How long an example takes says how busy the machine is, and nothing of what is tested."""
settings.register_profile("the same every time", derandomize=True, **AT_ANY_PACE)
settings.register_profile("other examples", **AT_ANY_PACE)
settings.load_profile("other examples" if os.environ.get("GROUNDSPEED_TEST_RANDOM") else "the same every time")
"""Whether a change passes must not hang on luck; `make test-long` looks for new examples."""

pytest_plugins = ["databases", "processes"]

ROOT = Path(__file__).resolve().parent.parent


LONGEST_FIRST = ("chaos", "e2e", "compose", "browser", "workers", "control", "plugins")
"""Folders of tests that take long each: begun first, so that the processes of a run end together."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(ROOT / "tests").parts[0]
        return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)

    items.sort(key=rank)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real files that are not part of the repository; the test is skipped by name when it is absent."""
    path = Path(os.environ.get("GROUNDSPEED_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no real data at {path}: set GROUNDSPEED_TEST_DATA to the folder that holds it")
    return path


@pytest.fixture(autouse=True)
def environment_as_it_was() -> Iterator[None]:
    """What code under test sets in the process's environment ends with its test: children of later ones inherit it."""
    before = dict(os.environ)
    yield
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    for name, value in before.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
