"""A GitHub that speaks REST over real HTTP for the endpoints that are used: App authentication with a verified JWT,
rate limits, pages, ETags, failures on demand, and every request held against GitHub's own description.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from forge.github_server import openapi, routes
from forge.github_server.model import Pull, Repo, stamp

APP_ID = "4711"
TOKEN = "ghp_owner"
SECRET = "It's a Secret to Everybody"


@lru_cache(maxsize=1)
def key_pair() -> tuple[str, str]:
    """Private and public key of the App, in PEM."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private.decode(), public.decode()


@dataclass
class Trouble:
    """What goes wrong. ``away``: the connection is dropped; ``status``: every answer but those of ``spare`` paths."""

    away: bool = False
    status: int = 0
    retry_after_s: int | None = None
    spare: tuple[str, ...] = ()
    left: int = 10**9
    """How many answers it spoils."""


@dataclass
class Seen:
    method: str
    path: str
    status: int
    at: float
    authorization: str = ""


@dataclass
class FakeGitHub:
    """The state, and what can be done to it by tests. Everything that handlers touch is under ``lock``."""

    repos: dict[str, Repo] = field(default_factory=dict)
    trouble: Trouble = field(default_factory=Trouble)
    limit: int = 5000
    used: int = 0
    seen: list[Seen] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    unvalidated: str = ""
    """Why requests are not held against the description; empty: they are."""
    tokens: dict[str, tuple[int, float]] = field(default_factory=dict)
    token_life_s: float = 3600.0
    permissions: dict[str, str] = field(
        default_factory=lambda: {
            "checks": "write", "contents": "read", "issues": "write", "metadata": "read", "pull_requests": "write",
        }
    )  # fmt: skip
    events: list[str] = field(
        default_factory=lambda: ["check_run", "check_suite", "issue_comment", "pull_request", "push", "repository"]
    )
    app_deliveries: list[dict[str, Any]] = field(default_factory=list)
    hook_url: str = ""
    lock: threading.RLock = field(default_factory=threading.RLock)
    url: str = ""
    now: datetime | None = None
    """By which comments are dated; None: the clock."""
    hides_comments: bool = False
    _ids: int = 1000

    def next_id(self) -> int:
        self._ids += 1
        return self._ids

    def repo(self, full_name: str = "octo/tiny", **more: Any) -> Repo:
        with self.lock:
            if full_name not in self.repos:
                self.repos[full_name] = Repo(id=len(self.repos) + 42, full_name=full_name, **more)
            return self.repos[full_name]

    def count(self, method: str, ending: str) -> int:
        """Requests that were answered well."""
        with self.lock:
            return sum(s.method == method and s.path.endswith(ending) and s.status < 400 for s in self.seen)

    def statuses(self) -> Counter[int]:
        with self.lock:
            return Counter(s.status for s in self.seen)

    # --- webhooks ----------------------------------------------------------------------------------------------------

    def payload(self, repo: Repo, action: str, **more: Any) -> dict[str, Any]:
        found = {"action": action, "repository": repo.describe(), "sender": {"login": "ann", "type": "User"}, **more}
        return found | {"installation": {"id": repo.installation}}

    def pull_event(self, repo: Repo, pull: Pull, action: str, **more: Any) -> dict[str, Any]:
        return self.payload(repo, action, number=pull.number, pull_request=repo.describe_pull(pull), **more)

    def comment_event(self, repo: Repo, pull: Pull, body: str, author: str = "ann") -> dict[str, Any]:
        with self.lock:
            comment = {"id": self.next_id(), "body": body, "user": {"login": author, "type": "User"}}
            comment["author_association"] = "NONE"
            comment |= {"created_at": stamp(self.now), "updated_at": stamp(self.now), "number": pull.number}
            repo.said.append(comment)
            repo.reactions.setdefault(comment["id"], [])
        issue = {"number": pull.number, "pull_request": {"url": "x"}}
        return self.payload(repo, "created", issue=issue, comment=comment)

    def check_event(self, repo: Repo, check: dict[str, Any], identifier: str, sender: str = "ann") -> dict[str, Any]:
        about = {"head_sha": check["head_sha"], "external_id": check["external_id"], "pull_requests": []}
        about["id"] = check["id"]
        event = self.payload(repo, "requested_action", check_run=about, requested_action={"identifier": identifier})
        # In real life the state of the check differs from press to press.
        return event | {"sender": {"login": sender, "type": "User"}, "pressed": self.next_id()}

    # --- what happens to a request -----------------------------------------------------------------------------------

    def answer(self, method: str, target: str, headers: Any, raw: bytes) -> tuple[int, dict[str, str], Any]:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        with self.lock:
            self._validate(method, parts.path, query, raw, headers)
            spoiled = self._spoiled(parts.path)
            if spoiled is not None:
                return spoiled
            who = self._who(parts.path, headers.get("Authorization", ""))
            if who is None:
                return 401, {}, {"message": "Bad credentials"}
            if self.used >= self.limit:
                reset = str(int(time.time()) + 2)
                limits = {
                    "x-ratelimit-limit": str(self.limit),
                    "x-ratelimit-remaining": "0",
                    "x-ratelimit-reset": reset,
                }
                return 403, limits, {"message": "API rate limit exceeded"}
            status, body = routes.dispatch(self, who, method, parts.path, query, json.loads(raw) if raw else {})
            return self._finished(method, parts, headers, status, body)

    def _finished(
        self, method: str, parts: Any, headers: Any, status: int, body: Any
    ) -> tuple[int, dict[str, str], Any]:
        more = {"x-github-request-id": uuid.uuid4().hex}
        if method == "GET" and status == 200:
            tag = f'W/"{hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:40]}"'
            more |= {"etag": tag, "cache-control": "private, max-age=0, s-maxage=0", "vary": "Accept, Authorization"}
            if headers.get("If-None-Match") == tag:
                return 304, more, None
            if isinstance(body, list):
                body, link = routes.paged(body, f"{self.url}{parts.path}", dict(parse_qsl(parts.query)))
                more |= {"link": link} if link else {}
        self.used += 1
        more |= {
            "x-ratelimit-limit": str(self.limit),
            "x-ratelimit-remaining": str(max(0, self.limit - self.used)),
            "x-ratelimit-reset": str(int(time.time()) + 3600),
        }
        return status, more, body

    def _spoiled(self, path: str) -> tuple[int, dict[str, str], Any] | None:
        trouble = self.trouble
        if trouble.left <= 0 or path.endswith(trouble.spare or ("\0",)) or not (trouble.away or trouble.status):
            return None
        trouble.left -= 1
        if trouble.away:
            raise ConnectionAbortedError
        headers = {"retry-after": str(trouble.retry_after_s)} if trouble.retry_after_s is not None else {}
        message = "You have exceeded a secondary rate limit" if headers else "Something went wrong"
        return trouble.status, headers, {"message": message}

    def _validate(self, method: str, path: str, query: dict[str, str], raw: bytes, headers: Any) -> None:
        if headers.get("X-GitHub-Api-Version") is None and "access_tokens" not in path:
            self.violations.append(f"{method} {path} names no API version")
        if self.unvalidated:
            return
        try:
            found = openapi.description()
        except openapi.Missing as missing:
            self.unvalidated = str(missing)
            return
        self.violations += found.violations(method, path, query, json.loads(raw) if raw else None)

    def _who(self, path: str, authorization: str) -> routes.Who | None:
        """The App by its JWT (RS256, fresh, ours), an installation by its token, or the owner of a plain token."""
        if path.startswith("/app-manifests/"):  # the code in the path is the credential
            return routes.Who(app=False)
        scheme, _, secret = authorization.partition(" ")
        if scheme.lower() in {"bearer", "token"} and secret == TOKEN:
            return routes.Who(app=False, login="octo-owner")
        if secret in self.tokens:
            installation, until = self.tokens[secret]
            return routes.Who(app=True, installation=installation) if until > time.time() else None
        try:
            claims = jwt.decode(secret, key_pair()[1], algorithms=["RS256"], issuer=APP_ID, leeway=5)
        except jwt.PyJWTError:
            return None
        if claims["exp"] - claims["iat"] > 600 or claims["iat"] > time.time() + 60:
            return None
        return routes.Who(app=True, jwt=True)

    def grant(self, installation: int) -> dict[str, Any]:
        token = f"ghs_{secrets.token_hex(12)}"
        self.tokens[token] = (installation, time.time() + self.token_life_s)
        expires = datetime.now(UTC) + timedelta(hours=1)
        return {"token": token, "expires_at": stamp(expires), "permissions": self.permissions}

    def revoke_tokens(self) -> None:
        with self.lock:
            self.tokens.clear()


