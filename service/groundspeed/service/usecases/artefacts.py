"""Files that belong to attempts, named by content: checked as they arrive, limited in size, kept once."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO

from sqlalchemy import func, select, update
from sqlmodel import col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Artefact, Attempt
from groundspeed.service.errors import Invalid, NotFound, TooLarge
from groundspeed.service.usecases.kernels import tables


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of files by SHA-256; ``max_bytes`` of one, ``max_attempt_bytes`` of one attempt together."""

    root: Path
    max_bytes: int
    max_attempt_bytes: int

    def path(self, sha256: str) -> Path:
        return self.root / sha256[:2] / sha256

    def has(self, sha256: str) -> bool:
        return self.path(sha256).is_file()


@dataclass(slots=True)
class Upload:
    """One file on its way in: ``write`` what arrives, then ``finish``."""

    store: Store
    sha256: str
    file: IO[bytes]
    size: int = 0
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)

    def write(self, data: bytes) -> None:
        """Raises :class:`TooLarge` as soon as it is."""
        self.size += len(data)
        if self.size > self.store.max_bytes:
            raise TooLarge(
                f"The artefact is larger than {self.store.max_bytes} bytes.",
                "Keep it smaller, or raise GROUNDSPEED_MAX_ARTEFACT_BYTES.",
            )
        self._hash.update(data)
        self.file.write(data)

    def finish(self) -> None:
        """Put the file in its place; raises :class:`Invalid` when its content is not what its name says."""
        found = self._hash.hexdigest()
        if found != self.sha256:
            raise Invalid(f"The artefact's SHA-256 is {found}, not {self.sha256}.", "Send it again.")
        self.file.flush()
        os.fsync(self.file.fileno())
        target = self.store.path(self.sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        Path(self.file.name).rename(target)


@contextlib.contextmanager
def upload(store: Store, sha256: str) -> Iterator[Upload]:
    """A temporary file beside the store; gone when the block ends without ``finish``."""
    store.root.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=store.root, prefix=".in-", delete=False) as file:
        try:
            yield Upload(store, sha256, file)
        finally:
            Path(file.name).unlink(missing_ok=True)


def check_room(database: Database, store: Store, attempt_id: str, size: int) -> None:
    """Raises :class:`TooLarge` when the attempt has sent enough, :class:`NotFound` when there is none."""
    with database.read() as session:
        if session.get(Attempt, attempt_id) is None:
            raise NotFound(f"There is no attempt {attempt_id}.", "The job must be claimed first.")
        total = select(func.coalesce(func.sum(col(Artefact.size_bytes)), 0)).where(
            col(Artefact.attempt_id) == attempt_id, col(Artefact.stored).is_(True)
        )
        if session.execute(total).scalar_one() + size > store.max_attempt_bytes:
            raise TooLarge(
                f"The artefacts of this attempt are larger than {store.max_attempt_bytes} bytes together.",
                "Keep fewer, or raise GROUNDSPEED_MAX_ATTEMPT_ARTEFACT_BYTES.",
            )


def mark_stored(database: Database, store: Store, attempt_id: str, now: datetime) -> int:
    """Note which of the attempt's artefacts have arrived, and read its kernel tables: file and report come in either
    order.
    """
    with database.read() as session:
        waiting = select(Artefact).where(col(Artefact.attempt_id) == attempt_id, col(Artefact.stored).is_(False))
        arrived = [one for one in session.scalars(waiting) if store.has(one.sha256)]
    if not arrived:
        return 0
    kept = [
        tables.row(one.run_id, store.path(one.sha256), now)
        for one in arrived
        if one.kind == tables.KIND and one.run_id is not None
    ]
    with database.transaction() as session:
        tables.keep(session, kept)
        mark = update(Artefact).where(col(Artefact.id).in_([one.id for one in arrived]))
        session.execute(mark.values(stored=True))
    return len(arrived)


@dataclass(frozen=True, slots=True)
class Found:
    path: Path
    name: str
    media_type: str


def find(database: Database, store: Store, attempt_id: str, sha256: str) -> Found:
    """The file of an artefact; raises :class:`NotFound`."""
    with database.read() as session:
        query = select(Artefact).where(col(Artefact.attempt_id) == attempt_id, col(Artefact.sha256) == sha256).limit(1)
        row = session.scalars(query).one_or_none()
    if row is None or not store.has(sha256):
        raise NotFound("There is no such artefact.", "It may not have arrived yet, or its time to be kept is over.")
    return Found(store.path(sha256), row.name, row.media_type)
