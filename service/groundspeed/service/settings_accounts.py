"""Settings of who may do what: reading, sign-in, roles; part of :class:`groundspeed.service.settings.Settings`."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

Role = Literal["none", "viewer", "triager", "operator", "admin"]
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", ""})


class AccountSettings(BaseSettings):
    """Reading open or closed, how people sign in, and which role they get by what their provider says of them."""

    read_access: Literal["closed", "open"] = Field(
        "closed", description="open: whoever reaches the service reads; closed: reading needs an account or a token."
    )
    github_oauth_client_id: str = Field("", description="Sign-in with GitHub: client id of the OAuth or GitHub App.")
    github_oauth_client_secret: SecretStr = Field(SecretStr(""), description="Its client secret.")
    github_oauth_url: str = Field("https://github.com", description="Another address for GitHub Enterprise Server.")
    oidc_issuer: str = Field("", description="Sign-in with OpenID Connect: the provider's issuer, an https address.")
    oidc_client_id: str = Field("", description="Client id at the provider.")
    oidc_client_secret: SecretStr = Field(SecretStr(""), description="Client secret; empty for a public client.")
    oidc_title: str = Field("Single sign-on", description="What the provider is called on the sign-in page.")
    oidc_scopes: str = Field("openid profile email", description="Scopes that are asked for, separated by spaces.")
    oidc_groups_claim: str = Field("groups", description="Claim of the id token that lists groups, for roles.")
    roles: dict[str, Role] = Field(
        default_factory=dict,
        description='Roles by what a provider says, a JSON object: {"github:octocat": "admin", "group:perf": '
        '"operator", "@example.org": "viewer", "*": "viewer"}. The highest that fits is given at each sign-in.',
    )
    sign_in_days: Annotated[float, Field(gt=0, le=366)] = Field(
        14.0, description="A sign-in lasts for so many days, then it is asked for again."
    )
    sign_in_per_minute: Annotated[int, Field(ge=1)] = Field(
        20, description="Sign-ins that one address may begin in a minute."
    )

    @field_validator("github_oauth_url", "oidc_issuer")
    @classmethod
    def _address(cls, value: str) -> str:
        url = urlsplit(value)
        if value and url.scheme != "https" and not (url.scheme == "http" and url.hostname in _LOOPBACK):
            raise ValueError("give an address that starts with https://")
        return value

    @field_validator("roles")
    @classmethod
    def _keys(cls, value: dict[str, Any]) -> dict[str, Any]:
        for key in value:
            kind, colon, rest = key.partition(":")
            named = colon and rest and kind in {"github", "github-id", "oidc", "group"}
            if not (key == "*" or (key.startswith("@") and "." in key) or named):
                raise ValueError(
                    f"{key!r} is none of github:LOGIN, github-id:NUMBER, oidc:EMAIL, group:NAME, @DOMAIN, *"
                )
        return value

    @property
    def sign_in(self) -> bool:
        """Whether people can sign in at all."""
        return bool(self.github_oauth_client_id or self.oidc_issuer)
