"""Results on disk until the service has acknowledged them.

Layout: ``<spool>/<attempt>/<key>.run.json`` (a RunReport with the spool's version), ``finish.json`` and
``artefacts/<sha256>``. Each file is written beside, flushed to the disk and renamed, so that it is whole or absent
whenever the machine stops. Order is by name within an attempt, and nothing depends on a clock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from groundspeed.service.wire import v1
from groundspeed.workers.errors import SpoolFull
from groundspeed.workers.logs import logger

VERSION = 1
_RUN = ".run.json"


class Spool:
    """One folder; safe for several threads of one process."""

    def __init__(self, root: Path, max_bytes: int) -> None:
        self._root = root
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        root.mkdir(parents=True, exist_ok=True)
        for leftover in root.glob("**/*.tmp"):  # of a writer that died: never acknowledged, never readable
            with contextlib.suppress(OSError):
                leftover.unlink(missing_ok=True)
        self._used = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())

    @property
    def has_room(self) -> bool:
        """Whether new work may be taken: a tenth of the spool must be free."""
        return self._used < self._max_bytes * 0.9

    def put(self, attempt: str, run: v1.RunReport) -> None:
        """Keep a run. Returns once it is safe on the disk; raises SpoolFull with nothing half-written."""
        document = {"version": VERSION, "attempt": attempt, "run": run.model_dump(mode="json")}
        self._write(self._folder(attempt) / f"{_name(run.key)}{_RUN}", json.dumps(document).encode())

    def put_artefact(self, attempt: str, sha256: str, source: Path) -> None:
        self._write(self._folder(attempt) / "artefacts" / sha256, source.read_bytes())

    def put_finish(self, attempt: str, finish: v1.FinishRequest) -> None:
        document = {"version": VERSION, "attempt": attempt, "finish": finish.model_dump(mode="json")}
        self._write(self._folder(attempt) / "finish.json", json.dumps(document).encode())

    def attempts(self) -> list[str]:
        """Attempts with something to send, oldest name first; other folders that lie here are nobody's to touch."""
        return sorted(path.name for path in self._root.iterdir() if _is_attempt(path.name) and path.is_dir())

    @property
    def waits(self) -> bool:
        """Whether anything is still to be acknowledged."""
        return not all(self.empty(attempt) for attempt in self.attempts())

    def runs(self, attempt: str) -> Iterator[v1.RunReport]:
        """Runs that wait, in a stable order. A file that cannot be read is set aside as ``*.unreadable``."""
        for path in sorted(self._folder(attempt).glob(f"*{_RUN}")):
            document = self._read(path)
            if document is None:
                continue
            try:
                run = v1.RunReport.model_validate(document["run"])
            except (ValidationError, KeyError):
                self._set_aside(path)
                continue
            if path.name == f"{_name(run.key)}{_RUN}":
                yield run
            else:  # a copy under another name: nobody would ever delete it
                self._set_aside(path)

    def artefact(self, attempt: str, sha256: str) -> Path | None:
        path = self._folder(attempt) / "artefacts" / sha256
        return path if path.is_file() else None

    def finish(self, attempt: str) -> v1.FinishRequest | None:
        path = self._folder(attempt) / "finish.json"
        document = self._read(path) if path.is_file() else None
        if document is None:
            return None
        try:
            return v1.FinishRequest.model_validate(document["finish"])
        except (ValidationError, KeyError):
            self._set_aside(path)
            return None

    def drop_run(self, attempt: str, key: v1.RunKey) -> None:
        self._unlink(self._folder(attempt) / f"{_name(key)}{_RUN}")

    def drop_artefact(self, attempt: str, sha256: str) -> None:
        self._unlink(self._folder(attempt) / "artefacts" / sha256)

    def drop_finish(self, attempt: str) -> None:
        self._unlink(self._folder(attempt) / "finish.json")

    def drop_attempt(self, attempt: str) -> None:
        """Forget an attempt with all that waits of it."""
        folder = self._folder(attempt)
        with self._lock:
            self._used -= sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            shutil.rmtree(folder, ignore_errors=True)

    def tidy(self, attempt: str) -> None:
        """Remove the folder of an attempt if nothing is left in it, and never under the hands of a writer."""
        with self._lock:
            for folder in (self._folder(attempt) / "artefacts", self._folder(attempt)):
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def empty(self, attempt: str) -> bool:
        """Whether everything of this attempt has been acknowledged."""
        folder = self._folder(attempt)
        return not any(folder.glob(f"*{_RUN}")) and not (folder / "finish.json").exists()

    def _folder(self, attempt: str) -> Path:
        if not _is_attempt(attempt):
            raise ValueError(f"not the name of an attempt: {attempt!r}")
        return self._root / attempt

    def _write(self, path: Path, data: bytes) -> None:
        with self._lock:
            if self._used + len(data) > self._max_bytes:
                raise SpoolFull(
                    f"The spool {self._root} holds {self._used:,} of {self._max_bytes:,} bytes and cannot keep another "
                    f"{len(data):,}: bring the service back so that it empties, or raise "
                    "GROUNDSPEED_WORKER_SPOOL_MAX_BYTES."
                )
            temporary = path.with_name(f"{path.name}.tmp")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                _write_through(temporary, path, data)
            except OSError as error:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise SpoolFull(
                    f"The result cannot be kept in the spool {self._root}: {error.strerror}. Free some space on that "
                    "disk, let this user write there, or point GROUNDSPEED_WORKER_SPOOL_DIR elsewhere."
                ) from error
            self._used += len(data)

    def _read(self, path: Path) -> dict[str, Any] | None:
        try:
            document = json.loads(path.read_bytes())
            if document["version"] <= VERSION:
                return dict(document)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        self._set_aside(path)
        return None

    def _set_aside(self, path: Path) -> None:
        logger.error("%s in the spool is no result that can be read: it is set aside as *.unreadable", path)
        with contextlib.suppress(OSError):
            path.rename(path.with_name(f"{path.name}.unreadable"))

    def _unlink(self, path: Path) -> None:
        with self._lock, contextlib.suppress(OSError):
            size = path.stat().st_size
            path.unlink()
            self._used -= size


def _is_attempt(name: str) -> bool:
    return re.fullmatch(r"\w[\w-]*", name) is not None


def _name(key: v1.RunKey) -> str:
    """A file name for a key: readable order first, then what makes it unique."""
    digest = hashlib.sha256(key.benchmark.encode()).hexdigest()[:16]
    return f"{key.replicate:06d}-{key.side}-{digest}"


def _write_through(temporary: Path, path: Path, data: bytes) -> None:
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
