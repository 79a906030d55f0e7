"""Steps of the tick: what one of them stumbles over keeps none of the others from being taken."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection

from groundspeed.service.db.engine import Database
from groundspeed.service.errors import GroundspeedError

log = logging.getLogger(__name__)
_HELD_UP = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN")


class Steps:
    """Takes steps; a fault of the outside (a repository that is away) is said, one of ours logged with its traceback,
    and the next tick comes back to both. Where the database is away, no step could do anything: that is raised.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, what: str, work: Callable[[], object]) -> None:
        try:
            work()
        except GroundspeedError as error:
            log.warning("%s: %s", what, error)
        except (DBAPIError, NoConnection) as error:
            if self._away(error):
                raise
            log.exception("%s failed, and is tried again", what)
        except Exception:  # an edge: whatever it is, the other steps have nothing to do with it
            log.exception("%s failed, and is tried again", what)

    def each(self, what: str, found: Callable[[], Iterable[int]], work: Callable[[int], object]) -> None:
        """A step for each of what is found."""
        ids: list[int] = []
        self.take(f"looking for {what}", lambda: ids.extend(found()))
        for one in ids:
            self.take(f"{what} {one}", lambda one=one: work(one))  # type: ignore[misc]

    def _away(self, error: Exception) -> bool:
        name = getattr(getattr(error, "orig", None), "sqlite_errorname", "")
        if isinstance(error, NoConnection) or name.startswith(_HELD_UP):
            return True
        try:
            with self._database.read() as session:
                session.execute(text("SELECT 1"))
        except DBAPIError:
            return True
        return False
