"""The short form of `make chaos`: every kind of harm once, with jobs in flight."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.run import chaos


@pytest.mark.timeout(600)
def test_nothing_is_lost_and_nothing_doubled_whatever_is_killed(tmp_path: Path) -> None:
    """The list of what must be there comes from the commits asked for, not from the service."""
    outcome = chaos(tmp_path, seed=7, jobs=40, fire_s=8.0, settle_s=240.0, pace=0.4)
    assert outcome.problems == [], outcome.logs
    assert len(outcome.harms) == 12
    assert (outcome.jobs, outcome.accepted) == (40, 80)
