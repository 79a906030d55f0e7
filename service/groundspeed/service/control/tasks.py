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
from groundspeed.service.control.steps import Steps
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
    topics,
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


@task(topics.ANALYSE)
def analyse_series(series_ids: list[int]) -> None:
    analyse.analyse(_parts().database, series_ids, _now(), only_marked=True)


@task(topics.PLAN)
def plan(request_id: int) -> None:
    parts = _parts()
    _said(lambda: planning.plan_request(
        parts.database, parts.mirrors, request_id, _now(), _limits(parts)
    ), f"request {request_id}")  # fmt: skip
    renaming.carry_over(parts.database, request_id, _now())


def _limits(parts: Parts) -> planning.Limits:
    return planning.Limits(parts.settings.max_attempts, parts.settings.batch_over)


@task(topics.FOLLOW_UP)
def follow_up(project_id: int) -> None:
    followup.plan_followups(_parts().database, project_id, _now())


@task(topics.WATCH)
def watch_project(project_id: int) -> None:
    parts = _parts()
    _said(lambda: watch.poll(parts.database, parts.mirrors, project_id, _now()), f"project {project_id}")


@task(topics.NOTIFY)
def tell() -> None:
    telling.tell(_parts())


@task(topics.CAMPAIGN_HOOK)
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
    db, settings = parts.database, parts.settings
    steps = Steps(db)
    steps.take("expiring leases", lambda: leases.expire(db, now, parts.policy))
    steps.take("analysing", lambda: analyse.analyse_dirty(db, now))
    steps.each("request", lambda: watch.pending(db, now), plan)
    steps.each("project", lambda: watch.due(db, now), watch_project)
    steps.each("following up project", lambda: followup.waiting(db, now), follow_up)
    steps.take("changes of environments", lambda: environment_changes.plan(db, now))
    steps.take("campaigns", lambda: campaign_step.tick(db, now, settings.node_silent_s))
    steps.take("hooks of campaigns", lambda: hooks.forgotten(db, now, settings.campaign_hook_s))
    steps.take("announcing jobs", lambda: jobs.announce_forgotten(db, now, settings.hint_after_s))
    steps.take("forgetting messages", lambda: outbox.forget_sent(db, now))
    silent = silence.limits_of(settings.node_silent_s, settings.series_silent_days)
    steps.take("looking for silence", lambda: silence.look(db, silent, now))
    keep = retention.policy_of(settings.keep_samples_days, settings.keep_logs_days)
    steps.take("retention", lambda: retention.thin(db, keep, now, steps=2))
    pulls.tick(parts, steps, now)
    steps.take("notifications", lambda: telling.tick(parts, now))
    steps.take("messages left behind", lambda: send_left_behind(db))


def _said(work: Callable[[], object], what: str) -> None:
    """A fault of the outside (a repository that is away) is said; the tick comes back to it."""
    try:
        work()
    except GroundspeedError as error:
        log.warning("%s: %s", what, error)


def _now() -> datetime:
    return datetime.now(UTC)
