"""The API's description: OpenAPI with an example of every message that people and programs send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI

from groundspeed.service.wire import views as v

EXAMPLES: dict[str, dict[str, Any]] = {
    "POST /api/v1/projects": {"repo_url": "https://github.com/acme/tinygpt", "branch": "main"},
    "POST /api/v1/projects/{slug}/requests": {"range": "v1.2..main", "suites": ["train"], "key": "nightly-2026-05-01"},
    "POST /api/v1/projects/{slug}/bisections": {"series": "train/step_time", "good": "v1.2", "bad": "main"},
    "POST /api/v1/jobs/{job_id}/priority": {"priority": 10},
    "POST /api/v1/nodes/{node}/state": {"state": "draining", "reason": "a new driver"},
    "POST /api/v1/tokens": {"name": "ci", "role": "operator", "scopes": ["results"], "projects": [], "days": 90},
    "PATCH /api/v1/accounts/{account_id}": {"role": "triager"},
    "POST /api/v1/channels": {
        "name": "performance team", "kind": "slack", "target": "https://hooks.slack.com/services/T0/B0/x",
        "events": ["regression", "recovered"], "digest": "daily",
    },
    "POST /api/v1/channels/{channel_id}": {"action": "test"},
    "PATCH /api/v1/projects/{slug}/regressions/{regression_id}": {
        "state": "acknowledged", "assignee": "ada", "note": "The mask is built twice", "ignore_until": "2099-05-31",
    },
    "POST /api/v1/projects/{slug}/regressions/{regression_id}/merge": {"regressions": [15, 16]},
    "POST /api/v1/projects/{slug}/regressions/{regression_id}/split": {"changes": [31]},
    "POST /api/v1/projects/{slug}/regressions": {"regressions": [12, 15], "action": "assign", "assignee": "ada"},
    "POST /api/v1/campaigns": {"name": "driver-580", "project": "tinygpt", "wanted": {"gpu.driver": "580.65"}},
    "POST /api/v1/events": {"title": "Moved to the new racks", "project": "tinygpt"},
    "POST /api/v1/campaigns/{name}/decide": {"action": "approve", "why": "the canary is faster"},
}  # fmt: skip
"""By method and path. A test sends each of them and another finds operations that have none."""


def describe(app: FastAPI) -> None:
    """Put the examples into the application's OpenAPI document."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = plain()
            for key, operation in operations(document):
                if key in EXAMPLES:
                    operation["requestBody"]["content"]["application/json"]["example"] = EXAMPLES[key]
        return app.openapi_schema or {}

    app.openapi = described  # type: ignore[method-assign]


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """("METHOD path", operation) of an OpenAPI document."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def _what(operation: dict[str, Any]) -> str:
    """The summary; where that is only the function's name, how its description begins."""
    summary: str = operation.get("summary", "")
    named = str(operation.get("operationId", "")).startswith(summary.lower().replace(" ", "_"))
    first = str(operation.get("description", "")).strip().split("\n\n")[0]
    return " ".join(first.split()) if named and first else summary


def page(app: FastAPI) -> v.ApiPage:
    """The description as a page."""
    rows = [
        v.ApiOperation(
            method=key.partition(" ")[0],
            path=key.partition(" ")[2],
            tag=(operation.get("tags") or ["other"])[-1],
            summary=_what(operation),
            parameters=tuple(
                v.ApiParameter(
                    name=one["name"],
                    place=one["in"],
                    required=bool(one.get("required")),
                    text=one.get("description", ""),
                )
                for one in operation.get("parameters", ())
            ),
            example=json.dumps(EXAMPLES[key], indent=1, ensure_ascii=False) if key in EXAMPLES else "",
        )
        for key, operation in operations(app.openapi())
    ]
    return v.ApiPage(operations=tuple(sorted(rows, key=lambda row: (row.tag, row.path, row.method))))
