"""Signing in with real providers on this machine: what must hold, and every lie that is refused."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import delete
from sqlmodel import select

import web_server
from groundspeed.service.db.account_tables import Account, SignedIn, SignInStart, SignInTry, Token
from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import accounts
from identity_providers import CLIENT, SECRET, GitHubSignIn, OidcProvider, Person, key_of


@dataclass
class Service:
    """A service that people sign in to, seen by one browser."""

    url: str
    db: Database
    browser: httpx.Client

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.browser.get(self.url + path, **more)

    def sign_in(self, way: str = "oidc", next_: str = "/account") -> httpx.Response:
        """Through the provider and back; the last answer."""
        return self.get(f"/sign-in/{way}?next={next_}", follow_redirects=True)

    def me(self) -> dict[str, Any]:
        reply = self.get("/api/v1/account")
        assert reply.status_code == 200, reply.text
        found: dict[str, Any] = reply.json()
        return found


@contextmanager
def service(db: Database, folder: Path, **settings: Any) -> Iterator[Service]:
    """The service at its own public address (a free port, taken before it starts)."""
    listener = socket.create_server(("127.0.0.1", 0))
    here = f"http://127.0.0.1:{listener.getsockname()[1]}"
    application = web_server.app(Database(db.url), folder, host="0.0.0.0", public_url=here, **settings)
    with web_server.serve(application, listener) as url, httpx.Client(timeout=60) as browser:
        yield Service(url, db, browser)


@pytest.fixture(scope="module")
def _provider() -> Iterator[OidcProvider]:
    made = OidcProvider()
    with web_server.serve(made.app()) as url:
        made.issuer = url
        yield made


@pytest.fixture
def provider(_provider: OidcProvider) -> OidcProvider:
    """An honest one, with nobody's traces in it."""
    _provider.person, _provider.lie, _provider.public, _provider.key = Person(), "", False, key_of("k1")
    _provider.asked.clear()
    return _provider


