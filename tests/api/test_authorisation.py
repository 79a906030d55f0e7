"""Every route asked as everybody: docs/access.md is the table, and a route that it does not name fails."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

import aside
import web_server
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import accounts, tokens
from groundspeed.service.usecases.principals import SCOPES

NOW = datetime.now(UTC)
HERE = "http://perf.example.org"
ROLES = ("viewer", "triager", "operator", "admin")
OWN_SCOPE = {"viewer": "read", "triager": "triage", "operator": "work", "admin": "admin"}
LINE = re.compile(r"^\| `([A-Z]+) (\S+)` \| ([a-z, ]+) \|$", re.MULTILINE)
STREAMS = re.compile(r"/events$")


@pytest.fixture(scope="module")
def table(root: Path) -> dict[tuple[str, str], str]:
    """(method, path) → who."""
    text = (root / "docs" / "access.md").read_text(encoding="utf-8")
    return {(method, path): who for method, path, who in LINE.findall(text)}


@dataclass
class House:
    app: FastAPI
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    """Whoever asks → what they send."""


def _house(template: Path, folder: Path, **settings: str) -> House:
    """A service with one project, a token for each role and for each scope, and a person signed in for each role."""
    shutil.copyfile(template, folder / "groundspeed.db")
    db = Database(f"sqlite:///{folder / 'groundspeed.db'}")
    sign_in = {"oidc_issuer": "https://login.example.org", "oidc_client_id": "x", "oidc_client_secret": "y"}
    made = House(web_server.app(db, folder, host="0.0.0.0", public_url=HERE, **sign_in, **settings))
    news = [tokens.New(role, role) for role in ROLES] + [tokens.New("worker", "worker", node="n1")]
    news += [tokens.New(f"admin for {scope}", "admin", scopes=(scope,)) for scope in SCOPES]
    for new in news:
        made.headers[new.name] = {"authorization": f"Bearer {tokens.create(db, new, NOW)}", "origin": HERE}
    for role in ("none", "viewer", "admin"):
        who = accounts.Identity("oidc", role, f"person-{role}")
        secret = accounts.sign_in(db, who, {f"oidc:{role}": role, "*": role}, NOW, timedelta(days=1))  # type: ignore[dict-item]
        made.headers[f"person {role}"] = {"cookie": f"groundspeed={secret}", "origin": HERE}
    made.headers |= {"nobody": {}, "a wrong token": {"authorization": "Bearer gs_wrong", "origin": HERE}}
    return made


@pytest.fixture(scope="module")
def closed(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = _house(sqlite_template, tmp_path_factory.mktemp("closed"))
    yield made
    made.app.state.db.close()


@pytest.fixture(scope="module")
def opened(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = _house(sqlite_template, tmp_path_factory.mktemp("opened"), read_access="open")
    yield made
    made.app.state.db.close()


def routes(app: FastAPI) -> set[tuple[str, str]]:
    found = set()
    for context in iter_route_contexts(app.routes):
        assert context.path is not None, "a mounted application has no line in docs/access.md"
        found |= {(method, context.path) for method in (context.methods or set()) - {"HEAD"}}
    return found


def may(who: str, needed: str, *, open_: bool) -> bool:
    """What the table means for one who asks."""
    kind, _, rest = who.partition(" ")
    least, _, scope = needed.partition(", ")
    if kind == "admin" and rest:  # a token narrowed to one scope
        mine = rest.removeprefix("for ")
        wanted = "admin" if needed == "own" else scope or OWN_SCOPE.get(least, "")
        return mine == wanted or (needed == "viewer" and mine != "results")
    if needed == "own":
        return who == "admin" or (kind == "person" and (rest in ROLES or open_))
    role = rest if kind == "person" else who
    if open_ and role in {"nobody", "none"}:
        return needed == "viewer"
    if needed == "worker":
        return role in {"worker", "admin"}
    return role in ROLES and ROLES.index(role) >= ROLES.index(least)


async def _ask(house: House, asked: list[tuple[str, str, dict[str, str]]]) -> list[int]:
    """The status of each request. Whoever is sent to the sign-in page counts as refused (401)."""
    transport = httpx.ASGITransport(house.app, raise_app_exceptions=False)
    found = []
    async with httpx.AsyncClient(transport=transport, base_url=HERE) as client:
        for method, path, headers in asked:
            concrete = re.sub(r"\{node\}", "n1", path)
            concrete = re.sub(r"\{\w*id\}", "999999", re.sub(r"\{sha256\}", "0" * 64, concrete))
            reply = await client.request(method, re.sub(r"\{[^}]+\}", "x", concrete), headers=headers)
            sent_away = reply.status_code == 303 and reply.headers["location"].startswith("/sign-in?")
            found.append(401 if sent_away else reply.status_code)
    return found


def test_every_route_has_a_line_and_every_line_a_route(closed: House, table: dict[tuple[str, str], str]) -> None:
    there = routes(closed.app)
    assert there - set(table) == set(), "name these in docs/access.md, with who may ask them"
    assert set(table) - there == set(), "these are no longer there: take them out of docs/access.md"
    known = {"anybody", "signature", "own", "worker", *ROLES}
    assert {who.partition(", ")[0] for who in table.values()} <= known


@pytest.mark.parametrize("reading", ["closed", "opened"])
def test_every_route_lets_in_whom_it_should_and_nobody_else(
    request: pytest.FixtureRequest, table: dict[tuple[str, str], str], reading: str
) -> None:
    """The whole matrix: every route × nobody, a wrong token, each role, a worker, each scope, a person of each role."""
    house: House = request.getfixturevalue(reading)
    whoever = house.headers if reading == "closed" else {name: house.headers[name] for name in OPEN_MATTERS}
    cells = [
        (route, needed, who)
        for route, needed in sorted(table.items())
        for who in whoever
        if needed != "signature" and not (route[1] == "/sign-out" and who.startswith("person"))
    ]
    statuses = aside.run(_ask(house, [(*route, house.headers[who]) for route, _, who in cells]))
    wrong = []
    for (route, needed, who), status in zip(cells, statuses, strict=True):
        refused = status in {401, 403}
        if who == "a wrong token" and needed != "anybody":
            good = status == 401
        elif who == "nobody" and reading == "closed" and needed != "anybody":
            good = status == 401 or (route[0] != "GET" and status == 403)  # a form without Origin is another site's
        elif needed == "anybody":
            good = not refused or route[1] in {"/sign-out", "/sign-in/{provider}/callback", "/metrics"}
        else:
            good = refused != may(who, needed, open_=reading == "opened")
        if not good or status >= 500:
            wrong.append(f"{route[0]} {route[1]} needs {needed}; {who} got {status}")
    assert not wrong, "\n".join(wrong)
    assert len(cells) > 400


OPEN_MATTERS = ("nobody", "a wrong token", "person none", "viewer", "worker", "admin for work")
"""Whose answers change, or could, where reading is open."""


def test_no_change_is_made_with_a_cookie_for_another_site(closed: House, table: dict[tuple[str, str], str]) -> None:
    """Every route that changes something, with an admin's cookie and each way in which another site's page may ask."""
    cookie = {"cookie": closed.headers["person admin"]["cookie"]}
    ways = [{}, {"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}]
    unsafe = [route for route, who in sorted(table.items()) if route[0] != "GET" and who != "signature"]
    statuses = aside.run(_ask(closed, [(*route, {**cookie, **way}) for route in unsafe for way in ways]))
    assert set(statuses) == {403}
    assert len(unsafe) > 20


def test_a_token_for_one_project_reaches_nothing_of_others(closed: House, table: dict[tuple[str, str], str]) -> None:
    """Every route with a project in its address, with an admin's token for another project."""
    db: Database = closed.app.state.db
    secret = tokens.create(db, tokens.New("elsewhere", "admin"), NOW)
    with db.transaction() as session:
        from sqlmodel import select

        from groundspeed.service.db.account_tables import Token

        row = session.exec(select(Token).where(Token.name == "elsewhere")).one()
        row.scopes = ["project:other"]
        session.add(row)
    bearer = {"authorization": f"Bearer {secret}", "origin": HERE}
    asked = [(*route, bearer) for route in sorted(table) if "{slug}" in route[1]]
    statuses = aside.run(_ask(closed, asked))
    loose = [
        f"{a[0]} {a[1]} got {status}" for a, status in zip(asked, statuses, strict=True) if status not in {403, 422}
    ]
    assert not loose, "\n".join(loose)
