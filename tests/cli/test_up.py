"""``groundspeed up`` beyond loopback: refused at once without protection, and its own worker is let in."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from groundspeed.cli import context, up
from groundspeed.service.errors import Invalid, Unauthorized
from groundspeed.service.settings import Settings
from groundspeed.service.usecases import tokens


def test_without_protection_nothing_is_started(tmp_path: Path) -> None:
    with (
        pytest.raises(Invalid, match="no token to protect it"),
        up.service(Settings.load(data_dir=tmp_path, host="::")),
    ):
        pass
    assert not (tmp_path / "logs").exists()


def test_the_worker_of_this_machine_has_a_token_for_as_long_as_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUNDSPEED_WORKER_NODE", "here")
    settings = Settings.load(data_dir=tmp_path, host="::")
    with context.database(settings) as db:
        with up._token_of_worker(settings, with_worker=True) as secret:
            assert secret
            holder = tokens.authenticate(db, secret, datetime.now(UTC))
            assert (holder.role, holder.node) == ("worker", "here")
            started = {part.name: part.environment for part in up.parts(settings, worker_token=secret)}
            assert started["worker"]["GROUNDSPEED_WORKER_TOKEN"] == secret
            assert secret not in started["service"].values()
        with pytest.raises(Unauthorized):
            tokens.authenticate(db, secret, datetime.now(UTC))
    with up._token_of_worker(Settings.load(data_dir=tmp_path), with_worker=True) as none:
        assert none is None
