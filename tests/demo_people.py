"""People, tokens and channels for tests and pictures of the pages that show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from groundspeed.service.db.engine import Database
from groundspeed.service.usecases import accounts, tokens
from groundspeed.service.usecases.notifications import channels

NOW = datetime(2026, 3, 20, 12, 0, tzinfo=UTC)
SIGN_IN = {
    "oidc_issuer": "https://login.example.org", "oidc_client_id": "groundspeed", "oidc_client_secret": "s",
    "github_oauth_client_id": "Iv1.groundspeed", "github_oauth_client_secret": "s",
}  # fmt: skip
"""Settings with which people can sign in; the provider is not asked before somebody does."""


def add(db: Database, slug: str = "tinygpt", now: datetime = NOW) -> str:
    """An admin, a triager, somebody without a role, tokens of each kind, channels of each kind; the admin's cookie."""
    accounts.sign_in(db, accounts.Identity("github", "3", "stranger"), {"*": "none"}, now, timedelta(days=1))
    bo = accounts.Identity("oidc", "2", "bo", "Bo Lindqvist", "bo@example.org")
    accounts.sign_in(db, bo, {"*": "triager"}, now, timedelta(days=1))
    cookie = add_admin(db, now)
    tokens.create(db, tokens.New("ci", "operator", projects=(slug,), scopes=("results",)), now, "ada")
    tokens.create(db, tokens.New("gpu-01", "worker", node="gpu-01"), now, "ada")
    team = channels.New(
        "performance team", "slack", "https://hooks.example.org/services/T0/B0/x", project=slug,
        events=("regression", "recovered"),
    )  # fmt: skip
    channels.add(db, team, now, "ada")
    letters = channels.New("ops", "email", "ops@example.org, owner", events=("regression",), digest="daily")
    channels.add(db, letters, now, "ada")
    channels.add(db, channels.New("bot", "webhook", "https://bot.example.org/groundspeed", secret="s"), now, "ada")
    return cookie


def add_admin(db: Database, now: datetime = NOW) -> str:
    """Signs the admin in with one more browser, whose cookie holds today, however old ``now`` is."""
    ada = accounts.Identity("oidc", "1", "ada", "Ada Marsh", "ada@example.org")
    return accounts.sign_in(db, ada, {"*": "admin"}, now, datetime.now(UTC) - now + timedelta(days=30))
