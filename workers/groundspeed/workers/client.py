"""The service, over HTTP and the wire models: tried again where that can help, told in words where it cannot."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
from pydantic import ValidationError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, stop_any, wait_random_exponential
from tenacity.stop import stop_when_event_set

from groundspeed.service.wire import v1
from groundspeed.workers.errors import ProtocolMismatch, ServiceRefused, ServiceUnavailable, SettingsInvalid

Reply = TypeVar("Reply", bound=v1.Wire)
_PROTOCOL = {"protocol", "protocol-mismatch"}
_AGAIN = {408, 425, 429}
_SURE = {401, 403, 413, 422, 426}
"""Refusals that count without words of the service's own; any other may be of something between that stands in for it
while it is away, and nothing is given up because of that.
"""


class Client:
    """One connection pool; safe for several threads. ``stop`` ends all waiting at once."""

    def __init__(
        self,
        url: str,
        token: Callable[[], str | None],
        node: str,
        stop: threading.Event,
        tls: ssl.SSLContext | bool = True,
    ) -> None:
        self._read_token = token
        self._token = token()
        self._http = httpx.Client(
            base_url=f"{url.rstrip('/')}/api/v1",
            verify=tls,
            timeout=httpx.Timeout(20.0, connect=5.0),
            follow_redirects=False,
        )
        self._url = url
        self._node = node
        self._stop = stop

    def close(self) -> None:
        self._http.close()

    def register(self, request: v1.RegisterRequest, patience_s: float = 0.0) -> v1.RegisterReply:
        return self._post("/workers/register", request, v1.RegisterReply, patience_s)

    def node_heartbeat(self, beat: v1.NodeHeartbeat) -> v1.NodeHeartbeatReply:
        return self._post(f"/workers/{self._node}/heartbeat", beat, v1.NodeHeartbeatReply, 0.0)

    def claim(self, job_id: int, request: v1.ClaimRequest, patience_s: float = 15.0) -> v1.ClaimReply:
        return self._post(f"/jobs/{job_id}/claim", request, v1.ClaimReply, patience_s)

    def next(self, request: v1.ClaimRequest, patience_s: float = 15.0) -> v1.ClaimReply:
        return self._post(f"/workers/{self._node}/next", request, v1.ClaimReply, patience_s)

    def heartbeat(self, attempt: str, beat: v1.AttemptHeartbeat) -> v1.AttemptHeartbeatReply:
        return self._post(f"/attempts/{attempt}/heartbeat", beat, v1.AttemptHeartbeatReply, 0.0)

    def log(self, attempt: str, batch: v1.LogBatch) -> v1.Ack:
        return self._post(f"/attempts/{attempt}/log", batch, v1.Ack, 2.0)

    def runs(self, attempt: str, batch: v1.RunBatch, patience_s: float = 0.0) -> v1.RunAck:
        return self._post(f"/attempts/{attempt}/runs", batch, v1.RunAck, patience_s)

    def next_pair(self, attempt: str, request: v1.NextPairRequest, patience_s: float = 15.0) -> v1.NextPairReply:
        return self._post(f"/attempts/{attempt}/next-pair", request, v1.NextPairReply, patience_s)

    def finish(self, attempt: str, request: v1.FinishRequest, patience_s: float = 0.0) -> v1.Ack:
        return self._post(f"/attempts/{attempt}/finish", request, v1.Ack, patience_s)

    def put_artefact(self, attempt: str, sha256: str, path: Path) -> v1.Ack:
        with path.open("rb") as file:
            reply = self._send("PUT", f"/attempts/{attempt}/artefacts/{sha256}", content=file.read())
        return self._parse(reply, v1.Ack)

    def _post(self, path: str, message: v1.Wire, reply: type[Reply], patience_s: float) -> Reply:
        """``patience_s``: how long to go on trying while the service is away or ailing; 0: one try."""
        content = message.model_dump_json().encode()
        attempts = Retrying(
            retry=retry_if_exception_type(ServiceUnavailable),
            wait=wait_random_exponential(multiplier=0.2, max=10.0),
            stop=stop_any(stop_after_delay(patience_s), stop_when_event_set(self._stop)),
            sleep=self._sleep,
            reraise=True,
        )
        for attempt in attempts:
            with attempt:
                return self._parse(self._send("POST", path, content=content), reply)
        raise AssertionError  # Retrying always returns or raises

    def _send(self, method: str, path: str, content: bytes) -> httpx.Response:
        reply = self._ask(method, path, content)
        if reply.status_code == 401 and self._token_is_new():
            reply = self._ask(method, path, content)
        if reply.status_code >= 500 or reply.status_code in _AGAIN:
            raise ServiceUnavailable(f"The service at {self._url} answers {reply.status_code} to {path}")
        if reply.status_code >= 300:
            refusal = _refusal(reply, path)
            if refusal.status not in _SURE and not refusal.code:
                raise ServiceUnavailable(
                    f"{self._url} answers {reply.status_code} to {path}, and not as Groundspeed does: is it another "
                    "address, or a proxy that stands in for the service?"
                )
            raise refusal
        return reply

    def _ask(self, method: str, path: str, content: bytes) -> httpx.Response:
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        try:
            return self._http.request(method, path, content=content, headers=headers)
        except httpx.RequestError as error:
            raise ServiceUnavailable(f"The service at {self._url} cannot be reached: {error or type(error)}") from error

    def _token_is_new(self) -> bool:
        """Whether the token has been rotated since it was read last."""
        try:
            token = self._read_token()
        except SettingsInvalid:
            return False
        changed, self._token = token != self._token, token
        return changed

    @staticmethod
    def _parse(reply: httpx.Response, model: type[Reply]) -> Reply:
        try:
            return model.model_validate_json(reply.content)
        except ValidationError as error:
            raise ProtocolMismatch(
                f"The service's answer to {reply.request.url.path} is not understood by this worker ({error}): worker "
                "and service come from releases too far apart; upgrade the older one.",
                status=reply.status_code,
                code="protocol",
            ) from error

    def _sleep(self, seconds: float) -> None:
        self._stop.wait(seconds)


def _refusal(reply: httpx.Response, path: str) -> ServiceRefused:
    problem: dict[str, Any] = {}
    with contextlib.suppress(ValueError):
        found = reply.json()
        problem = found if isinstance(found, dict) else {}
    code = str(problem.get("type", ""))
    if code == "http" and reply.status_code in {404, 405}:  # no such address: that of another service, or release
        code = ""
    words = " ".join(str(problem[k]) for k in ("title", "detail") if problem.get(k)) or reply.text[:500]
    message = f"The service refuses {path} ({reply.status_code}): {words}"
    kind = ProtocolMismatch if reply.status_code == 426 or code in _PROTOCOL else ServiceRefused
    return kind(message, status=reply.status_code, code=code)
