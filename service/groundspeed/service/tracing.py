"""OpenTelemetry traces, when an endpoint is configured: one span a request and one a task of the control worker.

Nothing is imported and nothing costs anything where none is. A caller's ``traceparent`` is followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from groundspeed.service.errors import ConfigError

_tracers: list[Any] = []
_providers: list[Any] = []


def configure(endpoint: str, process: str) -> None:
    """Send spans of this process to an OTLP/HTTP endpoint (…/v1/traces); an empty one: to nowhere.

    Raises :class:`ConfigError` when the packages for it are not installed.
    """
    if not endpoint:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            f"GROUNDSPEED_OTLP_ENDPOINT is set, and what sends traces is not installed: {error}.",
            "Install it: pip install 'groundspeed[otel]'; or unset the variable.",
        ) from None
    use(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)), process)


def use(processor: Any, process: str) -> None:
    """Hand spans to this processor of the OpenTelemetry SDK."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider(resource=Resource.create({"service.name": f"groundspeed-{process}"}))
    provider.add_span_processor(processor)
    stop()
    _providers.append(provider)
    _tracers.append(provider.get_tracer("groundspeed"))


def stop() -> None:
    """No more spans; those that wait are sent."""
    _tracers.clear()
    while _providers:
        _providers.pop().shutdown()


@contextmanager
def span(name: str, carrier: Mapping[str, str] | None = None, **facts: str | int) -> Iterator[Any]:
    """A span around the block, a child of the one that ``carrier`` (headers) names; None where nothing is traced."""
    if not _tracers:
        yield None
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent = TraceContextTextMapPropagator().extract(dict(carrier)) if carrier else None
    with _tracers[0].start_as_current_span(name, context=parent, attributes=facts) as made:
        yield made
