"""Metrics for Prometheus: read from the database when they are asked for, so that every process tells the same."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from datetime import UTC, datetime

from fastapi import Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from groundspeed.service.control.wiring import Parts
from groundspeed.service.usecases.pulse import Pulse, pulse


def allowed(request: Request, parts: Parts) -> bool:
    """Whether this scrape may read: a token when one is set, else whoever reaches a loopback service."""
    token = parts.settings.metrics_token
    if token is None:
        return True
    given = request.headers.get("authorization", "")
    return hmac.compare_digest(given.encode(), f"Bearer {token.get_secret_value()}".encode())


def render(parts: Parts) -> tuple[bytes, str]:
    registry = CollectorRegistry()
    registry.register(_Collector(pulse(parts.database, datetime.now(UTC), parts.settings.node_silent_s)))
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Collector:
    def __init__(self, seen: Pulse) -> None:
        self._seen = seen

    def collect(self) -> Iterable[Metric]:
        seen = self._seen
        yield _labelled("groundspeed_jobs", "Jobs by state.", "state", seen.jobs)
        yield _labelled("groundspeed_nodes", "Nodes by state.", "state", seen.nodes)
        yield _labelled("groundspeed_runs", "Benchmark processes by outcome.", "outcome", seen.runs)
        yield _plain("groundspeed_silent_nodes", "Nodes without a recent sign of life.", seen.silent_nodes)
        yield _plain("groundspeed_oldest_queued_seconds", "Age of the longest waiting job.", seen.oldest_queued_s)
        yield _plain("groundspeed_unsent_messages", "Messages that wait in the outbox.", seen.unsent_messages)
        yield _plain("groundspeed_unanalysed_series", "Series with results not looked at.", seen.unanalysed_series)


def _labelled(name: str, text: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def _plain(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
