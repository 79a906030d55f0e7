"""Identity providers for tests: a real OpenID Connect provider and GitHub's sign-in, each a server on a free port.

The provider speaks the protocol as its specification says: discovery, authorisation code with PKCE, single-use codes
bound to client and address, id tokens signed with its own key. ``lie`` makes it break one rule at a time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Form, Header, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "groundspeed-client", "a client secret: with / and +"


@lru_cache
def key_of(name: str) -> RSAKey:
    return RSAKey.generate_key(2048, parameters={"kid": name})


@dataclass
class Person:
    subject: str = "u-1001"
    login: str = "ada"
    name: str = "Ada Marsh"
    email: str = "ada@example.org"
    verified: bool = True
    groups: tuple[str, ...] = ()


@dataclass
class OidcProvider:
    """The person that signs in next, and what the provider does wrong (see ``_lied``)."""

    issuer: str = ""
    person: Person = field(default_factory=Person)
    lie: str = ""
    public: bool = False
    key: RSAKey = field(default_factory=lambda: key_of("k1"))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)
    """Queries of the authorisation page."""

    def app(self) -> FastAPI:
        app = FastAPI()
        app.get("/.well-known/openid-configuration")(self.discovery)
        app.get("/authorize")(self.authorize)
        app.post("/token")(self.token)
        app.get("/jwks")(self.jwks)
        app.state.db = _Nothing()
        return app

    def discovery(self) -> dict[str, Any]:
        return {
            "issuer": "https://other.example" if self.lie == "issuer of the discovery" else self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "HS256", "none"],
            "code_challenge_methods_supported": ["S256"],
        }

    def jwks(self) -> dict[str, Any]:
        return {"keys": [self.key.as_dict(private=False)]}

    def authorize(self, request: Request) -> Response:
        """Whoever comes has signed in already and agrees."""
        query = dict(request.query_params)
        self.asked.append(query)
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT
        assert "openid" in query["scope"].split()
        assert query["code_challenge_method"] == "S256"
        assert len(query["state"]) >= 20
        assert len(query["nonce"]) >= 16
        back = query["redirect_uri"]
        if self.lie == "denies":
            return RedirectResponse(back + "?" + urlencode({"error": "access_denied", "state": query["state"]}), 302)
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.issuer}
        if self.lie == "iss of the answer":
            answer["iss"] = "https://other.example"
        return RedirectResponse(back + "?" + urlencode(answer), 302)

    def token(
        self,
        code: str = Form(),
        redirect_uri: str = Form(),
        code_verifier: str = Form(),
        grant_type: str = Form(),
        client_id: str = Form(""),
        authorization: str = Header(""),
    ) -> Response:
        began = self.codes.pop(code, None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(code_verifier.encode()).digest()).rstrip(b"=").decode()
        basic = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        known = client_id == CLIENT and not authorization if self.public else authorization == basic
        good = began and grant_type == "authorization_code" and began["redirect_uri"] == redirect_uri and known
        if began is None or not good or challenge != began["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if self.lie == "fails":
            return Response("out of order", 500)
        token: dict[str, Any] = {"access_token": secrets.token_urlsafe(16), "token_type": "Bearer", "expires_in": 60}
        if self.lie != "no id token":
            token["id_token"] = self._id_token(began["nonce"])
        return JSONResponse(token)

    def _id_token(self, nonce: str) -> str:
        now, who = int(time.time()), self.person
        claims: dict[str, Any] = {
            "iss": self.issuer, "sub": who.subject, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": nonce,
            "preferred_username": who.login, "name": who.name, "email": who.email, "email_verified": who.verified,
            "groups": list(who.groups),
        }  # fmt: skip
        claims |= {
            "other issuer": {"iss": "https://other.example"},
            "other audience": {"aud": "somebody-else"},
            "other nonce": {"nonce": "of another sign-in"},
            "expired": {"iat": now - 7200, "exp": now - 3600},
        }.get(self.lie, {})
        for name in {"no nonce": ("nonce",), "no subject": ("sub",), "no expiry": ("exp",)}.get(self.lie, ()):
            del claims[name]
        header, key = {"alg": "RS256", "kid": str(self.key.kid)}, self.key
        if self.lie == "other key":
            key = RSAKey.import_key({**key_of("k2").as_dict(private=True), "kid": "k1"})
        if self.lie == "new key":  # it has changed its key since the service last looked, as providers do
            self.key = key = key_of("k2")
            header["kid"] = "k2"
        if self.lie == "unsigned":
            return f"{_part({'alg': 'none'})}.{_part(claims)}."
        if self.lie == "signed with what everybody knows":  # the public key taken as a shared secret
            head = f"{_part({'alg': 'HS256', 'kid': 'k1'})}.{_part(claims)}"
            mac = hmac.digest(self.key.as_pem(private=False), head.encode(), "sha256")
            return f"{head}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"
        return jwt.encode(header, claims, key)


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@dataclass
class GitHubSignIn:
    """GitHub Enterprise's sign-in pages and the three routes of its API that tell who somebody is."""

    login: str = "octocat"
    id: int = 583231
    orgs: tuple[str, ...] = ("acme",)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    scope: str = ""

    def app(self) -> FastAPI:
        app = FastAPI()
        app.get("/login/oauth/authorize")(self.authorize)
        app.post("/login/oauth/access_token")(self.token)
        app.get("/api/v3/user")(self.user)
        app.get("/api/v3/user/emails")(self.emails)
        app.get("/api/v3/user/orgs")(self.organisations)
        app.state.db = _Nothing()
        return app

    def authorize(self, request: Request) -> Response:
        query = dict(request.query_params)
        self.scope = query["scope"]
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        return RedirectResponse(query["redirect_uri"] + "?" + urlencode({"code": code, "state": query["state"]}), 302)

    def token(
        self, code: str = Form(), client_id: str = Form(), client_secret: str = Form(), code_verifier: str = Form()
    ) -> Response:
        began = self.codes.pop(code, None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(code_verifier.encode()).digest()).rstrip(b"=").decode()
        if began is None or (client_id, client_secret) != (CLIENT, SECRET) or challenge != began["code_challenge"]:
            return JSONResponse({"error": "bad_verification_code"})  # GitHub says so with status 200
        token = secrets.token_urlsafe(16)
        self.tokens.add(token)
        return JSONResponse({"access_token": token, "token_type": "bearer", "scope": self.scope})

    def user(self, authorization: str = Header("")) -> Response:
        return self._of(authorization, {"login": self.login, "id": self.id, "name": None})

    def emails(self, authorization: str = Header("")) -> Response:
        old = {"email": "old@example.com", "primary": False, "verified": True}
        return self._of(authorization, [old, {"email": "octo@example.org", "primary": True, "verified": True}])

    def organisations(self, authorization: str = Header("")) -> Response:
        return self._of(authorization, [{"login": name} for name in self.orgs])

    def _of(self, authorization: str, answer: Any) -> Response:
        known = authorization.removeprefix("Bearer ") in self.tokens
        return JSONResponse(answer if known else {"message": "Bad credentials"}, 200 if known else 401)


class _Nothing:
    """What the helper that serves applications closes at the end."""

    def close(self) -> None: ...
