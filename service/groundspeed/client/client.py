"""The client: one method for each operation, tried again when the service or the network is away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from time import sleep
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from groundspeed.client import operations as o
from groundspeed.service.errors import Invalid, NotFound, Unavailable
from groundspeed.service.wire import client, imports, v1, verdicts, views

ATTEMPTS = 4
TIMEOUT_S = 60.0
_AWAY = {429, 502, 503, 504}
"""The service, or what stands before it, asks to come again."""
_ONCE = {"POST", "PATCH"}
"""Not repeated once it may have arrived, unless the operation adds nothing the second time."""
_REPEATABLE = {o.RESULTS.path, o.ADD_PROJECT.path}


class Client:
    """``url`` is the service's address, ``token`` a bearer token of the role that the calls need.

    Raises :class:`NotFound` or :class:`Invalid` with what the service said, :class:`Unavailable` when it stays away.
    """

    def __init__(
        self, url: str, *, token: str = "", timeout_s: float = TIMEOUT_S, transport: httpx.BaseTransport | None = None
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise Invalid(f"{url or 'Nothing'} is no address of a service.", "Write it as https://perf.example.org.")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(base_url=url.rstrip("/"), headers=headers, timeout=timeout_s, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def report(
        self,
        project: str,
        body: bytes,
        *,
        name: str,
        form: str = "",
        commit: str = "",
        time: datetime | None = None,
        mapping: Sequence[str] = (),
    ) -> imports.Imported:
        """Send a file of results of any known format; the same again adds nothing. ``form`` empty: found by content.

        ``mapping`` says what the columns of a table are: ``benchmark=test``, ``metric=latency_ms:ms:lower`` …
        """
        moment = time.isoformat() if time else ""
        query: dict[str, str | list[str]] = {"name": name, "format": form, "commit": commit, "time": moment}
        query["map"] = list(mapping)
        return self._call(o.RESULTS, query, body, slug=project)

    def projects(self) -> views.ProjectList:
        return self._call(o.PROJECTS)

    def add_project(self, message: client.AddProject) -> client.ProjectAdded:
        return self._call(o.ADD_PROJECT, body=message)

    def overview(self, project: str) -> views.Overview:
        return self._call(o.OVERVIEW, slug=project)

    def benchmarks(self, project: str, q: str = "", *, cursor: str = "") -> views.Grid:
        """Series that the search text ``q`` finds, a page at a time."""
        return self._call(o.BENCHMARKS, {"q": q, "cursor": cursor}, slug=project)

    def series(self, project: str, series_id: int, *, points: int | None = None) -> views.Graph:
        return self._call(o.SERIES, {"points": str(points or "")}, slug=project, series_id=series_id)

    def samples(self, project: str, series_id: int) -> views.SampleCloud:
        return self._call(o.SAMPLES, slug=project, series_id=series_id)

    def commit(self, project: str, sha: str) -> views.RevisionPage:
        return self._call(o.COMMIT, slug=project, sha=sha)

    def compare(
        self, project: str, base: str, head: str, by: Literal["revision", "environment", "node", "run"] = "revision"
    ) -> views.Compare:
        return self._call(o.COMPARE, {"base": base, "head": head, "by": by}, slug=project)

    def regressions(
        self, project: str, *, kind: str = "regression", state: str = "open", cursor: str = ""
    ) -> views.RegressionList:
        return self._call(o.REGRESSIONS, {"kind": kind, "state": state, "cursor": cursor}, slug=project)

    def regression(self, project: str, regression_id: int) -> views.RegressionDetail:
        return self._call(o.REGRESSION, slug=project, regression_id=regression_id)

    def triage(self, project: str, regression_id: int, message: views.Triage) -> views.RegressionDetail:
        return self._call(o.TRIAGE, body=message, slug=project, regression_id=regression_id)

    def explain(self, project: str, series: str, commit: str) -> verdicts.PointExplanation:
        return self._call(o.EXPLAIN, {"series": series, "commit": commit}, slug=project)

    def bisect(self, project: str, message: verdicts.AskForBisection) -> verdicts.Bisection:
        return self._call(o.BISECT, body=message, slug=project)

    def bisection(self, request_id: int) -> verdicts.Bisection:
        return self._call(o.BISECTION, request_id=request_id)

    def ask(self, project: str, message: client.AskForWork) -> client.RequestRef:
        """Have commits measured."""
        return self._call(o.ASK, body=message, slug=project)

    def request(self, request_id: int) -> views.RequestPage:
        return self._call(o.REQUEST, request_id=request_id)

    def cancel(self, request_id: int) -> v1.Ack:
        return self._call(o.CANCEL, request_id=request_id)

    def job(self, job_id: int) -> views.JobPage:
        return self._call(o.JOB, job_id=job_id)

    def run(self, run_id: int) -> views.RunPage:
        return self._call(o.RUN, run_id=run_id)

    def search(self, q: str) -> views.SearchResults:
        return self._call(o.SEARCH, {"q": q})

    def _call(
        self,
        operation: o.Operation[o.Answer],
        query: Mapping[str, str | list[str]] | None = None,
        body: bytes | BaseModel | None = None,
        **parts: str | int,
    ) -> o.Answer:
        quoted = {name: quote(str(part), safe="") for name, part in parts.items()}
        path = operation.path.format(**quoted)
        content = body.model_dump_json(exclude_none=True).encode() if isinstance(body, BaseModel) else body
        headers = {"Content-Type": "application/json"} if isinstance(body, BaseModel) else {}
        asked = {k: v for k, v in (query or {}).items() if v}
        once = operation.method in _ONCE and operation.path not in _REPEATABLE
        reply = self._send(self._http.build_request(
            operation.method, path, params=asked, content=content, headers=headers
        ), once=once)  # fmt: skip
        try:
            return operation.answer.model_validate_json(reply.content)
        except ValidationError as error:
            advice = "Is it a Groundspeed of another version?"
            raise Invalid(
                f"The service at {self._http.base_url} gave an answer that is not understood.", advice
            ) from error

    def _send(self, request: httpx.Request, *, once: bool) -> httpx.Response:
        trouble = ""
        for attempt in range(ATTEMPTS):
            try:
                reply = self._http.send(request)
            except httpx.TransportError as error:
                trouble = str(error) or type(error).__name__
                if once and not isinstance(error, httpx.ConnectError):
                    break
            else:
                if reply.status_code < 400:
                    return reply
                if reply.status_code not in _AWAY:
                    raise _refusal(reply)
                trouble = f"it answers {reply.status_code}"
            if attempt + 1 < ATTEMPTS:
                sleep(2.0**attempt)
        raise Unavailable(
            f"The service at {self._http.base_url} cannot be reached: {trouble.rstrip('.')}.",
            "Is it there, and is the address right?",
        )


def _refusal(reply: httpx.Response) -> Invalid | NotFound:
    try:
        problem: Any = reply.json()
    except ValueError:
        problem = {"title": reply.text[:300]}
    if not isinstance(problem, dict):
        problem = {"title": str(problem)[:300]}
    title = f"The service refused ({reply.status_code}): {problem.get('title', '')}"
    kind = NotFound if reply.status_code == 404 else Invalid
    return kind(title, str(problem.get("detail", "")))
