"""The control worker and the beat, each a process of its own; embedded, the beat runs inside the control worker."""

from __future__ import annotations

import logging
import warnings
from contextlib import suppress

from celery.beat import EmbeddedService

from groundspeed.service import process
from groundspeed.service.control import tasks, wiring
from groundspeed.service.control.app import QUEUE, configure
from groundspeed.service.control.relay import Relay
from groundspeed.service.db import migrate
from groundspeed.service.settings import Settings

log = logging.getLogger(__name__)
GAVE_UP = 75
"""Exit status of a process that could not go on and would work again from its start (EX_TEMPFAIL)."""
CONCURRENCY = 4
"""Threads: a slow fetch of one repository must not hold up the analysis of another."""


def run_control(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT; what is in flight is finished or found again by the next tick.

    Returns ``GAVE_UP`` when Celery did, as it does when the broker goes away at a bad moment: the process is then to
    begin anew, and the next tick finds what it left.
    """
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    parts = wiring.make(settings)
    migrate.require_current(parts.database)
    app = configure(settings)
    tasks.bind(parts)
    relay = Relay(parts.database)
    relay.start()
    # Celery warns of running as root because of pickled messages; here only JSON is accepted.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser")
    worker = app.Worker(
        hostname="control@%h",
        queues=[QUEUE],
        pool="threads",
        concurrency=CONCURRENCY,
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    # A thread and not the process that Celery's own option starts: it would outlive a control worker that is killed.
    beat = EmbeddedService(app, thread=True, schedule_filename=app.conf.beat_schedule_filename)
    process.settle_memory()
    if settings.beat:
        beat.start()
    try:
        with suppress(SystemExit):  # how Celery ends a worker
            worker.start()
    finally:
        if settings.beat:
            beat.stop()
        relay.stop()
        parts.database.close()
    if worker.exitcode:
        log.error("the control worker gave up: the broker went away at a bad moment")
        return GAVE_UP
    return 0


def run_beat(settings: Settings) -> int:
    """Keep time for the control workers; one process of this kind is enough, a second does no harm."""
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    app = configure(settings)
    with suppress(SystemExit):
        app.Beat(loglevel="WARNING", schedule=app.conf.beat_schedule_filename, quiet=True).run()
    return 0
