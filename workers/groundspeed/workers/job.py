"""One claimed job from beginning to end: check out, build, measure, report, finish."""

from __future__ import annotations

import contextlib
import os
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from groundspeed.plugins.spi import Outcome
from groundspeed.service.wire import v1
from groundspeed.workers import caches, clocks, gangs, indexproxy, process, sandbox
from groundspeed.workers.attempt import Attempt
from groundspeed.workers.checkout import Checkout, Checkouts, source_paths
from groundspeed.workers.client import Client
from groundspeed.workers.delivery import Delivery
from groundspeed.workers.environment import Environments
from groundspeed.workers.errors import (
    BuildFailed,
    JobError,
    PartFailed,
    ServiceRefused,
    ServiceUnavailable,
    SpoolFull,
    Stopped,
    TrustRefused,
)
from groundspeed.workers.git import Git
from groundspeed.workers.logs import logger
from groundspeed.workers.process import Command, Ended
from groundspeed.workers.runner import Runner, Side
from groundspeed.workers.sandbox import Confinement
from groundspeed.workers.settings import WorkerSettings
from groundspeed.workers.slots import Slot, usable_cpus
from groundspeed.workers.spool import Spool
from groundspeed.workers.stack import Stack
from groundspeed.workers.turns import Key, Turn, Turns, depth
from groundspeed.workers.variables import base_variables, build_variables

FLUSH_S = 20.0
"""How long a pair waits for its results to be acknowledged before the comparison is asked to go on."""
_FINAL = {"unsupported", "skipped", "failed", "crashed", "oom", "timeout"}
"""Outcomes that another process of the same benchmark would only repeat."""


@dataclass(frozen=True, slots=True)
class Node:
    """What all jobs of a worker share."""

    settings: WorkerSettings
    client: Client
    spool: Spool
    delivery: Delivery
    git: Git
    stack: Stack
    catalogue: Mapping[str, v1.PluginSpec]
    devices: tuple[str, ...] = ()
    """UUIDs of all devices of the node."""


