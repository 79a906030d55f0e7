"""The worker of one node: registered, alive, and taking jobs for as long as the service has any."""

from __future__ import annotations

import contextlib
import hashlib
import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from groundspeed.service.wire import v1
from groundspeed.workers import control, facets, hygiene, loaded, sandbox, system
from groundspeed.workers.address import own_address
from groundspeed.workers.attempt import Attempt
from groundspeed.workers.errors import ProtocolMismatch, ServiceRefused, ServiceUnavailable, SpoolFull, Stopped
from groundspeed.workers.job import JobRun, Node
from groundspeed.workers.logs import logger
from groundspeed.workers.slots import Slot, divide, usable_cpus

_MISMATCH_PAUSE_S = 60.0
_LONGEST_PAUSE_S = 15.0
_LOOK_EVERY_S = 60.0


class WorkerNode:
    """Registers, gives signs of life, and runs jobs in its slots. ``shutdown`` ends all of it cleanly."""

    def __init__(self, node: Node, version: str, stop: threading.Event) -> None:
        self._node = node
        self._version = version
        self._instance = instance_of(node.settings.home)
        self._stop = stop
        self._registered = threading.Event()
        self._paused = ""
        """Why no jobs are taken; empty: they are."""
        self._heartbeat_s = 10.0
        self._told = ""
        self._looked_at = 0.0
        self._ask = threading.Event()
        """Set when there is a reason to ask for work before the next idle look."""
        self._attempts: dict[str, Attempt] = {}
        self._guard = threading.Lock()
        self._devices = own(hygiene.devices(), node.settings.devices)
        self._slots: Queue[Slot] = Queue()
        mine = [device.uuid for device in self._devices]
        for slot in divide(node.settings.slots, usable_cpus(), mine, restricted=bool(node.settings.devices)):
            self._slots.put(slot)
        self._threads = [
            threading.Thread(target=self._guarded, args=(self._live,), name="node", daemon=True),
            *(
                threading.Thread(target=self._guarded, args=(self._poll,), name=f"poll {index}", daemon=True)
                for index in range(node.settings.slots)
            ),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def shutdown(self) -> None:
        """Running jobs are released; returns at once. Safe to call from a signal handler, and twice."""
        self._stop.set()
        self._ask.set()
        for attempt in list(self._attempts.values()):
            attempt.end("shutdown")

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30.0)

    def wake(self, job_id: int | None) -> None:
        """Take the job if it is still there, then all others that the service has for this node."""
        with self._slot(block=True) as slot:
            if slot is not None and self._ready():
                self._drain(slot, job_id)

    # --- jobs --------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _slot(self, *, block: bool) -> Iterator[Slot | None]:
        slot = None
        while slot is None and not self._stop.is_set():
            try:
                slot = self._slots.get(timeout=0.5 if block else 0.001)
            except Empty:
                if not block:
                    break
        try:
            yield slot
        finally:
            if slot is not None:
                self._slots.put(slot)

    def _ready(self) -> bool:
        """Wait for the registration; whether jobs may be taken now."""
        while not self._registered.wait(0.5):
            if self._stop.is_set():
                return False
        if not self._paused and not self._node.spool.has_room:
            logger.error("the spool is nearly full: no job is taken until the service has emptied it")
            self._node.delivery.kick()
            return False
        return not self._paused and not self._stop.is_set()

    def _drain(self, slot: Slot, job_id: int | None) -> None:
        while not self._stop.is_set() and self._ready():
            try:
                claim = self._claim(job_id)
            except (ServiceUnavailable, ServiceRefused) as error:
                logger.warning("no job can be claimed: %s", error)
                return
            if claim.attempt_id is not None and claim.job is not None:
                self._run(slot, claim.attempt_id, claim.job, claim.lease_s)
            elif job_id is None:
                return
            job_id = None

    def _claim(self, job_id: int | None) -> v1.ClaimReply:
        """``delivery`` makes a repeated request (the answer was lost) get the same answer."""
        request = v1.ClaimRequest(protocol=v1.PROTOCOL, node=self._node.settings.node, delivery=uuid.uuid4().hex)
        if job_id is None:
            return self._node.client.next(request)
        try:
            return self._node.client.claim(job_id, request)
        except ServiceRefused as error:
            if error.status in {404, 409, 410}:
                return v1.ClaimReply(reason=str(error))
            raise

    def _run(self, slot: Slot, attempt_id: str, job: v1.JobSpec, lease_s: float) -> None:
        logger.info("job %s: %s of %s, attempt %s", job.job_id, job.suite, job.project, attempt_id)
        attempt = Attempt(self._node.client, attempt_id, lease_s)
        with self._guard:
            self._attempts[attempt_id] = attempt
        if self._stop.is_set():
            attempt.end("shutdown")
        try:
            with attempt:
                attempt.control = self._control(slot)
                finish = JobRun(
                    self._node, slot, attempt, job, facets.choose(self._facets(), job.track, job.info)
                ).run()
            if finish is not None:
                self._finish(attempt_id, finish)
        finally:
            with self._guard:
                del self._attempts[attempt_id]

    def _control(self, slot: Slot) -> dict[str, Any]:
        settings, stack = self._node.settings, self._node.stack
        if settings.control == "off":
            return {}
        on_device = settings.control == "auto" and self._devices and settings.device in {"auto", "cuda"} and stack.torch
        return control.measure(stack.executable, "cuda" if on_device else "none", slot.cpus)

    def _finish(self, attempt_id: str, finish: v1.FinishRequest) -> None:
        """Through the spool, so that it follows the results and survives a restart."""
        logger.info("attempt %s: %s %s", attempt_id, finish.state, finish.error.split("\n")[0][:300])
        try:
            self._node.spool.put_finish(attempt_id, finish)
        except SpoolFull as error:
            logger.error("%s", error)
            try:
                self._node.client.finish(attempt_id, finish, patience_s=5.0)
            except (ServiceUnavailable, ServiceRefused) as unsent:
                logger.error("attempt %s is left to its lease: %s", attempt_id, unsent)
            return
        self._node.delivery.flush(attempt_id, 30.0, self._stop)

    # --- the node's own life -----------------------------------------------------------------------------------------

    def _guarded(self, loop: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                loop()
            except Stopped:
                return
            except Exception:  # noqa: BLE001 - the edge of a thread that must not end while the worker lives
                logger.exception("a thread of the worker failed and starts again")
                self._stop.wait(5.0)

    def _poll(self) -> None:
        """Ask for work at the start and whenever idle for long: no message may ever have come."""
        while not self._stop.is_set():
            if self._registered.is_set():
                with self._slot(block=False) as slot:
                    if slot is not None and self._ready():
                        self._drain(slot, None)
                self._ask.wait(self._node.settings.idle_poll_s * random.uniform(0.7, 1.3))  # noqa: S311 - jitter
                if not self._stop.is_set():
                    self._ask.clear()
            else:
                self._stop.wait(0.05)

    def _live(self) -> None:
        pause_s = 0.5
        while not self._stop.is_set():
            try:
                pause_s = self._beat() if self._registered.is_set() else self._register()
            except ProtocolMismatch as error:
                self._registered.clear()
                logger.error("%s", error)
                pause_s = _MISMATCH_PAUSE_S
            except ServiceRefused as error:
                self._registered.clear()
                logger.error("%s", error)
                pause_s = _LONGEST_PAUSE_S
            except ServiceUnavailable as error:
                logger.warning("%s", error)
                pause_s = min(pause_s * 2.0, _LONGEST_PAUSE_S) * random.uniform(0.7, 1.0)  # noqa: S311 - jitter
            self._stop.wait(pause_s)

    def _register(self) -> float:
        """Returns the pause until the next sign of life."""
        settings = self._node.settings
        found = self._facets()
        reply = self._node.client.register(
            v1.RegisterRequest(
                protocol=v1.PROTOCOL,
                node=settings.node,
                worker_version=self._version,
                labels={**settings.labels, "pool": settings.pool, "stack": settings.stack},
                hardware=facets.hardware(self._devices),
                devices=self._devices,
                environment=found,
                catalogue=tuple(self._node.catalogue.values()),
                slots=settings.slots,
                address=settings.address or own_address(settings.api_url),
                sandbox=sandbox.available()[0] if settings.sandbox == "auto" else "",
                hygiene=hygiene.findings(),
                instance=self._instance,
            )
        )
        if not reply.accepted:
            logger.error("the service does not take this worker: %s", reply.reason)
            return min(_MISMATCH_PAUSE_S, 3 * reply.heartbeat_s)
        self._heartbeat_s = reply.heartbeat_s
        self._told, self._looked_at = fingerprint(found), time.monotonic()
        self._registered.set()
        logger.info("registered as %s (pool %s)", settings.node, settings.pool)
        return min(self._heartbeat_s, 2.0)

    def _beat(self) -> float:
        with self._guard:
            running = tuple(self._attempts)
        reply = self._node.client.node_heartbeat(
            v1.NodeHeartbeat(
                protocol=v1.PROTOCOL,
                attempts=running,
                hygiene=() if running else hygiene.findings(),
                instance=self._instance,
            )
        )
        if reply.state == "unknown" or (not running and self._changed()):
            self._registered.clear()
            return 0.0
        if reply.waiting:
            self._ask.set()
        paused = "" if reply.state == "active" else f"{reply.state} {reply.reason}".strip()
        if paused != self._paused:
            logger.info(
                "jobs are taken again" if not paused else "no jobs are taken: %s", *([paused] if paused else [])
            )
            self._paused = paused
        return self._heartbeat_s

    def _changed(self) -> bool:
        """Whether the node is another than the service was told of: a driver was updated under the worker."""
        if time.monotonic() - self._looked_at < _LOOK_EVERY_S:
            return False
        self._looked_at = time.monotonic()
        return fingerprint(self._facets()) != self._told

    def _facets(self) -> tuple[v1.Facet, ...]:
        stack = system.stack_facets(self._node.stack, self._node.settings.stack)
        found = facets.merge(stack, loaded.facets(self._node.stack), hygiene.environment(), system.facets())
        return facets.choose(found, self._node.settings.track_facets, self._node.settings.info_facets)


def instance_of(home: Path) -> str:
    """Names this worker's folder on this machine until it starts anew: two workers of one node name can be told apart
    by it, also where one's folder or machine is a copy of the other's.
    """
    told = _note_of(home / "instance")
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        place = (home / "instance").stat()
        return hashlib.sha256(f"{told} {boot} {place.st_dev} {place.st_ino}".encode()).hexdigest()[:32]
    return told


def _note_of(note: Path) -> str:
    """What the folder is called, made up at first."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        told = note.read_text(encoding="ascii").strip()
        if re.fullmatch("[0-9a-f]{32}", told):
            return told
    made = uuid.uuid4().hex
    with contextlib.suppress(OSError):  # a full disk: it is another one after a restart
        note.write_text(made + "\n", encoding="ascii")
    return made


def own(found: tuple[v1.DeviceSpec, ...], chosen: tuple[str, ...]) -> tuple[v1.DeviceSpec, ...]:
    """The devices that this worker may use, by index or UUID; all when none is named."""
    return tuple(device for device in found if not chosen or {str(device.index), device.uuid} & set(chosen))


def fingerprint(found: tuple[v1.Facet, ...]) -> str:
    """Identity of the tracked facets, for noticing that the node has changed under a running worker."""
    lines = sorted(f"{f.layer}/{f.name}={f.value}" for f in found if f.tracked)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
