"""Telling people: a task, and what the tick does of it. Sending waits for others' servers, so it has a thread."""

from __future__ import annotations

import logging
import threading
from datetime import UTC, datetime, timedelta
from functools import partial

from groundspeed.service.control.wiring import Parts
from groundspeed.service.notify import senders
from groundspeed.service.settings import Settings
from groundspeed.service.usecases import ignoring, owning
from groundspeed.service.usecases.notifications import delivery, planning
from groundspeed.service.usecases.notifications.delivery import Batch, NotToldError

log = logging.getLogger(__name__)
_busy = threading.Lock()
_forgot: list[datetime] = []
"""When this process last let go of what was told long ago."""
_FORGET_EVERY = timedelta(hours=1)


def tell(parts: Parts) -> None:
    """Note what is to be told, and have what is due sent."""
    now = datetime.now(UTC)
    owning.assign(parts.database, parts.mirrors, now)
    planning.plan(parts.database, now, timedelta(days=parts.settings.notify_max_age_days))
    threading.Thread(target=_send, args=(parts,), name="notifications", daemon=True).start()


def tick(parts: Parts, now: datetime) -> None:
    """Whatever a lost message left untold, digests that are due, and regressions whose time to be ignored is over."""
    ignoring.wake(parts.database, now)
    if not _forgot or now - _forgot[-1] > _FORGET_EVERY:
        _forgot[:] = [now]
        delivery.forget(parts.database, now)
    tell(parts)


def _tell(settings: Settings, batch: Batch) -> None:
    """One channel; whatever is wrong with it, the others are told."""
    try:
        senders.send(settings, batch)
    except NotToldError:
        raise
    except Exception as error:  # an edge: what others gave as an address can stumble over anything on its way
        log.exception("channel %r cannot be told", batch.channel)
        raise NotToldError(f"failed: {type(error).__name__}") from error


def _send(parts: Parts) -> None:
    """One at a time in a process; two processes take different rows."""
    if not _busy.acquire(blocking=False):
        return
    try:
        send = partial(_tell, parts.settings)
        while delivery.deliver(parts.database, datetime.now(UTC), send):
            pass
    except Exception:  # a thread's edge: the database is away, and the next tick tries again
        log.warning("notifications wait", exc_info=True)
    finally:
        _busy.release()
