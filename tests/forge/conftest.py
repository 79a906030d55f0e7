"""An office: a project, a GitHub over HTTP, and the use cases between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forge.office import Office, office
from groundspeed.service.db.engine import Database


@pytest.fixture
def desk(sqlite_database: Database, tmp_path: Path) -> Iterator[Office]:
    with office(sqlite_database, tmp_path) as made:
        yield made
