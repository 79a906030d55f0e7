"""Settings that cannot be used are named, and nothing secret is repeated."""

from __future__ import annotations

import pytest

from groundspeed.service.errors import ConfigError
from groundspeed.service.settings import Settings


@pytest.mark.parametrize("url", ["garbage-secret", "mysql://u:secret@h/x", "postgresql+psycopg://u:secret@h:port/x"])
def test_an_address_that_is_no_database_is_refused(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("GROUNDSPEED_DATABASE_URL", url)
    with pytest.raises(ConfigError, match="GROUNDSPEED_DATABASE_URL") as refused:
        Settings.load()
    assert ":secret" not in str(refused.value)


def test_the_usual_names_of_postgresql_mean_the_driver_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("postgres", "postgresql", "postgresql+psycopg"):
        monkeypatch.setenv("GROUNDSPEED_DATABASE_URL", f"{name}://u@h/x")
        assert Settings.load().database == "postgresql+psycopg://u@h/x"