def sign(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def deliver(
    url: str, event: str, payload: Any, *, guid: str = "", secret: str = SECRET, client: httpx.Client | None = None
) -> httpx.Response:
    """Send one webhook to the service at ``url``, as GitHub does."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "GitHub-Hookshot/044aadd",
        "X-GitHub-Delivery": guid or str(uuid.uuid4()),
        "X-GitHub-Event": event,
        "X-Hub-Signature-256": sign(body, secret),
    }
    send = client.post if client is not None else httpx.post
    return send(f"{url}/webhooks/github", content=body, headers=headers, timeout=60)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    github: FakeGitHub

    def _serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            status, headers, body = self.github.answer(self.command, self.path, self.headers, raw)
        except ConnectionAbortedError:
            self.close_connection = True
            self._saw(0)
            return
        except Exception as error:  # noqa: BLE001 - a mistake of the fake, seen by the test
            self.github.violations.append(f"{self.command} {self.path}: the fake failed with {error!r}")
            status, headers, body = 500, {}, {"message": repr(error)}
        data = b"" if body is None else json.dumps(body).encode()
        self._saw(status)  # before the answer goes out: who has it may look at once
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _saw(self, status: int) -> None:
        with self.github.lock:
            path = urlsplit(self.path).path
            said = self.headers.get("Authorization", "")
            self.github.seen.append(Seen(self.command, path, status, time.time(), said))

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815 - the base class's names

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextmanager
def serving(github: FakeGitHub | None = None) -> Iterator[FakeGitHub]:
    """A fake GitHub on a free port; ``url`` is its API's address."""
    fake = github or FakeGitHub()
    with contextlib.suppress(openapi.Missing):
        openapi.description()  # fetched now: a request must not wait for it
    handler: Callable[..., BaseHTTPRequestHandler] = type("Handler", (_Handler,), {"github": fake})
    server = _Server(("127.0.0.1", 0), handler)
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)
