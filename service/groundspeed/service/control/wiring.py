"""What a process of the service works with: settings, database, mirrors; made once at its start."""

from __future__ import annotations

from dataclasses import dataclass

from groundspeed.service.db.engine import Database
from groundspeed.service.domain.pulls.forge import Forge
from groundspeed.service.errors import ConfigError
from groundspeed.service.repo import Mirrors
from groundspeed.service.settings import Settings
from groundspeed.service.usecases.leases import Policy
from groundspeed.service.usecases.pulls.outgoing import Desk
from groundspeed.service.usecases.pulls.topics import Patience


@dataclass(frozen=True, slots=True)
class Parts:
    settings: Settings
    database: Database
    mirrors: Mirrors
    policy: Policy
    forge: Forge | None = None
    """None: nothing to authenticate to GitHub with is set."""

    @property
    def desk(self) -> Desk | None:
        """What pull requests are answered with."""
        if self.forge is None:
            return None
        settings = self.settings
        patience = Patience(
            settings.github_backoff_s, reconcile_s=settings.github_poll_s, progress_s=settings.github_progress_s
        )
        return Desk(self.database, self.mirrors, self.forge, settings.base_url, patience)


def make(settings: Settings) -> Parts:
    """Wire the parts for these settings; the caller closes ``database``."""
    policy = Policy(settings.lease_s, settings.heartbeat_s, settings.retry_delay_s)
    return Parts(settings, Database(settings.database), mirrors(settings), policy, forge(settings))


def forge(settings: Settings) -> Forge | None:
    """The way to GitHub. Raises ConfigError when the part that speaks to it is not installed, or half is set."""
    if not settings.github_in_use:
        if settings.github_app_id or settings.github_private_key:
            raise ConfigError(
                "Of the GitHub App only one of id and private key is set.",
                "Set both GROUNDSPEED_GITHUB_APP_ID and GROUNDSPEED_GITHUB_PRIVATE_KEY_FILE, or neither.",
            )
        return None
    try:
        from groundspeed.service.forge.github import GitHubAccess, GitHubForge
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"The part that speaks to GitHub is not installed ({error.name}).",
            "Install it: pip install 'groundspeed[github]'",
        ) from None
    key, token = settings.github_private_key, settings.github_token
    access = GitHubAccess(
        settings.github_api_url,
        settings.github_app_id,
        key.get_secret_value() if key and settings.github_app_id else "",
        token.get_secret_value() if token else "",
    )
    try:
        return GitHubForge(access)
    except ValueError as error:
        raise ConfigError(
            f"GROUNDSPEED_GITHUB_PRIVATE_KEY: {error}.", "Name the App's .pem with GROUNDSPEED_GITHUB_PRIVATE_KEY_FILE."
        ) from None


def mirrors(settings: Settings) -> Mirrors:
    """The service's copies of repositories, shared by its processes."""
    credentials = {name: secret.get_secret_value() for name, secret in settings.credentials.items()}
    return Mirrors(settings.data_dir.absolute() / "mirrors", credentials, settings.git_timeout_s)
