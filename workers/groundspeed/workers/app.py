"""The Celery application of benchmark workers. Its configuration is read when a worker starts, not on import."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

from groundspeed.service.wire import hints
from groundspeed.workers.settings import WorkerSettings

app = Celery("groundspeed.workers", set_as_current=False, include=["groundspeed.workers.tasks"])


def configure(settings: WorkerSettings) -> Celery:
    """The application for these settings."""
    TRANSPORT_ALIASES[hints.FILES] = hints.TRANSPORT
    app.conf.update(celery_settings(settings))
    return app


def celery_settings(settings: WorkerSettings) -> dict[str, Any]:
    """What both sides share, and the queue of this worker's pool."""
    embedded = settings.embedded
    options = hints.files_options(settings.broker_dir) if embedded else {}
    return hints.CELERY | {
        "broker_url": f"{hints.FILES}://localhost/" if embedded else settings.broker_url,
        "broker_transport_options": options | settings.broker_options,
        "broker_use_ssl": settings.broker_tls,
        "task_default_queue": settings.queue,
        "task_routes": {hints.RUN_JOB: {"queue": settings.queue}},
        "worker_enable_remote_control": not embedded,
    }
