"""Metrics for Prometheus: the work, read from the database when asked for, so that every process tells the same; and
the requests that this process has answered.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from datetime import UTC, datetime

from fastapi import Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from groundspeed.service.control.wiring import Parts
from groundspeed.service.usecases.pulse import Pulse, pulse

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Answered:
    """The requests of one process: how many, how long, how they ended."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "groundspeed_request_seconds",
            "Time that requests took, by route and status class.",
            ("method", "route", "status"),
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """``route`` is the pattern and never the path: labels must stay few."""
        self._seconds.labels(method, route, f"{status // 100}xx").observe(seconds)


def allowed(request: Request, parts: Parts) -> bool:
    """Whether this scrape may read: a token when one is set, else whoever reaches a loopback service."""
    token = parts.settings.metrics_token
    if token is None:
        return True
    given = request.headers.get("authorization", "")
    return hmac.compare_digest(given.encode(), f"Bearer {token.get_secret_value()}".encode())


def render(parts: Parts, answered: Answered) -> tuple[bytes, str]:
    registry = CollectorRegistry()
    settings = parts.settings
    seen = pulse(parts.database, datetime.now(UTC), settings.node_silent_s, settings.series_silent_days)
    registry.register(_Collector(seen))
    return generate_latest(registry) + generate_latest(answered.registry), CONTENT_TYPE_LATEST


class _Collector:
    def __init__(self, seen: Pulse) -> None:
        self._seen = seen

    def collect(self) -> Iterable[Metric]:
        seen = self._seen
        yield _labelled("groundspeed_jobs", "Jobs by state.", "state", seen.jobs)
        yield _labelled("groundspeed_nodes", "Nodes by state.", "state", seen.nodes)
        yield _labelled("groundspeed_recent_runs", "Benchmark processes of the last hour.", "outcome", seen.runs)
        yield _labelled("groundspeed_recent_attempts", "Attempts ended in the last hour.", "state", seen.attempts)
        yield _labelled("groundspeed_waiting_jobs", "Jobs that wait.", "pool", seen.waiting)
        yield _labelled("groundspeed_slots", "Jobs that active nodes can run at a time.", "pool", seen.slots)
        silent = seen.silence
        yield _labelled("groundspeed_silent_pools", "Seconds since a silent pool was heard.", "pool", silent.pools)
        yield _labelled("groundspeed_silent_series", "Series gone silent.", "project", silent.series)
        yield _labelled("groundspeed_deliveries", "Webhooks by what became of them.", "state", seen.deliveries)
        yield _plain("groundspeed_untold_answers", "Answers that a forge is still to be told.", seen.untold)
        yield _plain("groundspeed_silent_nodes", "Nodes without a recent sign of life.", seen.silent_nodes)
        yield _plain("groundspeed_oldest_queued_seconds", "Age of the longest waiting job.", seen.oldest_queued_s)
        yield _plain("groundspeed_unsent_messages", "Messages that wait in the outbox.", seen.unsent_messages)
        yield _plain("groundspeed_unanalysed_series", "Series with results not looked at.", seen.unanalysed_series)


def _labelled(name: str, text: str, label: str, values: dict[str, int] | dict[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


def _plain(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)
