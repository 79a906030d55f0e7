"""The Celery application of benchmark workers. Its configuration is read when a worker starts, not on import."""

from __future__ import annotations

from typing import Any

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

from groundspeed.workers.settings import WorkerSettings

RUN_JOB = "groundspeed.run_job"
POLLING_S = 0.05
FILES = "groundspeedfiles"
"""Our name for kombu's filesystem transport with a safer reader; both sides share code and folders."""

app = Celery("groundspeed.workers", set_as_current=False, include=["groundspeed.workers.tasks"])


def configure(settings: WorkerSettings) -> Celery:
    """The application for these settings."""
    TRANSPORT_ALIASES[FILES] = "groundspeed.service.broker:Transport"
    app.conf.update(celery_settings(settings))
    return app


def celery_settings(settings: WorkerSettings) -> dict[str, Any]:
    """JSON only, acknowledged late, one message at a time: the broker carries hints, the database is the truth."""
    embedded = settings.embedded
    return {
        "broker_url": f"{FILES}://localhost/" if embedded else settings.broker_url,
        "broker_transport_options": _transport_options(settings),
        "broker_use_ssl": settings.broker_tls,
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "task_serializer": "json",
        "result_serializer": "json",
        "accept_content": ["json"],
        "task_ignore_result": True,
        "task_acks_late": True,
        "task_reject_on_worker_lost": False,
        "worker_prefetch_multiplier": 1,
        "task_default_queue": settings.queue,
        "task_routes": {RUN_JOB: {"queue": settings.queue}},
        "worker_enable_remote_control": not embedded,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_cancel_long_running_tasks_on_connection_loss": False,
        "enable_utc": True,
    }


def _transport_options(settings: WorkerSettings) -> dict[str, Any]:
    if not settings.embedded:
        return dict(settings.broker_options)
    messages = settings.broker_dir / "messages"
    control = settings.broker_dir / "control"
    for folder in (messages, control):
        folder.mkdir(parents=True, exist_ok=True)
    return {
        "data_folder_in": str(messages),
        "data_folder_out": str(messages),
        "control_folder": str(control),
        "polling_interval": POLLING_S,
        **settings.broker_options,
    }
