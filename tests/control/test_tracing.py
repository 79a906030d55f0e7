"""Traces: a span for each request and each task, nothing where none is configured."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
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


class Collector(ThreadingHTTPServer):
    """Takes what the exporter sends over OTLP/HTTP, as a collector does; ``seen`` is (process, name, attributes)."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Collecting)
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.headers: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1/traces"


class Collecting(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.headers.append(f"{self.path} {self.headers['Content-Type']}")
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            process = next(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
            for span in (span for scope in resource.scope_spans for span in scope.spans):
                facts = {fact.key: fact.value.string_value for fact in span.attributes}
                self.server.seen.append((process, span.name, facts))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    tracing.stop()
    server.shutdown()
    server.server_close()
    thread.join()


def test_spans_reach_a_collector_before_the_process_ends(collector: Collector) -> None:
    tracing.configure(collector.url, "api")
    with tracing.span("GET /readyz", **{"groundspeed.request": "r-7"}):
        pass
    tracing.stop()
    assert collector.seen == [("groundspeed-api", "GET /readyz", {"groundspeed.request": "r-7"})]
    assert collector.headers == ["/v1/traces application/x-protobuf"]


def test_without_an_endpoint_there_are_none() -> None:
    tracing.configure("", "api")
    with tracing.span("nothing") as made:
        assert made is None
