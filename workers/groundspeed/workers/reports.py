"""From what a benchmark process reported to the message that goes to the service."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from groundspeed.plugins.protocol import ChildReport, MetricReport
from groundspeed.plugins.spi import Outcome
from groundspeed.service.wire import v1
from groundspeed.workers.outcomes import clean
from groundspeed.workers.progress import open_plain

MOST_REPORT_BYTES = 64 << 20
MOST_VALUES = 100_000
MOST_ARTEFACTS = 20
_LARGEST = 10**300
_UNUSABLE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a report of any shape can make Python raise."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one process, before it is put on the wire."""

    key: v1.RunKey
    benchmark: v1.BenchmarkSpec
    outcome: Outcome
    evidence: Mapping[str, Any]
    started_at: float
    duration_s: float
    report: ChildReport | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    environment: tuple[v1.Facet, ...] = ()
    build: tuple[v1.Facet, ...] = ()
    artefacts: tuple[v1.ArtefactRef, ...] = ()
    plugin_version: str = ""


def read_report(path: Path) -> tuple[ChildReport | None, str]:
    """The report, or None and why it cannot be used (empty: there is none)."""
    try:
        with open_plain(path) as file:
            text = file.read(MOST_REPORT_BYTES + 1)
        if len(text) > MOST_REPORT_BYTES:
            return None, f"the report is longer than the {MOST_REPORT_BYTES:,} bytes that are read"
        report = ChildReport.from_json(_whole_characters(text.decode("utf-8")))
        Outcome(report.outcome)
        _check(report)
    except FileNotFoundError:
        return None, ""
    except (OSError, *_UNUSABLE) as error:
        return None, f"the report cannot be read: {str(error)[:500]}"
    return report, ""


def _whole_characters(text: str) -> str:
    """Halves of characters, which JSON can name and no store takes, become question marks."""
    if "\\ud" not in text.lower():
        return text
    return json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8", "replace").decode()


def _check(report: ChildReport) -> None:
    """Raises ValueError where something is not of the kind that it is said to be: any code may have written it."""
    names = ("evidence", "conditions", "phases_s", "facts")
    wrong = [name for name in names if not isinstance(getattr(report, name), dict)]
    wrong += [name for name in ("plugin", "plugin_version", "device") if not _is_text(getattr(report, name))]
    wrong += ["device_uuid"] if not _is_text(report.device_uuid or "") else []
    if "phases_s" not in wrong and not all(_is_number(value) for value in report.phases_s.values()):
        wrong.append("phases_s")
    if not all(isinstance(one, dict) and all(isinstance(v, str) for v in one.values()) for one in report.artefacts):
        wrong.append("artefacts")
    if not all(_is_point(m.params) and all(map(_is_value, m.values)) for m in report.metrics):
        wrong.append("metrics")
    if wrong:
        raise ValueError(f"{', '.join(wrong)} cannot be what they are")


def _is_point(params: object) -> bool:
    """Parameters: texts, switches and numbers that JSON has."""
    return isinstance(params, dict) and all(_is_text(value) or _is_number(value) for value in params.values())


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_value(value: object) -> bool:
    """A number that a float can hold; NaN and infinity are sorted out, and counted, later."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < _LARGEST)


def _is_number(value: object) -> bool:
    return _is_value(value) and math.isfinite(value)  # type: ignore[arg-type]


def to_wire(finding: Finding) -> v1.RunReport:
    """The message; what the wire does not take becomes a *crashed* run that says so, never an exception."""
    try:
        return _message(finding)
    except _UNUSABLE as error:
        evidence = {"message": f"the benchmark's report breaks the protocol: {str(error)[:2000]}"}
        bare = Finding(
            key=finding.key,
            benchmark=finding.benchmark,
            outcome=Outcome.CRASHED,
            evidence=evidence,
            started_at=finding.started_at,
            duration_s=finding.duration_s,
            environment=finding.environment,
            build=finding.build,
            plugin_version=finding.plugin_version,
        )
        return _message(bare)


def _message(finding: Finding) -> v1.RunReport:
    report = finding.report
    conditions = dict(finding.conditions)
    samples: list[v1.Samples] = []
    if report is not None:
        conditions = {**clean(dict(report.conditions)), **conditions}
        samples = [_samples(metric, conditions) for metric in report.metrics]
    return v1.RunReport(
        key=finding.key,
        plugin=finding.benchmark.plugin,
        plugin_version=(report.plugin_version if report else "") or finding.plugin_version or "0",
        params=finding.benchmark.params,
        outcome=finding.outcome.value,
        started_at=finding.started_at,
        duration_s=finding.duration_s,
        samples=tuple(samples),
        evidence=dict(finding.evidence),
        conditions=conditions,
        facts=clean(dict(report.facts)) if report else {},
        phases_s={str(k): float(v) for k, v in report.phases_s.items()} if report else {},
        device_uuid=_device(finding),
        environment=finding.environment,
        build=finding.build,
        artefacts=finding.artefacts,
    )


def _device(finding: Finding) -> str | None:
    """What the process has seen it ran on, else the one device that it was given."""
    if finding.report is not None and finding.report.device_uuid:
        return finding.report.device_uuid
    given = finding.benchmark.devices
    return given[0] if len(given) == 1 else None


def _samples(metric: MetricReport, conditions: dict[str, Any]) -> v1.Samples:
    """Values that are no numbers cannot be stored; how many there were is kept in the conditions."""
    if metric.states and len(metric.states) != len(metric.values):
        raise ValueError(f"metric {metric.metric}: {len(metric.states)} states for {len(metric.values)} values")
    finite = [i for i, value in enumerate(metric.values) if math.isfinite(value)][:MOST_VALUES]
    if len(finite) < len(metric.values):
        conditions.setdefault("values_not_sent", {})[metric.metric] = len(metric.values) - len(finite)
    return v1.Samples.model_validate(
        {
            "metric": metric.metric,
            "unit": metric.unit,
            "direction": metric.direction,
            "kind": metric.kind,
            "gate": metric.gate,
            "clock": metric.clock,
            "params": dict(metric.params),
            "values": [float(metric.values[i]) for i in finite],
            "states": [metric.states[i] for i in finite] if metric.states else [],
        }
    )


def collect_artefacts(report: ChildReport | None, workdir: Path, limit_bytes: int) -> list[tuple[v1.ArtefactRef, Path]]:
    """The files a report names, if they really lie in the process's own folder and are not too large."""
    found: list[tuple[v1.ArtefactRef, Path]] = []
    for named in (report.artefacts if report else ())[:MOST_ARTEFACTS]:
        try:
            path = (workdir / named["path"]).resolve()
            if not path.is_relative_to(workdir.resolve()) or not path.is_file() or path.stat().st_size > limit_bytes:
                continue
            reference = v1.ArtefactRef(
                kind=named["kind"],
                name=named["name"],
                sha256=file_sha256(path),
                size_bytes=path.stat().st_size,
                media_type=named.get("media_type", "application/octet-stream"),
            )
        except (OSError, RuntimeError, *_UNUSABLE):  # Python calls a ring of links a RuntimeError
            continue
        found.append((reference, path))
    return found


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
