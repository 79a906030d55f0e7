"""What the broker carries between service and workers: hints that a job exists. Names and settings that both sides must
agree on; nothing of Celery is imported.
"""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any

RUN_JOB = "groundspeed.run_job"
"""The task by which a worker hears of a job; its arguments are ``job_id`` and ``pool``."""
FILES = "groundspeedfiles"
"""Our name for kombu's filesystem transport with a safer reader: the broker of a machine on its own."""
TRANSPORT = "groundspeed.service.broker:Transport"
POLLING_S = 0.05

CELERY = MappingProxyType({
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    "task_serializer": "json",
    "result_serializer": "json",
    "accept_content": ["json"],
    "task_ignore_result": True,
    "task_acks_late": True,
    "task_reject_on_worker_lost": False,
    "worker_prefetch_multiplier": 1,
    "worker_send_task_events": False,
    "worker_hijack_root_logger": False,
    "worker_redirect_stdouts": False,
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "enable_utc": True,
})  # fmt: skip
"""Settings of both applications: JSON only, acknowledged late, one message at a time, no results. The broker carries
hints, the database is the truth: a task that dies is found again by the tick."""


def queue_of(pool: str) -> str:
    """The queue that the nodes of ``pool`` share."""
    return f"bench.{pool}"


def files_options(broker_dir: Path) -> dict[str, Any]:
    """Options of the transport over files; makes its folders below ``broker_dir``. Both sides share them."""
    messages, control = broker_dir / "messages", broker_dir / "control"
    for folder in (messages, control):
        folder.mkdir(parents=True, exist_ok=True)
    return {
        "data_folder_in": str(messages),
        "data_folder_out": str(messages),
        "control_folder": str(control),
        "polling_interval": POLLING_S,
    }
