"""Tasks of pull requests: deliveries, decisions, answers. Every one may come twice, late, or not at all."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from groundspeed.service.control.named import task
from groundspeed.service.control.steps import Steps
from groundspeed.service.control.wiring import Parts
from groundspeed.service.errors import GroundspeedError
from groundspeed.service.forge.events import read_event
from groundspeed.service.usecases.pulls import deliveries, evaluate, issues, outgoing, perform, progress, reconcile
from groundspeed.service.usecases.pulls.outgoing import Desk
from groundspeed.service.usecases.pulls.topics import DELIVERY, PULL, TELL
from groundspeed.service.usecases.topics import ANSWERED

log = logging.getLogger(__name__)
_bound: list[Parts] = []
_forgot: list[datetime] = []
_FORGET_EVERY = timedelta(minutes=10)


def bind(parts: Parts) -> None:
    """What the tasks of this process work with."""
    _bound[:] = [parts]


@task(DELIVERY)
def delivery(delivery_id: int) -> None:
    deliveries.process(_bound[0].database, delivery_id, read_event, _now())


@task(PULL)
def pull(pull_id: int) -> None:
    if (desk := _bound[0].desk) is not None:
        _evaluate(desk, pull_id)


@task(TELL)
def tell(action_id: int) -> None:
    if (desk := _bound[0].desk) is not None:
        perform.perform(desk, action_id, _now())


@task(ANSWERED)
def answered(request_id: int) -> None:
    progress.of_request(_bound[0].database, request_id, _now())


def tick(parts: Parts, steps: Steps, now: datetime) -> None:
    """What a lost message left undone, and what is due by the clock. Without a forge only deliveries are worked on."""
    db, desk = parts.database, parts.desk
    steps.each(
        "delivery",
        lambda: deliveries.waiting(db, now),
        lambda one: deliveries.process(db, one, read_event, now),
    )
    if not _forgot or now - _forgot[-1] > _FORGET_EVERY:
        _forgot[:] = [now]
        steps.take("forgetting deliveries", lambda: deliveries.forget(db, now))
    if desk is None:
        return
    steps.each("pull request", lambda: evaluate.waiting(db, now), lambda one: _evaluate(desk, one))
    steps.take("progress of pull requests", lambda: progress.look(desk, now))
    steps.take("issues", lambda: issues.look(db, now))
    steps.each("action", lambda: outgoing.waiting(db, now), lambda one: perform.perform(desk, one, _now()))
    every = desk.patience.reconcile_s
    steps.each(
        "repository", lambda: reconcile.waiting(db, now, every), lambda one: reconcile.reconcile(desk, one, _now())
    )


def _evaluate(desk: Desk, pull_id: int) -> None:
    """A fault of the outside (a repository that is away) is said; the tick comes back to it."""
    try:
        evaluate.evaluate(desk, pull_id, _now())
    except GroundspeedError as error:
        log.warning("pull request %s: %s", pull_id, error)


def _now() -> datetime:
    return datetime.now(UTC)