@pytest.fixture(scope="module")
def _oidc(
    _provider: OidcProvider, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("sign-in")
    shutil.copyfile(sqlite_template, folder / "groundspeed.db")
    db = Database(f"sqlite:///{folder / 'groundspeed.db'}")
    rules = {"@example.org": "triager", "group:perf": "admin"}
    with service(db, folder, **of(_provider), roles=rules) as made:
        yield made
    db.close()


@pytest.fixture
def oidc(_oidc: Service, provider: OidcProvider) -> Iterator[Service]:
    """A service that nobody has signed in to, and a fresh browser."""
    with _oidc.db.transaction() as session:
        for table in (SignedIn, SignInStart, SignInTry, Token, Account):
            session.execute(delete(table))
    with httpx.Client(timeout=60) as browser:
        yield Service(_oidc.url, _oidc.db, browser)


def of(provider: OidcProvider) -> dict[str, Any]:
    return {
        "oidc_issuer": provider.issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "sign_in_per_minute": 500,
    }


def test_a_person_signs_in_works_and_signs_out(oidc: Service, provider: OidcProvider) -> None:
    shut = oidc.get("/projects/x?y=1&z")
    assert (shut.status_code, shut.headers["location"]) == (303, "/sign-in?next=%2Fprojects%2Fx%3Fy%3D1%26z")
    assert "Continue with Single sign-on" in oidc.get("/sign-in").text
    reply = oidc.sign_in()
    assert (reply.status_code, str(reply.url)) == (200, oidc.url + "/account")
    assert "Ada Marsh" in reply.text
    me = oidc.me()
    assert (me["name"], me["role"], me["account"]["email"], me["browsers"]) == ("ada", "triager", "ada@example.org", 1)
    cookie = next(c for c in oidc.browser.cookies.jar if c.name == "groundspeed")
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "lax"
    assert oidc.browser.post(oidc.url + "/sign-out", headers={"origin": oidc.url}).headers["location"] == "/sign-in"
    oidc.browser.cookies.set("groundspeed", str(cookie.value), domain="127.0.0.1")
    assert oidc.get("/api/v1/account").status_code == 401  # a cookie that somebody kept is worth nothing


def test_each_sign_in_has_its_own_state_nonce_and_verifier(oidc: Service, provider: OidcProvider) -> None:
    for _ in range(2):
        oidc.sign_in()
    first, second = provider.asked
    assert all(first[name] != second[name] for name in ("state", "nonce", "code_challenge"))


def test_secure_cookies_where_the_service_is_reached_by_https(
    provider: OidcProvider, sqlite_database: Database, tmp_path: Path
) -> None:
    settings = {**of(provider), "host": "0.0.0.0", "public_url": "https://perf.example.org"}
    with web_server.serve(web_server.app(Database(sqlite_database.url), tmp_path, **settings)) as url:
        gone = httpx.get(url + "/sign-in/oidc", timeout=60)
        cookie = gone.headers["set-cookie"]
        assert cookie.startswith("__Host-groundspeed-signing-in=")
        assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=lax", "Path=/"))
        assert "redirect_uri=https%3A%2F%2Fperf.example.org%2Fsign-in%2Foidc%2Fcallback" in gone.headers["location"]


LIES = (
    "other issuer", "other audience", "other nonce", "no nonce", "no subject", "no expiry", "expired", "other key",
    "unsigned", "signed with what everybody knows", "no id token", "denies", "iss of the answer",
)  # fmt: skip


def test_nobody_is_let_in_by_a_provider_that_breaks_a_rule(oidc: Service, provider: OidcProvider) -> None:
    for lie in LIES:
        provider.lie = lie
        reply = oidc.sign_in()
        assert reply.status_code == 403, (lie, reply.text)
        assert "<h1" in reply.text
        assert "groundspeed" not in oidc.browser.cookies
    with oidc.db.read() as session:
        assert session.exec(select(Account)).all() == []
        assert session.exec(select(SignedIn)).all() == []
    provider.lie = ""
    assert oidc.sign_in().status_code == 200


def test_a_provider_out_of_order_is_said_and_tried_again(oidc: Service, provider: OidcProvider) -> None:
    provider.lie = "fails"
    assert oidc.sign_in().status_code == 503
    provider.lie = ""
    assert oidc.sign_in().status_code == 200


def test_a_provider_that_calls_itself_otherwise_is_not_asked(
    provider: OidcProvider, sqlite_database: Database, tmp_path: Path
) -> None:
    provider.lie = "issuer of the discovery"
    with service(sqlite_database, tmp_path, **of(provider)) as made:
        reply = made.sign_in()
    assert (reply.status_code, provider.asked) == (503, [])
    assert "Correct GROUNDSPEED_OIDC_ISSUER" in reply.text


def test_a_provider_may_change_its_key(oidc: Service, provider: OidcProvider) -> None:
    assert oidc.sign_in().status_code == 200
    provider.lie = "new key"
    assert oidc.sign_in().status_code == 200


def test_a_public_client_needs_no_secret(provider: OidcProvider, sqlite_database: Database, tmp_path: Path) -> None:
    provider.public = True
    with service(
        sqlite_database, tmp_path, **{**of(provider), "oidc_client_secret": ""}, roles={"*": "viewer"}
    ) as made:
        assert made.sign_in().status_code == 200


def test_an_answer_counts_once_in_the_browser_that_began(oidc: Service, provider: OidcProvider) -> None:
    gone = oidc.get("/sign-in/oidc")
    answer = oidc.browser.get(gone.headers["location"]).headers["location"]
    with httpx.Client(timeout=60) as other:
        assert other.get(answer).status_code == 403  # no cookie: another browser, perhaps lured there
    assert oidc.browser.get(answer).status_code == 403  # and the state is used up by that
    gone = oidc.get("/sign-in/oidc")
    answer = oidc.browser.get(gone.headers["location"]).headers["location"]
    state = re.search(r"state=([^&]+)", answer)
    assert state is not None
    assert oidc.browser.get(answer.replace(state[1], "x" * 30)).status_code == 403
    assert oidc.browser.get(answer).status_code == 303
    assert oidc.browser.get(answer).status_code == 403


def test_nobody_is_sent_to_another_site_after_signing_in(oidc: Service) -> None:
    for target in ("https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/\tx", ""):
        gone = oidc.get("/sign-in/oidc", params={"next": target})
        answer = oidc.browser.get(gone.headers["location"]).headers["location"]
        assert oidc.browser.get(answer).headers["location"] == "/", target


def test_the_role_follows_the_rules_until_an_admin_gives_one(oidc: Service, provider: OidcProvider) -> None:
    oidc.sign_in()
    assert oidc.me()["role"] == "triager"
    provider.person.groups = ("perf",)
    oidc.sign_in()
    assert oidc.me()["role"] == "admin"
    other = accounts.sign_in(oidc.db, accounts.Identity("oidc", "u-2", "bo"), {"*": "admin"}, *_times())
    assert other
    accounts.change(oidc.db, oidc.me()["account"]["id"], _times()[0], "bo", role="viewer")
    assert oidc.me()["role"] == "viewer"  # at once, without signing in again
    oidc.sign_in()
    assert oidc.me()["role"] == "viewer"
    accounts.change(oidc.db, oidc.me()["account"]["id"], _times()[0], "bo", disabled=True)
    assert oidc.get("/api/v1/account").status_code == 401
    assert oidc.sign_in().status_code == 403


def _times() -> tuple[Any, Any]:
    return datetime.now(UTC), timedelta(days=1)


def test_an_address_that_nobody_verified_gives_no_role(oidc: Service, provider: OidcProvider) -> None:
    provider.person = Person(subject="u-7", login="mallory", email="mallory@example.org", verified=False)
    reply = oidc.sign_in()
    assert reply.status_code == 403
    assert "needs the role viewer, and mallory has none" in reply.text
    assert oidc.get("/api/v1/projects").status_code == 403


def test_two_people_of_one_name_stay_two(oidc: Service, provider: OidcProvider) -> None:
    oidc.sign_in()
    provider.person = Person(subject="u-8", login="Ada", email="ada@example.org")
    oidc.sign_in()
    assert oidc.me()["name"] == "Ada-2"
    provider.person = Person(subject="u-9", login="local\x00<script>", email="x@example.org")
    oidc.sign_in()
    assert oidc.me()["name"] == "local-script"


def test_too_many_sign_ins_from_one_address_wait(
    provider: OidcProvider, sqlite_database: Database, tmp_path: Path
) -> None:
    with service(sqlite_database, tmp_path, **{**of(provider), "sign_in_per_minute": 3}) as made:
        replies = [made.get("/sign-in/oidc") for _ in range(5)]
    assert [reply.status_code for reply in replies] == [303, 303, 303, 429, 429]
    assert replies[-1].headers["retry-after"] == "60"


def test_a_page_of_another_site_changes_nothing_with_a_persons_cookie(oidc: Service, provider: OidcProvider) -> None:
    provider.person.groups = ("perf",)
    oidc.sign_in()
    address, own = oidc.url + "/api/v1/tokens", {"origin": oidc.url}
    for headers in ({}, {"origin": "https://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"}):
        for path in (address, oidc.url + "/account/tokens", oidc.url + "/sign-out", oidc.url + "/api/v1/projects"):
            assert oidc.browser.post(path, headers=headers, json={"name": "x"}).status_code == 403, (path, headers)
    assert oidc.browser.post(address, headers=own, json={"name": "x"}).status_code == 201


def test_a_persons_token_reaches_no_further_than_the_person(oidc: Service, provider: OidcProvider) -> None:
    oidc.sign_in()
    own = {"origin": oidc.url}
    post = lambda **body: oidc.browser.post(oidc.url + "/api/v1/tokens", headers=own, json=body)  # noqa: E731
    assert post(name="a", role="operator").status_code == 403
    assert post(name="a", role="worker", node="n").status_code == 403
    assert post(name="a", role="triager", scopes=["work"]).status_code == 422
    assert post(name="a", role="triager", projects=["none"]).status_code == 422
    secret = post(name="a", role="triager", days=3).json()["secret"]
    assert post(name="a", role="viewer").status_code == 409
    bearer = {"authorization": f"Bearer {secret}"}
    seen = httpx.get(oidc.url + "/api/v1/account", headers=bearer, timeout=60).json()
    assert (seen["name"], seen["role"], seen["kind"], seen["tokens"]) == ("ada/a", "triager", "token", [])
    assert httpx.post(oidc.url + "/api/v1/tokens", headers=bearer, json={"name": "b"}, timeout=60).status_code == 403
    row = oidc.me()["tokens"][0]
    assert row["state"] == "in force"
    accounts.change(oidc.db, oidc.me()["account"]["id"], _times()[0], "x", role="viewer")
    assert httpx.get(oidc.url + "/api/v1/account", headers=bearer, timeout=60).json()["role"] == "viewer"
    assert oidc.browser.post(oidc.url + f"/account/tokens/{row['id']}/revoke", headers=own).status_code == 303
    assert httpx.get(oidc.url + "/api/v1/account", headers=bearer, timeout=60).status_code == 401


def test_the_page_shows_a_new_tokens_secret_once(oidc: Service) -> None:
    oidc.sign_in()
    form = {"name": "ci", "role": "viewer", "scope": ["read"], "days": "7"}
    made = oidc.browser.post(oidc.url + "/account/tokens", headers={"origin": oidc.url}, data=form)
    secret = re.search(r"gs_[\w-]+", made.text)
    assert secret is not None
    assert made.headers["cache-control"] == "no-store"
    assert secret[0] not in oidc.get("/account").text
    feed = httpx.get(oidc.url + "/api/v1/projects", auth=("anything", secret[0]), timeout=60)
    assert feed.status_code == 200  # a reader of feeds knows nothing but a password
    again = oidc.browser.post(oidc.url + "/account/tokens", headers={"origin": oidc.url}, data={**form, "days": "x"})
    assert again.status_code == 422


def test_people_of_github_sign_in(sqlite_database: Database, tmp_path: Path) -> None:
    github = GitHubSignIn()
    with web_server.serve(github.app()) as url:
        settings = {"github_oauth_client_id": CLIENT, "github_oauth_client_secret": SECRET, "github_oauth_url": url}
        with service(
            sqlite_database, tmp_path, **settings, roles={"group:acme": "viewer", "github:OctoCat": "operator"}
        ) as made:
            assert "Continue with GitHub" in made.get("/sign-in").text
            assert made.sign_in("github").status_code == 200
            me = made.me()
            assert (me["role"], me["account"]["email"], me["account"]["name"]) == ("operator", "octo@example.org", "")
            github.login = "octocat-renamed"
            made.sign_in("github")
            assert (made.me()["role"], made.me()["name"]) == ("viewer", "octocat")  # one person, whatever the login
            assert github.scope == "read:user user:email read:org"
            assert made.sign_in("oidc").status_code == 404


def test_reading_can_be_open_while_changing_is_not(
    provider: OidcProvider, sqlite_database: Database, tmp_path: Path
) -> None:
    with service(sqlite_database, tmp_path, **of(provider), read_access="open") as made:
        page = made.get("/")
        assert page.status_code == 200
        assert 'href="/sign-in?next=' in page.text
        assert made.get("/accounts").status_code == 303  # somebody else might see it
        assert made.get("/api/v1/accounts").status_code == 401
        assert made.browser.post(made.url + "/api/v1/projects", json={"repo_url": "x"}).status_code == 401
        made.sign_in()
        assert made.me()["role"] == "viewer"  # no rule fits, but anybody may read
        assert made.get("/api/v1/accounts").status_code == 403


def test_without_an_account_only_whoever_sits_here_is_let_in(sqlite_database: Database, tmp_path: Path) -> None:
    """A service on loopback knows its neighbour; one that a proxy on this machine passes on does not."""
    with web_server.serve(web_server.app(Database(sqlite_database.url), tmp_path)) as url:
        assert httpx.get(url + "/api/v1/account", timeout=60).json()["kind"] == "local"
        for name in ("x-forwarded-for", "forwarded", "x-real-ip"):
            assert httpx.get(url + "/api/v1/account", headers={name: "203.0.113.9"}, timeout=60).status_code == 401
