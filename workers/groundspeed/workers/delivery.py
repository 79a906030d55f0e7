"""Sends what lies in the spool and deletes what the service has acknowledged; one thread for the whole worker."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

from groundspeed.service.wire import v1
from groundspeed.workers.client import Client
from groundspeed.workers.errors import ProtocolMismatch, ServiceRefused, ServiceUnavailable
from groundspeed.workers.logs import logger
from groundspeed.workers.spool import Spool

_BATCH = 50
_BATCH_BYTES = 4 << 20
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_LATER = {401, 403}


def _later(error: ServiceRefused) -> bool:
    """A wrong token, and releases that do not understand each other, are the operator's to correct: results wait."""
    return error.status in _LATER or isinstance(error, ProtocolMismatch)


class Delivery:
    """``start`` begins with whatever an earlier process left behind."""

    def __init__(self, client: Client, spool: Spool) -> None:
        self._client = client
        self._spool = spool
        self._kick = threading.Event()
        self._end = threading.Event()
        self._changed = threading.Condition()
        self._pause_s = 0.0
        self._thread = threading.Thread(target=self._loop, name="delivery", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, patience_s: float) -> None:
        """Go on for so long at most while something waits, then end."""
        deadline = time.monotonic() + patience_s
        self._kick.set()
        with self._changed:
            while self._spool.waits and time.monotonic() < deadline and self._thread.is_alive():
                self._changed.wait(0.2)
        self._end.set()
        self._kick.set()
        self._thread.join(5.0)

    def kick(self) -> None:
        """Something new lies in the spool."""
        self._kick.set()

    def flush(self, attempt: str, patience_s: float, stop: threading.Event) -> bool:
        """Wait until the service has everything of this attempt; whether it has."""
        deadline = time.monotonic() + patience_s
        self._kick.set()
        with self._changed:
            while not self._spool.empty(attempt):
                if time.monotonic() > deadline or stop.is_set():
                    return False
                self._changed.wait(0.2)
        return True

    def _loop(self) -> None:
        while not self._end.is_set():
            self._kick.clear()
            try:
                self._pass()
                self._pause_s = 0.0
            except ServiceUnavailable as error:
                self._pause_s = min(max(self._pause_s * 2.0, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
                logger.warning("results wait in the spool: %s", error)
            except OSError as error:
                self._pause_s = _LONGEST_PAUSE_S
                logger.error("the spool cannot be read: %s", error)
            except Exception:  # noqa: BLE001 - the edge of a thread without which no result ever leaves
                self._pause_s = _LONGEST_PAUSE_S
                logger.exception("results wait in the spool, and are tried again")
            with self._changed:
                self._changed.notify_all()
            if self._pause_s:
                self._end.wait(self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            else:
                self._kick.wait(5.0)

    def _pass(self) -> None:
        later: ServiceUnavailable | None = None
        for attempt in self._spool.attempts():
            try:
                self._deliver(attempt)
            except ServiceRefused as error:
                if _later(error):
                    later = ServiceUnavailable(str(error))
                    continue
                logger.warning("attempt %s is given up: %s", attempt, error)
                self._spool.drop_attempt(attempt)
        if later is not None:
            raise later

    def _deliver(self, attempt: str) -> None:
        # Looked for before the runs: an attempt ends after its last run, which is then among those that are sent first.
        finish = self._spool.finish(attempt)
        for batch in _batches(self._spool.runs(attempt)):
            self._send(attempt, batch)
            with self._changed:
                self._changed.notify_all()
        if finish is not None:
            self._client.finish(attempt, finish)
            self._spool.drop_finish(attempt)
        self._spool.tidy(attempt)

    def _send(self, attempt: str, batch: list[v1.RunReport]) -> None:
        try:
            ack = self._client.runs(attempt, v1.RunBatch(runs=tuple(batch)))
        except ServiceRefused as error:
            if error.status not in {400, 413, 422} or _later(error):
                raise
            self._send_apart(attempt, batch, error)
            return
        known = {key.model_dump_json() for key in (*ack.accepted, *ack.already)}
        for run in batch:
            name = f"{run.key.side}/{run.key.benchmark}/{run.key.replicate}"
            if run.key.model_dump_json() in known:
                self._send_artefacts(attempt, run)
            elif name in ack.refused:
                logger.error("the service refuses the result %s of attempt %s: %s", name, attempt, ack.refused[name])
                self._tell_refused(attempt, run, ack.refused[name])
            else:
                continue  # not mentioned: it stays
            self._drop(attempt, run)

    def _send_apart(self, attempt: str, batch: list[v1.RunReport], error: ServiceRefused) -> None:
        """One bad result must not hold back the others."""
        if len(batch) == 1:
            logger.error("a result of attempt %s is given up: %s", attempt, error)
            self._tell_refused(attempt, batch[0], str(error))
            self._drop(attempt, batch[0])
            return
        for run in batch:
            self._send(attempt, [run])

    def _tell_refused(self, attempt: str, run: v1.RunReport, why: str) -> None:
        """What cannot be stored is a failure with its reason, never nothing at all."""
        told = v1.RunReport(
            key=run.key,
            plugin=run.plugin,
            plugin_version=run.plugin_version,
            params=run.params,
            outcome="failed",
            started_at=run.started_at,
            duration_s=run.duration_s,
            evidence={"message": f"the service refuses the result: {why}"[:2000], "reported_outcome": run.outcome},
            environment=run.environment,
            build=run.build,
        )
        try:
            ack = self._client.runs(attempt, v1.RunBatch(runs=(told,)))
        except ServiceRefused as error:
            if _later(error):
                raise
            logger.error("nor can the refusal be told: %s", error)
            return
        for reason in ack.refused.values():
            logger.error("nor can the refusal be told: %s", reason)

    def _send_artefacts(self, attempt: str, run: v1.RunReport) -> None:
        for reference in run.artefacts:
            path = self._spool.artefact(attempt, reference.sha256)
            if path is None:
                continue
            try:
                self._client.put_artefact(attempt, reference.sha256, path)
            except ServiceRefused as error:
                if _later(error):
                    raise
                logger.error("the artefact %s is given up: %s", reference.name, error)

    def _drop(self, attempt: str, run: v1.RunReport) -> None:
        self._spool.drop_run(attempt, run.key)
        for reference in run.artefacts:
            self._spool.drop_artefact(attempt, reference.sha256)


def _batches(runs: Iterator[v1.RunReport]) -> Iterator[list[v1.RunReport]]:
    batch: list[v1.RunReport] = []
    size = 0
    for run in runs:
        length = len(run.model_dump_json())
        if batch and (len(batch) >= _BATCH or size + length > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(run)
        size += length
    if batch:
        yield batch
