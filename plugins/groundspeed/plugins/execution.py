"""From a ChildSpec to a ChildReport: load the plugin, check it, run it, and turn whatever happens into a result."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groundspeed.plugins import gate, registry, targets
from groundspeed.plugins import params as parameters
from groundspeed.plugins.device import open_backend, present
from groundspeed.plugins.errors import VersionMismatch
from groundspeed.plugins.outcomes import classify, evidence
from groundspeed.plugins.progress import ProgressFile
from groundspeed.plugins.protocol import ChildReport, ChildSpec, MetricReport
from groundspeed.plugins.spi import Context, Measured, Metric, Outcome, Plugin, SampleState, Unsupported
from groundspeed.plugins.timing.conditions import Conditions, first_visible
from groundspeed.plugins.timing.drive import drive, keep_artefact
from groundspeed.plugins.timing.peak import peak_memory


@dataclass(slots=True)
class Session:
    """What has been found out so far; becomes the report however the run ends."""

    spec: ChildSpec
    progress: ProgressFile
    plugin: Plugin | None = None
    device: str = "cpu"
    outcome: Outcome = Outcome.OK
    metrics: list[MetricReport] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)
    conditions: Conditions | None = None
    observed: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    phases_s: dict[str, float] = field(default_factory=dict)
    artefacts: list[dict[str, str]] = field(default_factory=list)
    _within: list[float] = field(default_factory=list)
    """Of each phase that is under way, the seconds of those within it."""

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times a phase and reports that it began; phases of one name add up, one within another is not part of it."""
        self.progress(name, urgent=True)
        begin = time.perf_counter()
        self._within.append(0.0)
        try:
            yield
        finally:
            whole, within = time.perf_counter() - begin, self._within.pop()
            self.phases_s[name] = self.phases_s.get(name, 0.0) + whole - within
            if self._within:
                self._within[-1] += whole

    def state_between(self, start_s: float, duration_s: float) -> SampleState:
        """See spi.Context."""
        return SampleState.VALID if self.conditions is None else self.conditions.state_between(start_s, duration_s)

    def report(self) -> ChildReport:
        conditions = {**(self.conditions.summary() if self.conditions else {}), **self.observed}
        conditions["overhead_share"] = overhead_share(self.phases_s)
        return ChildReport(
            plugin=self.spec.plugin,
            plugin_version=self.plugin.version if self.plugin is not None else "0",
            outcome=str(self.outcome),
            metrics=tuple(self.metrics),
            evidence=self.evidence,
            conditions=conditions,
            phases_s=self.phases_s,
            facts=self.facts,
            device=self.device,
            device_uuid=self.conditions.device_uuid if self.conditions else None,
            artefacts=tuple(self.artefacts),
        )


def execute(spec: ChildSpec) -> ChildReport:
    """Runs the benchmark in this process. Never raises for what plugin or target do; KeyboardInterrupt goes through."""
    session = Session(spec, ProgressFile(spec.progress_path))
    try:
        _run(session)
    except Exception as error:  # noqa: BLE001 - the process edge: whatever plugin or target raise is the result
        session.outcome = classify(error)
        session.evidence = {**evidence(error), "last_progress": session.progress.last_message}
        session.evidence["peak_memory_bytes"] = peak_memory(session.device)
    except SystemExit as error:
        session.outcome = Outcome.FAILED
        session.evidence = {"message": f"the code under test called sys.exit({error.code!r})"}
    finally:
        if session.conditions is not None:
            session.conditions.stop()
    report = session.report()
    session.progress(f"done: {session.outcome}", urgent=True)
    session.progress.close()
    return report


def _run(session: Session) -> None:
    with session.phase("import"):
        plugin, context = _load(session)
    try:
        if session.spec.gate and hasattr(plugin, "start_ahead"):
            plugin.start_ahead(context)
        _await_turn(session)
        _measure(session, plugin, context)
    finally:
        for started in context.ahead.values():
            started.close()


def _load(session: Session) -> tuple[Plugin, Context]:
    """Everything that needs no device. Raises Unsupported, and what importing the target raises."""
    spec = session.spec
    plugin = session.plugin = registry.load(spec.plugin)
    if spec.expected_version is not None and spec.expected_version != plugin.version:
        raise VersionMismatch(
            f"the job was planned for {spec.plugin} version {spec.expected_version}, "
            f"and {plugin.version} is installed here: update the worker and ask again"
        )
    resolved = parameters.resolve(spec.plugin, plugin.params, spec.params)
    _require_packages(plugin)
    session.device = choose_device(spec.device, plugin)
    seed_everything(int(resolved.get("seed", 0)))
    target = targets.resolve(spec.target) if spec.target else None
    if plugin.needs.target and target is None:
        raise Unsupported(f'plugin {plugin.name!r} needs target = "package.module:factory" in groundspeed.toml')
    preload(plugin)
    return plugin, Context(
        device=session.device,
        params=resolved,
        target=target,
        workdir=Path(spec.workdir),
        progress=session.progress,
        facts=session.facts,
        phase=session.phase,
        state_between=session.state_between,
        keep=lambda artefact: keep_artefact(session, artefact),
    )


