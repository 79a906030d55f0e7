"""The Celery application of the control worker, and the broker as seen from the service. Nothing is read on import."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

from groundspeed.service.settings import Settings
from groundspeed.service.tls import broker_tls
from groundspeed.service.usecases.outbox import Message
from groundspeed.service.wire import hints

log = logging.getLogger(__name__)

QUEUE = "control"
TICK = "groundspeed.control.tick"
GLANCE_S = 0.01
"""How soon a message of the embedded broker is seen."""
_AT_ONCE = 500

app = Celery(
    "groundspeed.control",
    set_as_current=False,
    include=["groundspeed.service.control.tasks", "groundspeed.service.control.pulls"],
)


def configure(settings: Settings) -> Celery:
    """The application for these settings."""
    TRANSPORT_ALIASES[hints.FILES] = hints.TRANSPORT
    app.conf.update(celery_settings(settings))
    return app


def celery_settings(settings: Settings) -> dict[str, Any]:
    """What both sides share, and the beat that ticks."""
    return hints.CELERY | {
        "broker_url": f"{hints.FILES}://localhost/" if settings.embedded else settings.broker,
        "broker_transport_options": _transport_options(settings),
        "broker_use_ssl": broker_tls(settings.broker, settings.tls_ca, settings.tls_cert, settings.tls_key) or None,
        "task_default_queue": QUEUE,
        "worker_enable_remote_control": not settings.embedded,
        "beat_schedule": {
            "tick": {
                "task": TICK,
                "schedule": settings.tick_s,
                # A tick that nobody took in time is worth nothing: the next one does the same.
                "options": {"expires": max(10.0, 5 * settings.tick_s), "queue": QUEUE},
            }
        },
        "beat_schedule_filename": str(settings.data_dir.absolute() / "beat"),
    }


def send(messages: Sequence[Message]) -> int:
    """Hand messages of the outbox to the broker, over one connection and on Redis in one round trip.

    Returns how many went before the broker failed; raises what it raised when none did. Where that is not known (a
    batch whose answer was lost), none counts as sent: they are sent again, and a second delivery does nothing.
    """
    sent = 0
    with app.producer_pool.acquire(block=True) as producer:
        together = len(messages) > 1 and hasattr(producer, "batch")  # kombu before 5.7 has none
        try:
            with producer.batch(max_size=_AT_ONCE) if together else nullcontext():
                for message in messages:
                    _send(producer, message, retry=not together)
                    sent += 1
        except Exception as error:
            if together or not sent:
                raise
            log.warning("%d of %d messages went before the broker failed: %s", sent, len(messages), error)
    return sent


def _send(producer: Any, message: Message, *, retry: bool) -> None:
    pool = message.payload.get("pool", "default")
    queue = hints.queue_of(pool) if message.topic == hints.RUN_JOB else QUEUE
    # Celery writes what it was given into the headers once more, for people to read: dearer than all else of a message.
    options = {"argsrepr": "()", "kwargsrepr": "{}", "retry": retry, "ignore_result": True}
    app.send_task(message.topic, kwargs=message.payload, queue=queue, producer=producer, **options)


def _transport_options(settings: Settings) -> dict[str, Any]:
    if not settings.embedded:
        return {"visibility_timeout": 3600}
    return hints.files_options(settings.broker_dir) | {"glance_interval": GLANCE_S}
