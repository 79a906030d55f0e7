"""``groundspeed worker``: wire the parts, run Celery in this process, and leave nothing behind on the way out."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from celery import signals
from celery.worker import state as celery_state

from groundspeed.workers import caches, clocks, hygiene, tasks
from groundspeed.workers.app import configure
from groundspeed.workers.catalogue import read_catalogue
from groundspeed.workers.client import Client
from groundspeed.workers.delivery import Delivery
from groundspeed.workers.errors import SettingsInvalid, WorkerError
from groundspeed.workers.git import Git
from groundspeed.workers.job import Node
from groundspeed.workers.locks import LockTimeout, locked
from groundspeed.workers.logs import configure as configure_logs
from groundspeed.workers.logs import logger
from groundspeed.workers.node import WorkerNode
from groundspeed.workers.settings import WorkerSettings
from groundspeed.workers.spool import Spool
from groundspeed.workers.stack import discover

_PR_SET_DUMPABLE = 4
GAVE_UP = 75
"""Exit status of a process that could not go on and would work again from its start (EX_TEMPFAIL)."""


def run(settings: WorkerSettings | None = None) -> int:
    """Run until SIGTERM or SIGINT; returns the exit status (2: it could not start, and the reason was said)."""
    configure_logs(os.environ.get("GROUNDSPEED_LOG_LEVEL", "INFO"))
    _end_cleanly_on_signals()
    try:
        settings = settings or WorkerSettings.load()
        with _folders(settings), _node(settings) as node:
            status = _serve(settings, node)
        return status if status != GAVE_UP else _anew()
    except WorkerError as error:
        sys.stderr.write(f"groundspeed worker: {error}\n")
        return 2


def _end_cleanly_on_signals() -> None:
    """Until Celery has its own handlers: a signal ends the start-up, or Celery as soon as it runs."""

    def on_signal(*_: Any) -> None:
        if not tasks.shut_down():
            raise SystemExit(0)
        celery_state.should_stop = 0

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)


@contextmanager
def _folders(settings: WorkerSettings) -> Iterator[None]:
    """Make the worker's folders and hold them: two workers in one folder would send the same results."""
    try:
        for folder in (settings.home, settings.cache, settings.spool):
            folder.mkdir(parents=True, exist_ok=True)
        with locked(settings.home / "lock", wait_s=settings.lock_wait_s):
            yield
    except LockTimeout as error:
        raise SettingsInvalid(
            f"Another worker already uses the folder {settings.home}: stop it, or give this one a folder of its own "
            "with GROUNDSPEED_WORKER_DATA_DIR."
        ) from error
    except OSError as error:
        raise SettingsInvalid(
            f"The worker's folder {settings.home} cannot be used: {error}. Set GROUNDSPEED_WORKER_DATA_DIR to a folder "
            "it may write to."
        ) from error


@contextmanager
def _node(settings: WorkerSettings) -> Iterator[WorkerNode]:
    # Code that runs as the same user must not read the tokens out of this process.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    stop = threading.Event()
    settings.read_token()  # a file that cannot be read is told at the start
    tls = settings.tls_context()
    client = Client(settings.api_url, settings.read_token, settings.node, stop, tls)
    sending = Client(settings.api_url, settings.read_token, settings.node, threading.Event(), tls)
    spool = Spool(settings.spool, settings.spool_max_bytes)
    delivery = Delivery(sending, spool)
    with ThreadPoolExecutor(2) as both:
        reading = both.submit(read_catalogue)
        stack = discover(settings.python, settings.stack_packages, settings.cache)
        catalogue = {plugin.name: plugin for plugin in reading.result()}
    parts = Node(
        settings=settings,
        client=client,
        spool=spool,
        delivery=delivery,
        git=Git(settings.home / "git", settings.git_timeout_s),
        stack=stack,
        catalogue=catalogue,
        devices=tuple(device.uuid for device in hygiene.devices()),
    )
    caches.clean(settings.cache)
    clocks.let_go(settings.clocks_note)
    node = WorkerNode(parts, _version(), stop)
    delivery.start()
    try:
        yield node
    finally:
        node.shutdown()
        node.join()
        delivery.close(settings.grace_s)
        client.close()
        sending.close()


def _serve(settings: WorkerSettings, node: WorkerNode) -> int:
    app = configure(settings)
    tasks.bind(node)
    asked = threading.Event()

    def on_shutdown(**_: Any) -> None:
        asked.set()
        logger.info("stopping: running jobs are given back")
        node.shutdown()

    signals.worker_shutting_down.connect(on_shutdown, weak=False)
    # Celery warns of running as root because of pickled messages; here only JSON is accepted.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser")
    node.start()
    worker = app.Worker(
        hostname=f"bench-{settings.pool}@{settings.node}",
        queues=[settings.queue],
        pool="threads",
        concurrency=settings.slots,
        loglevel="WARNING",
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
        quiet=True,
    )
    with suppress(SystemExit):  # how Celery ends a worker
        worker.start()
    if worker.exitcode and not asked.is_set():  # Ctrl-C too ends with a status, and is to end the worker
        logger.error("the broker went away at a bad moment: the worker begins again")
        return GAVE_UP
    logger.info("stopped")
    return 0


def _anew() -> int:
    """Begin again as the same process, whoever supervises it; a signal meanwhile ends it cleanly."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    time.sleep(1.0)
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - our own command line


def _version() -> str:
    try:
        return importlib.metadata.version("groundspeed")
    except importlib.metadata.PackageNotFoundError:
        return "0"
