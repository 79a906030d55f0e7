"""Making the App, linking repositories, and saying what is missing."""

from __future__ import annotations

import html
import json
import re
import stat
import threading
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from forge.github_server.server import APP_ID, SECRET, key_pair, serving
from forge.office import Office
from groundspeed.cli import github, github_setup
from groundspeed.cli.github_check import examine
from groundspeed.service.control import wiring
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import ConfigError, Conflict, Invalid
from groundspeed.service.forge import manifest
from groundspeed.service.settings import Settings
from groundspeed.service.usecases.pulls import places
from groundspeed.service.usecases.pulls.standing import standing
from web_server import app, serve

CODE = "a180b1a3d263c81bc6441d7b990bae27d4c10679"


def test_the_app_is_made_by_its_manifest_and_only_for_who_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: Queue[str] = Queue()
    monkeypatch.setattr(github_setup, "make", lambda *a: made(*a[:5], lambda url: (said.put(url), a[5](url))[1]))
    done: list[Any] = []
    with serving() as fake:
        monkeypatch.setenv("GROUNDSPEED_GITHUB_API_URL", fake.url)
        arguments = [
            "setup",
            "--public-url",
            "https://speed.example/",
            "--organization",
            "octo",
            "--data",
            str(tmp_path),
        ]
        thread = threading.Thread(target=lambda: done.append(CliRunner().invoke(github.app, arguments)))
        thread.start()
        here = said.get(timeout=60)
        page = httpx.get(here, timeout=60).text
        sent = json.loads(html.unescape(re.search(r"name=manifest value='([^']*)'", page)[1]))  # type: ignore[index]
        assert sent["hook_attributes"]["url"] == "https://speed.example/webhooks/github"
        assert sent["default_permissions"]["checks"] == "write"
        assert f"{fake.url}/organizations/octo/settings/apps/new?state=" in page
        state = re.search(r"state=([\w-]+)", page)[1]  # type: ignore[index]
        assert httpx.get(f"{here}/created?code={CODE}&state=forged", timeout=60).status_code == 404
        assert httpx.get(f"{sent['redirect_url']}?code={CODE}&state={state}", timeout=60).status_code == 200
        thread.join(60)
        assert fake.violations == []
    (result,) = done
    assert result.exit_code == 0, result.output
    assert f"GROUNDSPEED_GITHUB_APP_ID={APP_ID}" in result.output
    key = tmp_path / "github-app.pem"
    assert key.read_text() == key_pair()[0]
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert (tmp_path / "github-webhook-secret").read_text() == SECRET
    assert key_pair()[0] not in result.output


made = github_setup.make


def test_a_code_that_github_does_not_take_is_said() -> None:
    with serving() as fake, pytest.raises(Invalid, match="did not take the code"):
        manifest.convert(fake.url, "0" * 40)


@pytest.mark.parametrize(
    ("api", "web"),
    [("https://api.github.com", "https://github.com"), ("https://ghe.example/api/v3", "https://ghe.example")],
)
def test_the_address_for_people_follows_from_the_apis(api: str, web: str) -> None:
    assert manifest.web_url(api) == web


def test_check_says_what_is_missing(desk: Office, tmp_path: Path) -> None:
    common: dict[str, Any] = {
        "data_dir": tmp_path / "data", "database_url": desk.db.url, "github_webhook_secret": SECRET,
        "github_app_id": APP_ID, "github_private_key": key_pair()[0], "github_api_url": desk.github.url,
    }  # fmt: skip
    with serve(app(Database(desk.db.url), tmp_path / "data", github_webhook_secret=SECRET)) as url:
        settings = Settings.load(**common, public_url=url)
        desk.github.hook_url = f"{url}/webhooks/github"
        desk.github.app_deliveries = [{"status_code": 202, "status": "OK"}]
        found = examine(settings, standing(desk.db))
        assert all(one.ok for one in found), found
        assert len(found) >= 6

        def missing(**changes: Any) -> str:
            changed = settings.model_copy(update=changes)
            return "\n".join(one.words for one in examine(changed, standing(desk.db)) if not one.ok)

        other = Settings.load(**(common | {"github_webhook_secret": "x"})).github_webhook_secret
        assert "another webhook secret" in missing(github_webhook_secret=other)
        assert "No webhook secret" in missing(github_webhook_secret=None)
        assert "cannot be reached" in missing(public_url="http://127.0.0.1:9")
        assert "sends its webhooks to" in missing(public_url=f"{url}/elsewhere")
        desk.github.permissions["checks"] = "read"
        desk.github.events.remove("push")
        desk.github.app_deliveries = [{"status_code": 401, "status": "Unauthorized"}]
        said = missing()
        assert "lacks the permissions checks: write" in said
        assert "lacks the events push" in said
        assert "the App has another webhook secret" in said
        assert "On octo/toy the App was not given checks: write" in said
        assert "No credentials" in missing(github_app_id="", github_private_key=None)
        desk.github.trouble.status = 503
        assert "GitHub answered 503" in missing()
        desk.github.trouble.status = 0


def test_half_an_app_and_a_key_that_is_none_are_said_at_the_start(tmp_path: Path) -> None:
    for given, words in (
        ({"github_app_id": "1"}, "only one of id and private key"),
        ({"github_app_id": "1", "github_private_key": "x"}, "no RSA key in PEM"),
    ):
        with pytest.raises(ConfigError, match=words):
            wiring.forge(Settings.load(data_dir=tmp_path, **given))


def test_linking_is_refused_where_either_has_another_partner(desk: Office) -> None:
    again = desk.desk.forge.repository("octo/toy")
    places.link(desk.db, "toy", again, desk.now, "me")
    other = desk.github.repo("octo/other")
    with pytest.raises(Conflict, match="toy belongs to octo/toy"):
        places.link(desk.db, "toy", desk.desk.forge.repository(other.full_name), desk.now, "me")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("git@github.com:Octo/Tiny.git", "https://github.com/octo/tiny"),
        ("ssh://git@ghe.example/o/r", "https://ghe.example/o/r.git"),
    ],
)
def test_one_repository_has_many_addresses(one: str, other: str) -> None:
    assert places.address(one) == places.address(other) is not None
    assert places.address("/srv/tiny.git") is None
