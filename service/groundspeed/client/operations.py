"""What the client calls: method, path and answer of each operation, as the OpenAPI document has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import BaseModel

from groundspeed.service.wire import client, imports, v1, verdicts, views

Answer = TypeVar("Answer", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Operation(Generic[Answer]):
    """``query`` are the names of parameters that may follow the path; ``body`` the model that is sent."""

    method: str
    path: str
    answer: type[Answer]
    query: tuple[str, ...] = ()
    body: type[BaseModel] | None = None


_PROJECT = "/api/v1/projects/{slug}"
RESULTS = Operation("POST", f"{_PROJECT}/results", imports.Imported, ("name", "format", "commit", "time", "map"))
PROJECTS = Operation("GET", "/api/v1/projects", views.ProjectList)
ADD_PROJECT = Operation("POST", "/api/v1/projects", client.ProjectAdded, body=client.AddProject)
OVERVIEW = Operation("GET", _PROJECT, views.Overview)
BENCHMARKS = Operation("GET", f"{_PROJECT}/benchmarks", views.Grid, ("q", "sort", "cursor", "limit"))
SERIES = Operation("GET", f"{_PROJECT}/series/{{series_id}}", views.Graph, ("from", "to", "points"))
SAMPLES = Operation("GET", f"{_PROJECT}/series/{{series_id}}/samples", views.SampleCloud, ("from", "to"))
COMMIT = Operation("GET", f"{_PROJECT}/commits/{{sha}}", views.RevisionPage)
COMPARE = Operation("GET", f"{_PROJECT}/compare", views.Compare, ("base", "head", "by"))
REGRESSIONS = Operation("GET", f"{_PROJECT}/regressions", views.RegressionList, ("kind", "state", "cursor"))
REGRESSION = Operation("GET", f"{_PROJECT}/regressions/{{regression_id}}", views.RegressionDetail)
TRIAGE = Operation("PATCH", f"{_PROJECT}/regressions/{{regression_id}}", views.RegressionDetail, body=views.Triage)
EXPLAIN = Operation("GET", f"{_PROJECT}/explain", verdicts.PointExplanation, ("series", "commit"))
BISECT = Operation("POST", f"{_PROJECT}/bisections", verdicts.Bisection, body=verdicts.AskForBisection)
BISECTION = Operation("GET", "/api/v1/bisections/{request_id}", verdicts.Bisection)
ASK = Operation("POST", f"{_PROJECT}/requests", client.RequestRef, body=client.AskForWork)
REQUEST = Operation("GET", "/api/v1/requests/{request_id}", views.RequestPage)
CANCEL = Operation("POST", "/api/v1/requests/{request_id}/cancel", v1.Ack)
JOB = Operation("GET", "/api/v1/jobs/{job_id}", views.JobPage)
RUN = Operation("GET", "/api/v1/runs/{run_id}", views.RunPage)
SEARCH = Operation("GET", "/api/v1/search", views.SearchResults, ("q",))
OPERATIONS: tuple[Operation[BaseModel], ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Operation)
)
