"""Settings that cannot be used are named, and nothing secret is repeated."""

from __future__ import annotations

import pytest

from groundspeed.service.errors import ConfigError
from groundspeed.service.settings import Settings
from groundspeed.workers.errors import SettingsInvalid
from groundspeed.workers.settings import WorkerSettings


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


@pytest.mark.parametrize("name", ["GROUNDSPEED_ROLES", "GROUNDSPEED_WORKER_LABELS", "GROUNDSPEED_WORKER_CREDENTIALS"])
def test_a_value_that_is_no_json_is_refused_by_its_variable(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "rack=secret")
    with pytest.raises((ConfigError, SettingsInvalid), match=f"{name} holds no JSON") as refused:
        (WorkerSettings if "WORKER" in name else Settings).load()
    assert "secret" not in str(refused.value)
