"""Identity providers, through Authlib: where a browser is sent to, and who it is when it comes back."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from groundspeed.service.errors import Forbidden, Unavailable
from groundspeed.service.settings import Settings
from groundspeed.service.usecases.accounts import Identity
from groundspeed.service.usecases.signing_in import Start

log = logging.getLogger(__name__)
_TIMEOUT_S = 10.0
_SIGNATURES = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519")
"""Of id tokens: only those that need a provider's private key. "none" and keys known to both are refused."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Where to send a browser, and what to remember until it is back."""

    url: str
    state: str
    nonce: str
    verifier: str


class Provider:
    """One provider. ``key`` names it in addresses, ``title`` for people."""

    key: str
    title: str

    def __init__(self, client: Any) -> None:
        self._client = client

    async def leave(self, callback: str) -> Gone:
        """Raises :class:`Unavailable` when the provider does not say where its sign-in page is."""
        with _said(self.title):
            await self._prepare()
            made = await self._client.create_authorization_url(callback)
        return Gone(made["url"], made["state"], made.get("nonce") or "", made["code_verifier"])

    async def arrive(self, start: Start, code: str, callback: str) -> Identity:
        """Who it is; raises :class:`Forbidden` when what the provider says does not hold, :class:`Unavailable` when it
        does not answer.
        """
        with _said(self.title):
            await self._prepare()
            token = await self._client.fetch_access_token(
                redirect_uri=callback, code=code, code_verifier=start.verifier
            )
            return await self._identity(token, start.nonce)

    async def _prepare(self) -> None:
        """Before anything is asked of the provider."""

    async def _identity(self, token: Mapping[str, Any], nonce: str) -> Identity:
        raise NotImplementedError


class OpenId(Provider):
    """OpenID Connect by discovery: code flow with PKCE, nonce and a signed id token."""

    key = "oidc"

    def __init__(self, client: Any, settings: Settings) -> None:
        super().__init__(client)
        self.title = settings.oidc_title
        self._issuer = settings.oidc_issuer
        self._groups_claim = settings.oidc_groups_claim

    async def _prepare(self) -> None:
        metadata = await self._client.load_server_metadata()
        if metadata.get("issuer") != self._issuer:
            raise Unavailable(
                f"{self._issuer} calls itself {str(metadata.get('issuer'))[:200]!r}.",
                "Correct GROUNDSPEED_OIDC_ISSUER.",
            )
        offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        metadata["id_token_signing_alg_values_supported"] = [one for one in offered if one in _SIGNATURES] or ["RS256"]

    async def _identity(self, token: Mapping[str, Any], nonce: str) -> Identity:
        expected = {
            "iss": {"essential": True, "value": self._issuer},
            "aud": {"essential": True, "value": self._client.client_id},
            "sub": {"essential": True},
            "nonce": {"essential": True, "value": nonce},
        }
        claims = await self._client.parse_id_token(token, nonce=nonce, claims_options=expected)
        if claims is None:
            raise Forbidden("The provider sent no id token.", "Its client needs the scope openid.")
        email = str(claims.get("email") or "") if claims.get("email_verified") in {True, "true"} else ""
        groups = claims.get(self._groups_claim)
        login = str(claims.get("preferred_username") or email or claims["sub"])
        named = tuple(map(str, groups)) if isinstance(groups, list) else ()
        return Identity(self.key, str(claims["sub"])[:255], login, str(claims.get("name") or ""), email, named)


class GitHub(Provider):
    """GitHub's OAuth: it has no id tokens, so that the account is asked for with the token, which is then dropped."""

    key = "github"
    title = "GitHub"

    def __init__(self, client: Any, *, groups: bool) -> None:
        super().__init__(client)
        self._groups = groups

    async def _identity(self, token: Mapping[str, Any], nonce: str) -> Identity:
        del nonce
        user = await self._get("user", token)
        emails = await self._get("user/emails", token)
        orgs = await self._get("user/orgs", token) if self._groups else []
        email = next((e["email"] for e in emails if e.get("primary") and e.get("verified")), "")
        return Identity(
            self.key,
            str(user["id"]),
            str(user["login"]),
            str(user.get("name") or ""),
            str(email),
            tuple(str(org["login"]) for org in orgs),
        )

    async def _get(self, path: str, token: Mapping[str, Any]) -> Any:
        reply = await self._client.get(path, token=dict(token))
        reply.raise_for_status()
        return reply.json()


def make(settings: Settings) -> dict[str, Provider]:
    """The providers of these settings by their key; none without sign-in."""
    if not settings.sign_in:
        return {}
    import httpx
    from authlib.integrations.starlette_client import OAuth

    registry, made = OAuth(), {}
    transport = {"timeout": _TIMEOUT_S, "verify": httpx.create_ssl_context()}  # made once: it takes a while
    if settings.github_oauth_client_id:
        made["github"] = _github(registry, settings, transport)
    if settings.oidc_issuer:
        secret = settings.oidc_client_secret.get_secret_value()
        client = registry.register(
            "oidc",
            client_id=settings.oidc_client_id,
            client_secret=secret or None,
            server_metadata_url=settings.oidc_issuer.rstrip("/") + "/.well-known/openid-configuration",
            client_kwargs={
                "scope": settings.oidc_scopes,
                "code_challenge_method": "S256",
                "token_endpoint_auth_method": "client_secret_basic" if secret else "none",
                **transport,
            },
        )
        made["oidc"] = OpenId(client, settings)
    return made


def _github(registry: Any, settings: Settings, transport: Mapping[str, Any]) -> Provider:
    url = settings.github_oauth_url.rstrip("/")
    groups = any(key.startswith("group:") for key in settings.roles)
    client = registry.register(
        "github",
        client_id=settings.github_oauth_client_id,
        client_secret=settings.github_oauth_client_secret.get_secret_value(),
        authorize_url=f"{url}/login/oauth/authorize",
        access_token_url=f"{url}/login/oauth/access_token",
        api_base_url="https://api.github.com/" if urlsplit(url).hostname == "github.com" else f"{url}/api/v3/",
        client_kwargs={
            "scope": "read:user user:email read:org" if groups else "read:user user:email",
            "code_challenge_method": "S256",
            "token_endpoint_auth_method": "client_secret_post",
            **transport,
        },
    )
    return GitHub(client, groups=groups)


@contextmanager
def _said(title: str) -> Iterator[None]:
    """What libraries raise, in our words."""
    import httpx
    from authlib.common.errors import AuthlibBaseError
    from joserfc.errors import JoseError

    try:
        yield
    except httpx.HTTPError as error:
        log.warning("%s does not answer: %s", title, error)
        raise Unavailable(f"{title} does not answer.", "Try again in a moment.") from error
    except (AuthlibBaseError, JoseError, KeyError, TypeError, ValueError, RuntimeError) as error:
        log.warning("%s: %s: %s", title, type(error).__name__, error)
        raise Forbidden(f"What {title} says cannot be relied on.", "Begin the sign-in again.") from error