def _measure(session: Session, plugin: Plugin, context: Context) -> None:
    """The device is this process's own, or that of the processes which it starts."""
    by_others = hasattr(plugin, "start_ahead")
    with session.phase("device"):
        watched, others = session.device, ()
        if watched == "cpu" and getattr(plugin, "watches_devices", False):
            watched = first_visible()
        if hasattr(plugin, "devices"):
            others = tuple(name for name in plugin.devices(context) if name != watched)
        session.conditions = Conditions.start(
            watched,
            (lambda: None) if by_others else (lambda: touch(session.device)),
            others=others,
            for_programs=by_others or watched != session.device,
            rate_hz=session.spec.limits.conditions_hz,
        )
    session.observed["labels"] = context.labels
    declared = {metric.name: metric for metric in plugin.metrics()}
    if plugin.timing == "stepped":
        measured: Iterable[Measured] = drive(session, plugin, context)
    else:
        measured = plugin.run(context)
    try:
        with session.phase("measure") if plugin.timing == "self-timed" else contextlib.nullcontext():
            for one in measured:
                session.metrics.append(metric_report(one, declared, plugin.name))
    finally:  # what was measured before a rank failed has its conditions too
        if plugin.timing == "self-timed":
            context.labels.update(session.conditions.labels())
        if "contaminated" in context.labels:
            session.metrics = [spoiled(one) for one in session.metrics]


def spoiled(report: MetricReport) -> MetricReport:
    """As it counts where a stranger used the device: figures of the whole run (a percentile, energy), which have no
    state a sample, are rejected. CPU time, memory of torch's allocator and counts are this process's own.
    """
    if report.states or not (report.clock in {"wall", "device", "cycles"} or report.unit.startswith("J")):
        return report
    return dataclasses.replace(report, states=(str(SampleState.REJECTED),) * len(report.values))


def preload(plugin: Plugin) -> None:
    """What the plugin imports only when it runs: before the process has its turn on the device."""
    for name in (*map(package_name, plugin.needs.packages), *getattr(plugin, "imports", ())):
        with contextlib.suppress(ImportError):  # told where it is used
            importlib.import_module(name)
    if present.accelerator_possible():
        open_backend()


def _await_turn(session: Session) -> None:
    """Sleeps at the gate, if there is one. From here on the device is this process's own."""
    if session.spec.gate:
        with session.phase("gate"):
            gate.wait(session.spec.gate)


def touch(device: str) -> None:
    """Makes the device's context, which takes a good part of a second, so that it is not counted as something else."""
    kind = device.partition(":")[0]
    if kind in {"cuda", "xpu"} and "torch" in sys.modules:
        getattr(sys.modules["torch"], kind).synchronize(device)


BEFORE_TURN = ("import", "gate")


def overhead_share(phases_s: Mapping[str, float]) -> float:
    """Share of the process's time in which nothing was measured: set-up, warm-up, checks; imports too, without a gate.

    A process with a gate imports while another measures: what its turn took beside measuring, whoever opened the gate
    knows better, and puts into the result.
    """
    alone = "gate" not in phases_s
    total = sum(seconds for name, seconds in phases_s.items() if alone or name not in BEFORE_TURN)
    return round(1 - measuring_s(phases_s) / total, 4) if total else 0.0


def measuring_s(phases_s: Mapping[str, float]) -> float:
    """Seconds in which samples were taken: the timed pass and the traced pass."""
    return phases_s.get("measure", 0.0) + phases_s.get("profile", 0.0)


def _numbers(measured: Measured, plugin: str) -> tuple[float, ...]:
    try:
        return tuple(float(value) for value in measured.values)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"plugin {plugin!r} yielded a value of {measured.metric!r} that is no number: {error}"
        ) from error


def metric_report(measured: Measured, declared: dict[str, Metric], plugin: str) -> MetricReport:
    """Raises ValueError when the plugin yields what it has not declared."""
    if not hasattr(measured, "metric") or not hasattr(measured, "values"):
        raise ValueError(f"plugin {plugin!r} yielded {type(measured).__name__}, and run() yields Measured")
    if measured.metric not in declared:
        raise ValueError(f"plugin {plugin!r} yielded {measured.metric!r}, which its metrics() does not declare")
    metric = declared[measured.metric]
    return MetricReport(
        metric=metric.name,
        unit=metric.unit,
        direction=int(metric.direction),
        kind=str(metric.kind),
        values=_numbers(measured, plugin),
        params=dict(measured.params),
        states=tuple(str(state) for state in measured.states),
        gate=metric.gate if measured.gate is None else measured.gate,
        clock=metric.clock,
    )


def choose_device(asked: str, plugin: Plugin) -> str:
    """As present.choose, but a plugin that does not use torch gets "cpu" for "auto"."""
    if asked != "auto":
        return asked
    if "torch" not in {package_name(package) for package in plugin.needs.packages}:
        return "cpu"
    return present.choose(asked)


def seed_everything(seed: int) -> None:
    """Python's, and where they are loaded numpy's and torch's generators."""
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(seed)


def package_name(requirement: str) -> str:
    """The name in a requirement: torch of torch>=2.6."""
    return requirement.partition(">")[0].partition("=")[0].strip()


def _require_packages(plugin: Plugin) -> None:
    for package in plugin.needs.packages:
        if importlib.util.find_spec(package_name(package)) is None:
            raise Unsupported(f"plugin {plugin.name!r} needs the package {package!r}, which is not importable here")
