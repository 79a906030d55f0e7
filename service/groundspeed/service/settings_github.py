"""Settings of the way to and from GitHub; part of :class:`groundspeed.service.settings.Settings`."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

_Seconds = Annotated[float, Field(gt=0)]


class GitHubSettings(BaseSettings):
    """An App (id and private key) or a token; and the secret with which GitHub signs what it sends."""

    github_webhook_secret: SecretStr | None = Field(
        None,
        description="Secret of the webhook; two while it is being changed, separated by a comma. Unset: every webhook "
        "is refused.",
    )
    github_app_id: str = Field("", description="Id of the GitHub App; empty: the token is used.")
    github_private_key: SecretStr | None = Field(
        None, description="The App's private key in PEM; most easily as a file: GROUNDSPEED_GITHUB_PRIVATE_KEY_FILE."
    )
    github_token: SecretStr | None = Field(
        None, description="A token instead of an App: commit statuses and comments are written as its owner."
    )
    github_api_url: str = Field("https://api.github.com", description="GitHub Enterprise Server: https://HOST/api/v3.")
    github_poll_s: _Seconds = Field(300.0, description="How often open pull requests are read, for missed webhooks.")
    github_backoff_s: _Seconds = Field(
        5.0, description="Pause after GitHub did not answer; doubled for each further time, up to two minutes."
    )
    github_progress_s: _Seconds = Field(20.0, description="How often a running check shows its progress.")
    max_webhook_bytes: Annotated[int, Field(gt=0)] = Field(
        25 * 2**20, description="Largest webhook; GitHub sends no larger ones."
    )

    @field_validator("github_api_url")
    @classmethod
    def _is_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"https", "http"} or not parts.hostname:
            raise ValueError("give an address such as https://api.github.com or https://HOST/api/v3")
        return value.rstrip("/")

    @property
    def github_webhook_secrets(self) -> tuple[str, ...]:
        """The secrets that are valid now."""
        text = self.github_webhook_secret.get_secret_value() if self.github_webhook_secret else ""
        return tuple(part.strip() for part in text.split(",") if part.strip())

    @property
    def github_in_use(self) -> bool:
        """Whether there is anything to authenticate to GitHub with."""
        return bool(self.github_app_id and self.github_private_key) or self.github_token is not None
