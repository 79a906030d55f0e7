"""Tasks of the control queue: a few lines each over a use case. Every one may come twice, late, or not at all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from groundspeed.service.control import pulls, telling, webhook
from groundspeed.service.control.app import TICK
from groundspeed.service.control.named import task
from groundspeed.service.control.relay import send_left_behind
from groundspeed.service.control.wiring import Parts
from groundspeed.service.errors import GroundspeedError
from groundspeed.service.usecases import (
    analyse,
    environment_changes,
    followup,
    jobs,
    leases,
    outbox,
    planning,
    renaming,
    retention,
    silence,
    watch,
)
from groundspeed.service.usecases.campaigns import hooks
from groundspeed.service.usecases.campaigns import step as campaign_step

log = logging.getLogger(__name__)
_bound: list[Parts] = []


def bind(parts: Parts) -> None:
    """What the tasks of this process work with."""
    _bound[:] = [parts]
    pulls.bind(parts)


def _parts() -> Parts:
    return _bound[0]


@task("groundspeed.control.analyse")
def analyse_series(series_ids: list[int]) -> None:
    analyse.analyse(_parts().database, series_ids, _now(), only_marked=True)


@task("groundspeed.control.plan")
def plan(request_id: int) -> None:
    parts = _parts()
    _said(lambda: planning.plan_request(
        parts.database, parts.mirrors, request_id, _now(), _limits(parts)
    ), f"request {request_id}")  # fmt: skip
    renaming.carry_over(parts.database, request_id, _now())


def _limits(parts: Parts) -> planning.Limits:
    return planning.Limits(parts.settings.max_attempts, parts.settings.batch_over)


@task("groundspeed.control.followup")
def follow_up(project_id: int) -> None:
    followup.plan_followups(_parts().database, project_id, _now())


@task("groundspeed.control.watch")
def watch_project(project_id: int) -> None:
    parts = _parts()
    _said(lambda: watch.poll(parts.database, parts.mirrors, project_id, _now()), f"project {project_id}")


@task("groundspeed.control.tell")
def tell() -> None:
    telling.tell(_parts())


@task("groundspeed.control.campaign_hook")
def campaign_hook(part_id: int) -> None:
    """In a thread of its own: upgrading a node may take longer than the next tick can wait."""
    threading.Thread(target=_hook, args=(_parts(), part_id), name=f"hook {part_id}", daemon=True).start()


def _hook(parts: Parts, part_id: int) -> None:
    settings = parts.settings
    post = partial(webhook.post, limit_s=settings.campaign_hook_s)
    hooks.run(parts.database, part_id, settings.campaign_hooks, post, _now(), settings.campaign_hook_s)


@task(TICK)
def tick() -> None:
    """Whatever a lost message left undone is found here, and what is due by the clock begins."""
    parts, now = _parts(), _now()
    leases.expire(parts.database, now, parts.policy)
    analyse.analyse_dirty(parts.database, now)
    for request_id in watch.pending(parts.database, now):
        plan(request_id)
    for project_id in watch.due(parts.database, now):
        watch_project(project_id)
    for project_id in followup.waiting(parts.database, now):
        follow_up(project_id)
    environment_changes.plan(parts.database, now)
    campaign_step.tick(parts.database, now, parts.settings.node_silent_s)
    hooks.forgotten(parts.database, now, parts.settings.campaign_hook_s)
    jobs.announce_forgotten(parts.database, now, parts.settings.hint_after_s)
    outbox.forget_sent(parts.database, now)
    silence.look(
        parts.database, silence.limits_of(parts.settings.node_silent_s, parts.settings.series_silent_days), now
    )
    keep = retention.policy_of(parts.settings.keep_samples_days, parts.settings.keep_logs_days)
    retention.thin(parts.database, keep, now, steps=2)
    pulls.tick(parts, now)
    telling.tick(parts, now)
    send_left_behind(parts.database)


def _said(work: Callable[[], object], what: str) -> None:
    """A fault of the outside (a repository that is away) is said; the tick comes back to it."""
    try:
        work()
    except GroundspeedError as error:
        log.warning("%s: %s", what, error)


def _now() -> datetime:
    return datetime.now(UTC)
