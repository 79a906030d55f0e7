"""Run one benchmark once, in a fresh process of the build's own Python, and say what became of it."""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groundspeed.plugins.gate import Gate
from groundspeed.plugins.protocol import ChildSpec, Limits
from groundspeed.plugins.spi import Outcome
from groundspeed.service.wire import v1
from groundspeed.workers import loaded
from groundspeed.workers.attempt import Attempt
from groundspeed.workers.caches import touch
from groundspeed.workers.environment import Environment
from groundspeed.workers.errors import SpoolFull
from groundspeed.workers.facets import to_wire as to_facets
from groundspeed.workers.logs import logger
from groundspeed.workers.outcomes import judge
from groundspeed.workers.process import Command
from groundspeed.workers.reports import Finding, collect_artefacts, read_report, to_wire
from groundspeed.workers.sandbox import Confinement
from groundspeed.workers.settings import WorkerSettings
from groundspeed.workers.slots import Slot
from groundspeed.workers.spool import Spool
from groundspeed.workers.stage import stage
from groundspeed.workers.turns import Process, Turn, turn_conditions
from groundspeed.workers.variables import with_python


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a job, ready to run."""

    index: int
    sha: str
    source: Path
    paths: tuple[str, ...]
    environment: Environment
    caches: Path
    """Folder of the compile caches of this revision at this level of trust."""


@dataclass(frozen=True, slots=True)
class Runner:
    """All that the runs of one job have in common."""

    settings: WorkerSettings
    spool: Spool
    attempt: Attempt
    slot: Slot
    job: v1.JobSpec
    cache: Path
    catalogue: Mapping[str, v1.PluginSpec]
    variables: Mapping[str, str]
    facets: tuple[v1.Facet, ...]
    confinement: Confinement | None
    gang: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Variables that tell a process of a job of several nodes where they meet."""

    def prepare(self, side: Side, benchmark: v1.BenchmarkSpec, replicate: int, *, ahead: bool) -> Turn:
        """One fresh process, or the result of something that could not even be started.

        ``ahead``: it is started at once and waits at its gate until its turn is finished.
        """
        key = v1.RunKey(side=side.index, benchmark=benchmark.key, replicate=replicate)
        plugin = self.catalogue.get(benchmark.plugin)
        if plugin is None or plugin.error:
            why = plugin.error if plugin else f"no plugin {benchmark.plugin!r} is installed on this node"
            return Turn(self.without_process(key, benchmark, Outcome.UNSUPPORTED, {"message": why}, side))
        try:
            limits = _limits(benchmark.limits)
        except (TypeError, ValueError) as error:
            words = {"message": f"limits: {error}"}
            return Turn(self.without_process(key, benchmark, Outcome.FAILED, words, side))
        if not side.source.is_dir():
            words = {"message": f"the checkout {side.source} is gone: a benchmark before this one deleted it"}
            return Turn(self.without_process(key, benchmark, Outcome.CRASHED, words, side))
        scratch = self.cache / "runs" / uuid.uuid4().hex
        (scratch / "work").mkdir(parents=True)
        gate = Gate(scratch / "gate") if ahead else None
        command = self._command(side, benchmark, plugin, limits, scratch, gate)
        one = Process(command, lambda stream, text: self.attempt.line(stream, text, key), self.attempt.stop, scratch)
        return Turn(process=one, report=lambda began: self._report(side, benchmark, key, plugin, one, began))

    def without_process(
        self,
        key: v1.RunKey,
        benchmark: v1.BenchmarkSpec,
        outcome: Outcome,
        evidence: Mapping[str, Any],
        side: Side | None = None,
    ) -> v1.RunReport:
        """A result of something that could not even be started."""
        plugin = self.catalogue.get(benchmark.plugin)
        return to_wire(
            Finding(
                key=key,
                benchmark=benchmark,
                outcome=outcome,
                evidence=evidence,
                started_at=time.time(),
                duration_s=0.0,
                environment=self.facets,
                build=side.environment.facets() if side else (),
                plugin_version=plugin.version if plugin else "0",
            )
        )

    def _report(
        self,
        side: Side,
        benchmark: v1.BenchmarkSpec,
        key: v1.RunKey,
        plugin: v1.PluginSpec,
        one: Process,
        began: float,
    ) -> v1.RunReport:
        """Has its turn, which began at ``began`` (monotonic). Raises Stopped when the job must end."""
        warm = _filled(side.caches)
        started_at, started = time.time(), time.monotonic()
        ended = one.finish()
        self.attempt.check()
        report, unreadable = read_report(one.scratch / "report.json")
        outcome, evidence = judge(one.command, ended, report, unreadable)
        now = time.monotonic()
        replaced = loaded.otherwise(report.conditions if report else {}, self.facets)
        finding = Finding(
            key=key,
            benchmark=benchmark,
            outcome=outcome,
            evidence=evidence,
            started_at=started_at,
            duration_s=now - started,
            report=report,
            conditions={
                "compile_caches": "warm" if warm else "cold",
                "control": self.attempt.control,
                "start": "alone" if one.command.gate is None else "ahead",
                **turn_conditions(report, now - began),
            },
            environment=self.facets,
            build=(*side.environment.facets(), *to_facets(replaced)),
            artefacts=self._keep_artefacts(report, one.scratch / "work"),
            plugin_version=plugin.version,
        )
        return to_wire(finding)

    def _command(
        self,
        side: Side,
        benchmark: v1.BenchmarkSpec,
        plugin: v1.PluginSpec,
        limits: Limits,
        scratch: Path,
        gate: Gate | None,
    ) -> Command:
        staged = stage(self.cache, plugin.distribution)
        spec = ChildSpec(
            plugin=benchmark.plugin,
            params=benchmark.params,
            report_path=str(scratch / "report.json"),
            progress_path=str(scratch / "progress.jsonl"),
            workdir=str(scratch / "work"),
            target=benchmark.target,
            paths=side.paths,
            device=self.settings.device,
            devices=benchmark.devices or self.slot.devices,
            limits=limits,
            gate=str(gate.path) if gate is not None else "",
        )
        command = Command(
            argv=(str(side.environment.python), "-P", "-m", "groundspeed.plugins.child"),
            cwd=side.source,
            env=self._variables(side, staged),
            stdin=spec.to_json(),
            wall_s=limits.wall_s,
            no_progress_s=limits.no_progress_s,
            progress_path=Path(spec.progress_path),
            memory_limit_bytes=self.settings.memory_limit,
            memory_always=self.settings.memory_limit_bytes > 0,
            log_bytes=self.settings.log_bytes_per_run,
            cpus=self.slot.cpus,
            gate=gate,
        )
        if self.confinement is not None:
            command = self.confinement.for_run(
                command,
                read=[staged, side.environment.home],
                write=[side.source, scratch, side.caches],
            )
        return command

    def _variables(self, side: Side, staged: Path) -> dict[str, str]:
        for name in ("inductor", "triton", "cuda"):
            (side.caches / name).mkdir(parents=True, exist_ok=True)
        touch(side.caches)
        return with_python(self.variables, side.environment.home) | {
            "PYTHONPATH": str(staged),
            "PYTHONNOUSERSITE": "1",
            "PYTHONFAULTHANDLER": "1",
            "PYTHONUNBUFFERED": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(side.caches / "inductor"),
            "TRITON_CACHE_DIR": str(side.caches / "triton"),
            "CUDA_CACHE_PATH": str(side.caches / "cuda"),
            **self.job.build.env,
            **self.gang,
        }

    def _keep_artefacts(self, report: Any, workdir: Path) -> tuple[v1.ArtefactRef, ...]:
        kept = []
        for reference, path in collect_artefacts(report, workdir, self.settings.artefact_max_bytes):
            try:
                self.spool.put_artefact(self.attempt.id, reference.sha256, path)
            except SpoolFull as error:
                logger.error("the artefact %s is left out: %s", reference.name, error)
                break
            kept.append(reference)
        return tuple(kept)


def _limits(overrides: Mapping[str, float | int | bool]) -> Limits:
    """Raises TypeError for an unknown name."""
    fields = {f.name: f.type for f in dataclasses.fields(Limits)}
    unknown = set(overrides) - set(fields)
    if unknown:
        raise TypeError(f"unknown limit {', '.join(sorted(unknown))}; there are: {', '.join(sorted(fields))}")
    kinds = {"float": float, "int": int, "bool": bool}
    return Limits(**{name: kinds[str(fields[name])](value) for name, value in overrides.items()})


def _filled(caches: Path) -> bool:
    """Whether any compile cache of this revision holds something."""
    return any(path.is_file() for path in caches.rglob("*"))
