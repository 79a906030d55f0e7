"""The counters of the scheduler: claims, signs of life and ends are taken in many at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

from fastapi import Depends, Request
from prometheus_client import CollectorRegistry
from prometheus_client import Counter as Total

from groundspeed.service.api.counter import Counter
from groundspeed.service.control.wiring import Parts
from groundspeed.service.usecases import claims, ends, signs
from groundspeed.service.wire import v1

GATHER_S = 0.05
"""A sign of life may wait for others to come: it is worth nothing more for being noted sooner."""


class Scheduling:
    """One counter for each kind of message; they are ended with the application."""

    def __init__(self, parts: Parts, registry: CollectorRegistry) -> None:
        self._seconds = Total(
            "groundspeed_scheduler_seconds", "Processor time of scheduling.", ("part",), registry=registry
        )
        self._messages = Total(
            "groundspeed_scheduler_messages", "Messages about scheduling.", ("part",), registry=registry
        )
        self._batches = Total(
            "groundspeed_scheduler_batches", "Batches they were answered in.", ("part",), registry=registry
        )
        database, policy = parts.database, parts.policy
        at = partial(datetime.now, UTC)

        def claimed(asks: Sequence[claims.Ask]) -> Sequence[v1.ClaimReply | Exception]:
            return claims.answer(database, asks, at(), policy)

        def beaten(beats: Sequence[signs.Beat]) -> Sequence[v1.AttemptHeartbeatReply | Exception]:
            return signs.of_attempts(database, beats, at(), policy)

        def lived(beats: Sequence[signs.NodeBeat]) -> Sequence[v1.NodeHeartbeatReply | Exception]:
            return signs.of_nodes(database, beats, at(), policy)

        def ended(given: Sequence[ends.End]) -> Sequence[ends.Ended | Exception]:
            return ends.answer(database, given, at(), policy)

        self.claims = Counter("claim", claimed, self._note)
        self.beats = Counter("heartbeat", beaten, self._note, GATHER_S)
        self.nodes = Counter("node heartbeat", lived, self._note, GATHER_S)
        self.ends = Counter("finish", ended, self._note)

    def close(self) -> None:
        for counter in (self.claims, self.beats, self.nodes, self.ends):
            counter.close()

    def _note(self, part: str, messages: int, seconds: float) -> None:
        self._seconds.labels(part).inc(seconds)
        self._messages.labels(part).inc(messages)
        self._batches.labels(part).inc()


async def _scheduling(request: Request) -> Scheduling:
    found: Scheduling = request.app.state.scheduling
    return found


SchedulingDep = Annotated[Scheduling, Depends(_scheduling)]
