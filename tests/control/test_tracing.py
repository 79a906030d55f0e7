"""Traces: a span for each request and each task, nothing where none is configured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import aside
from groundspeed.service import tracing
from groundspeed.service.api.app import create_app
from groundspeed.service.control import tasks, wiring
from groundspeed.service.control.wiring import Parts
from groundspeed.service.db.engine import Database
from groundspeed.service.settings import Settings

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def parts(sqlite_database: Database, tmp_path: Path) -> Iterator[Parts]:
    made = wiring.make(Settings(data_dir=tmp_path / "data", database_url=sqlite_database.url))
    yield made
    made.database.close()


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    kept = InMemorySpanExporter()
    tracing.use(SimpleSpanProcessor(kept), "test")
    yield kept
    tracing.stop()


def test_a_request_is_a_span_below_its_callers(parts: Parts, spans: InMemorySpanExporter) -> None:
    async def ask() -> int:
        transport = httpx.ASGITransport(create_app(parts))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            reply = await client.get("/healthz", headers={"traceparent": PARENT, "x-request-id": "r-1"})
        return reply.status_code

    assert aside.run(ask()) == 200
    [span] = spans.get_finished_spans()
    assert span.name == "GET /healthz"
    assert f"{span.context.trace_id:032x}" == PARENT.split("-")[1]
    assert span.parent is not None
    assert span.attributes is not None
    assert (span.attributes["http.response.status_code"], span.attributes["groundspeed.request"]) == (200, "r-1")


def test_a_task_is_a_span(parts: Parts, spans: InMemorySpanExporter) -> None:
    tasks.bind(parts)
    tasks.analyse_series(series_ids=[])
    assert [span.name for span in spans.get_finished_spans()] == ["groundspeed.control.analyse"]


def test_without_an_endpoint_there_are_none() -> None:
    tracing.configure("", "api")
    with tracing.span("nothing") as made:
        assert made is None
