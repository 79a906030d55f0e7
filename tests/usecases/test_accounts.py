"""People, their roles and sign-ins, on both databases."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from sqlmodel import select

from groundspeed.service.db.account_tables import Account, SignedIn, SignInStart
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry
from groundspeed.service.errors import Conflict, Forbidden, Invalid, NotFound, TooMany, Unauthorized
from groundspeed.service.usecases import accounts, signing_in, tokens
from groundspeed.service.usecases.accounts import Identity, role_by
from groundspeed.service.usecases.signing_in import Start

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
ADA = Identity("oidc", "u-1", "ada", "Ada", "ada@example.org", ("perf",))


def test_the_highest_rule_that_fits_gives_the_role() -> None:
    octo = Identity("github", "583231", "OctoCat", "", "octo@Example.org", ("acme",))
    rules = {"@example.org": "viewer", "github:octocat": "operator", "group:acme": "triager"}
    assert role_by(rules, octo) == "operator"
    assert role_by({"github-id:583231": "admin", **rules}, octo) == "admin"
    assert role_by({"oidc:octo@example.org": "admin"}, octo) == "none"  # another provider's person
    assert role_by({"github:ada": "admin", "group:Perf": "admin"}, ADA) == "none"
    assert role_by({"oidc:ADA@example.org": "triager", "*": "viewer"}, ADA) == "triager"
    assert role_by({"@example.org": "viewer"}, Identity("oidc", "1", "x", email="")) == "none"
    assert role_by({"@example.org": "viewer"}, Identity("oidc", "1", "x", email="a@example.org.evil.com")) == "none"


def test_a_sign_in_lasts_its_time_and_ends_where_it_is_ended(database: Database) -> None:
    first = accounts.sign_in(database, ADA, {"*": "viewer"}, NOW, DAY)
    second = accounts.sign_in(database, ADA, {"*": "viewer"}, NOW, DAY)
    who = accounts.signed_in(database, first, NOW)
    assert who is not None
    assert (who.name, who.role, who.kind) == ("ada", "viewer", "account")
    assert accounts.signed_in(database, first, NOW + DAY) is None
    accounts.sign_out(database, first, NOW)
    accounts.sign_out(database, first, NOW)
    assert accounts.signed_in(database, first, NOW) is None
    assert accounts.signed_in(database, second, NOW) is not None
    third = accounts.sign_in(database, ADA, {}, NOW, DAY)
    accounts.sign_out(database, third, NOW, everywhere=True)
    assert accounts.signed_in(database, second, NOW) is None
    assert first not in str([(s.sha256, s.account_id) for s in every(database, SignedIn)])
    assert [entry.action for entry in every(database, AuditEntry)].count("account.sign-in") == 3


def every(database: Database, table: type) -> list:
    with database.read() as session:
        return list(session.exec(select(table)).all())


def test_the_last_admin_stays(database: Database) -> None:
    accounts.sign_in(database, ADA, {"*": "admin"}, NOW, DAY)
    ada = accounts.by_handle(database, "ADA")
    for change in ({"role": "viewer"}, {"disabled": True}, {"role": "none"}):
        with pytest.raises(Conflict, match="No account with the role admin"):
            accounts.change(database, ada, NOW, "x", **change)  # type: ignore[arg-type]
    accounts.sign_in(database, Identity("oidc", "u-2", "bo"), {"*": "admin"}, NOW, DAY)
    secret = accounts.sign_in(database, ADA, {}, NOW, DAY)  # the rules no longer give it
    assert accounts.signed_in(database, secret, NOW).role == "none"  # type: ignore[union-attr]
    with pytest.raises(Invalid):
        accounts.change(database, ada, NOW, "x", role="king")
    with pytest.raises(NotFound):
        accounts.change(database, 999, NOW, "x", role="viewer")
    accounts.change(database, ada, NOW, "bo", disabled=True)
    assert accounts.signed_in(database, secret, NOW) is None
    with pytest.raises(Forbidden, match="is closed"):
        accounts.sign_in(database, ADA, {}, NOW, DAY)


def test_a_state_is_used_once_even_by_two_at_the_same_time(database: Database) -> None:
    signing_in.begin(database, Start("oidc", "state", "browser", "nonce", "verifier", "/x"), NOW)
    won: list[Start] = []
    lost: list[Exception] = []
    gate = threading.Barrier(4)

    def come() -> None:
        gate.wait()
        try:
            won.append(signing_in.come_back(database, "oidc", "state", "browser", NOW))
        except Forbidden as error:
            lost.append(error)

    threads = [threading.Thread(target=come) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 3)
    assert (won[0].nonce, won[0].verifier, won[0].next) == ("nonce", "verifier", "/x")
    for provider, browser, later in (
        ("github", "browser", NOW),
        ("oidc", "other", NOW),
        ("oidc", "browser", NOW + DAY),
    ):
        signing_in.begin(database, Start("oidc", "again", "browser", "n", "v", "/"), NOW)
        with pytest.raises(Forbidden):
            signing_in.come_back(database, provider, "again", browser, later)
    signing_in.begin(database, Start("oidc", "new", "b", "n", "v", "/"), NOW + DAY)
    assert len(every(database, SignInStart)) == 1  # old ones have gone


def test_tries_are_counted_by_network_and_forgotten(database: Database) -> None:
    for n in range(3):
        signing_in.count(database, f"2001:db8::{n}", NOW, 3)
    with pytest.raises(TooMany):
        signing_in.count(database, "2001:db8::ffff", NOW, 3)
    signing_in.count(database, "2001:db8:0:1::1", NOW, 3)
    signing_in.count(database, "203.0.113.1", NOW, 3)
    signing_in.count(database, "2001:db8::1", NOW + timedelta(minutes=2), 3)


def test_a_token_ends_with_its_owner_and_shrinks_with_them(database: Database) -> None:
    accounts.sign_in(database, ADA, {"*": "operator"}, NOW, DAY)
    accounts.sign_in(database, Identity("oidc", "u-2", "bo"), {"*": "admin"}, NOW, DAY)
    ada = accounts.by_handle(database, "ada")
    secret = tokens.create(database, tokens.New("ci", "operator", scopes=("results",)), NOW, "ada", owner=ada)
    who = tokens.authenticate(database, secret, NOW)
    assert (who.name, who.role, who.scopes, who.account) == ("ada/ci", "operator", ("results",), ada)
    with pytest.raises(Forbidden, match="is for results alone"):
        who.require("viewer")
    who.require("operator", "results")
    accounts.change(database, ada, NOW, "bo", role="triager")
    assert tokens.authenticate(database, secret, NOW).role == "triager"
    accounts.change(database, ada, NOW, "bo", disabled=True)
    with pytest.raises(Unauthorized):
        tokens.authenticate(database, secret, NOW)
    assert {one.handle for one in every(database, Account)} == {"ada", "bo"}