class JobRun:
    """One attempt at one job in one slot."""

    def __init__(self, node: Node, slot: Slot, attempt: Attempt, job: v1.JobSpec, facets: tuple[v1.Facet, ...]) -> None:
        self._node = node
        self._slot = slot
        self._attempt = attempt
        self._job = job
        self._facets = facets
        self._cache = node.settings.cache / job.trust
        self._done = {(key.side, key.benchmark, key.replicate) for key in job.done}
        self._over: set[str] = set()
        """Benchmarks that need no further process."""
        self._ending: set[str] = set()
        self._confinement: Confinement | None = None
        self._count = len(self._done)

    def run(self) -> v1.FinishRequest | None:
        """Do the job; returns how to finish the attempt, None when it is no longer ours."""
        try:
            with contextlib.ExitStack() as stack:
                self._measure(stack)
            caches.tidy(self._cache, self._node.settings.keep_compile_caches)
        except Stopped as stopped:
            logger.info("job %s stops: %s", self._job.job_id, stopped)
            return None if stopped.reason == "lost" else v1.FinishRequest(state="released", error=str(stopped))
        except JobError as error:
            return _failure(str(error), transient=error.transient)
        except SpoolFull as error:
            return _failure(str(error), transient=True)
        except Exception as error:  # noqa: BLE001 - the edge of a job: told to the service, the worker lives on
            logger.exception("job %s failed by an error of the worker", self._job.job_id)
            return _failure(f"The worker failed: {error}\n{traceback.format_exc()}", transient=True)
        return v1.FinishRequest(state="succeeded")

    def _measure(self, stack: contextlib.ExitStack) -> None:
        if self._job.trust == "untrusted":
            self._confinement = self._confine(stack)
        sides, runner = self._prepare(stack)
        if len(sides) < len(self._job.sides):
            self._leave()
            return  # a side did not build: reported, and there is nothing to compare
        if self._job.gang is not None:
            self._attempt.line("worker", gangs.told(self._job.gang))
            self._attempt.meet()
        self._lock_clocks(stack)
        if self._job.max_pairs:
            self._pairs(sides, runner)
        else:
            self._replicates(sides, runner)

    def _lock_clocks(self, stack: contextlib.ExitStack) -> None:
        settings = self._node.settings
        if settings.lock_clocks:
            devices = self._slot.devices or self._node.devices
            say = self._attempt.line
            stack.enter_context(
                clocks.locked(settings.clocks_note, devices, settings.lock_clocks_mhz, lambda text: say("worker", text))
            )

    def _leave(self) -> None:
        """A member whose build failed lets rank 0 tell so, which it does if it failed there too."""
        if gangs.follows(self._job):
            self._attempt.stop.wait(gangs.TELL_S)
            self._attempt.check()
            raise PartFailed("A revision does not build on this node, though it does on the one that leads.")

    def _confine(self, stack: contextlib.ExitStack) -> Confinement:
        """Raises TrustRefused, in words, where no sandbox works."""
        settings = self._node.settings
        name, why = sandbox.available() if settings.sandbox == "auto" else ("", "the sandbox is switched off here")
        if not name:
            raise TrustRefused(f"Untrusted code is not run here: {why}.")
        proxy = None
        if settings.package_index:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groundspeed-")))
            hosts = indexproxy.index_hosts(settings.package_index, settings.package_hosts)
            proxy = stack.enter_context(indexproxy.serving(folder / "index.sock", hosts))
        return Confinement(self._node.stack, settings.memory_limit, proxy)

    # --- before ------------------------------------------------------------------------------------------------------

    def _prepare(self, stack: contextlib.ExitStack) -> tuple[list[Side], Runner]:
        settings = self._node.settings
        runner = Runner(
            settings=settings,
            spool=self._node.spool,
            attempt=self._attempt,
            slot=self._slot,
            job=self._job,
            cache=self._cache,
            catalogue=self._node.catalogue,
            variables=self._variables(build=False),
            facets=self._facets,
            confinement=self._confinement,
            gang=gangs.variables(self._job.gang),
        )
        sides = []
        for spec in self._job.sides:
            try:
                sides.append(stack.enter_context(self._side(spec, stack)))
            except BuildFailed as error:
                self._report_failed_build(spec, error, runner)
        return sides, runner

    def _variables(self, *, build: bool) -> dict[str, str]:
        """Untrusted code gets no variable that an operator has named, and an index only through the relay."""
        settings = self._node.settings
        if self._confinement is None:
            return (build_variables if build else base_variables)(os.environ, settings.pass_env)
        index = {"PIP_INDEX_URL": settings.package_index} if build and settings.package_index else {}
        return {**base_variables(os.environ), "PATH": "/usr/local/bin:/usr/bin:/bin", **index}

    def _trusted_parts(self) -> v1.JobSpec:
        """Submodules and LFS of untrusted code would have this worker's git fetch from wherever the code says."""
        build = self._job.build
        if self._confinement is None or not (build.submodules or build.lfs):
            return self._job
        self._attempt.line("worker", "Submodules and LFS files are not fetched for untrusted code")
        plain = build.model_copy(update={"submodules": False, "lfs": False})
        return self._job.model_copy(update={"build": plain})

    @contextlib.contextmanager
    def _side(self, spec: v1.SideSpec, stack: contextlib.ExitStack) -> Iterator[Side]:
        settings = self._node.settings
        self._say("checkout", f"Checking out {spec.sha[:12]}")
        checkouts = Checkouts(
            self._cache,
            self._slot.index,
            self._node.git,
            settings.credentials,
            settings.keep_checkouts,
            self._attempt.stop,
        )
        checkout = checkouts.get(self._trusted_parts(), spec.sha)
        if self._confinement is not None:
            stack.callback(checkouts.forget, checkout)
        self._attempt.check()
        if self._job.build.install:
            self._say("build", f"Building {spec.sha[:12]}")
        environments = Environments(self._cache, self._node.stack, settings.keep_environments, self._attempt.stop)
        variables = self._variables(build=True)
        with environments.use(self._job.build, checkout, variables, self._build_command) as environment:
            yield Side(
                index=spec.index,
                sha=spec.sha,
                source=checkout.source,
                paths=source_paths(checkout, self._job.build),
                environment=environment,
                caches=self._caches(checkout, environment.home),
            )

    def _build_command(self, command: Command) -> Ended:
        limited = replace(
            command,
            memory_limit_bytes=self._node.settings.memory_limit,
            log_bytes=self._node.settings.log_bytes_per_run,
            cpus=self._slot.cpus,
        )
        self._attempt.line("worker", f"$ {command.argv[-1]}")
        if self._confinement is not None:
            limited = self._confinement.for_build(limited)
        ended = process.run(limited, self._attempt.line, self._attempt.stop)
        self._attempt.check()
        return ended

    def _caches(self, checkout: Checkout, environment: Path) -> Path:
        return self._cache / "compile" / checkout.home.parent.name / f"{checkout.home.name}-{environment.name[:12]}"

    def _report_failed_build(self, spec: v1.SideSpec, error: BuildFailed, runner: Runner) -> None:
        """A commit that does not build gives each benchmark a result that says so."""
        self._say("build", f"{spec.sha[:12]} does not build: {error}")
        evidence = {"message": f"the revision does not build: {error}", "phase": "build", "build_log": error.log_tail}
        for benchmark in self._job.benchmarks:
            key = v1.RunKey(side=spec.index, benchmark=benchmark.key, replicate=benchmark.first_replicate)
            if self._is_done(key):
                continue
            self._deliver(runner.without_process(key, benchmark, Outcome.FAILED, evidence))

    # --- measuring ---------------------------------------------------------------------------------------------------

    def _replicates(self, sides: list[Side], runner: Runner) -> None:
        """One process of each benchmark after another, so that slow drift of the machine meets all of them."""
        benchmarks = self._job.benchmarks
        rounds = [
            [
                (side.index, benchmark.key, benchmark.first_replicate + turn)
                for benchmark in benchmarks
                if turn < benchmark.replicates
                for side in sides
            ]
            for turn in range(max((b.replicates for b in benchmarks), default=0))
        ]
        self._rounds(rounds, sides, runner, lambda _: True)

    def _pairs(self, sides: list[Side], runner: Runner) -> None:
        """A B, B A, A B … until the service has seen enough."""
        rounds = [
            [
                (side.index, benchmark.key, benchmark.first_replicate + pair)
                for benchmark in self._job.benchmarks
                for side in (sides if pair % 2 == 0 else sides[::-1])
            ]
            for pair in range(self._job.max_pairs)
        ]
        self._rounds(rounds, sides, runner, self._another_pair)

    def _rounds(
        self, rounds: list[list[Key]], sides: list[Side], runner: Runner, another: Callable[[int], bool]
    ) -> None:
        """Every process in its turn; after each round ``another`` is asked for the next."""
        by_side = {side.index: side for side in sides}
        benchmarks = {benchmark.key: benchmark for benchmark in self._job.benchmarks}
        cpus = len(self._slot.cpus or usable_cpus()) or 1
        settings, gang = self._node.settings, self._job.gang is not None
        turns = Turns(depth(settings, cpus, accelerated=self._accelerated(), gang=gang))

        def prepare(key: Key, ahead: bool) -> Turn:
            return runner.prepare(by_side[key[0]], benchmarks[key[1]], key[2], ahead=ahead)

        total = sum(map(len, rounds))
        try:
            for number, keys in enumerate(rounds):
                later = [key for more in rounds[number + 1 : number + 2] for key in more]
                for place, key in enumerate(keys):
                    if self._wanted(key):
                        self._say_run(key, by_side[key[0]].sha, total)
                        following = [*keys[place + 1 :], *later]
                        report = turns.run(key, prepare, lambda them=following: filter(self._wanted, them))  # type: ignore[misc]
                        self._keep(report, by_side[key[0]].sha)
                self._over |= self._ending  # after the pair: the other side is measured once even so
                if len(self._over) == len(self._job.benchmarks) or not another(number + 1):
                    return
        finally:
            turns.clear()

    def _accelerated(self) -> bool:
        return self._node.settings.device != "cpu" and bool(self._slot.devices or self._node.devices)

    def _wanted(self, key: Key) -> bool:
        return key not in self._done and key[1] not in self._over

    def _another_pair(self, done: int) -> bool:
        """The service decides; while it is away the planned minimum is measured and no more."""
        if done >= self._job.max_pairs:
            return False
        if self._job.gang is not None:
            return True  # the same number on every node, whatever the results say
        if not self._node.delivery.flush(self._attempt.id, FLUSH_S, self._attempt.stop):
            self._attempt.check()
            return done < self._job.min_pairs
        try:
            reply = self._node.client.next_pair(self._attempt.id, v1.NextPairRequest(pairs_done=done))
        except ServiceUnavailable as error:
            logger.warning("job %s: %s", self._job.job_id, error)
            return done < self._job.min_pairs
        except ServiceRefused as error:
            raise Stopped("lost", str(error)) from error
        self._attempt.line("worker", f"After {done} pairs: {reply.verdict} {reply.reason}")
        return reply.verdict == "continue"

    def _say_run(self, key: Key, sha: str, total: int) -> None:
        self._attempt.check()
        self._attempt.phase("run", f"{key[1]} on {sha[:12]}", self._count, total)

    def _keep(self, report: v1.RunReport, sha: str) -> None:
        key = report.key
        self._attempt.line("worker", f"{key.benchmark} #{key.replicate} on {sha[:12]}: {report.outcome}", key)
        if report.outcome in _FINAL and self._job.gang is None:
            self._ending.add(key.benchmark)
        self._deliver(report)

    def _is_done(self, key: v1.RunKey) -> bool:
        return (key.side, key.benchmark, key.replicate) in self._done

    def _deliver(self, report: v1.RunReport) -> None:
        """On disk first, then sent. With a full disk: sent at once, and only if that fails too the job ends."""
        self._count += 1
        if gangs.follows(self._job):
            return  # rank 0 reports
        try:
            self._node.spool.put(self._attempt.id, report)
        except SpoolFull as error:
            logger.error("%s", error)
            try:
                self._node.client.runs(self._attempt.id, v1.RunBatch(runs=(report,)), patience_s=FLUSH_S)
            except (ServiceUnavailable, ServiceRefused) as unsent:
                raise SpoolFull(f"{error} The service could not take the result directly either. {unsent}") from error
            return
        self._node.delivery.kick()

    def _say(self, phase: str, message: str) -> None:
        self._attempt.phase(phase, message)
        self._attempt.line("worker", message)


def _failure(message: str, *, transient: bool) -> v1.FinishRequest:
    kind = "transient" if transient else "permanent"
    return v1.FinishRequest.model_validate({"state": "failed", "error_kind": kind, "error": message[:20_000]})
