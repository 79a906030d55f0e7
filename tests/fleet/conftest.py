"""What several tests of campaigns begin with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from groundspeed.service.db.engine import Database
from rack import Rack, rack


@pytest.fixture
def make(sqlite_database: Database, tmp_path: Path) -> Callable[..., Rack]:
    """Gives a rack of so many nodes."""
    return lambda count=6, **changes: rack(sqlite_database, tmp_path, count, **changes)
