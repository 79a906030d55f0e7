"""What the worker and the benchmark process say to each other. Standard library alone; versioned.

The worker starts ``python -m groundspeed.plugins.child`` in a fresh process group, writes one :class:`ChildSpec` as
JSON to its standard input and closes it. The child writes its :class:`ChildReport` as one JSON document to the file
``report_path`` (written to a temporary name and renamed, so that it is whole or absent), and progress as JSON lines
``{"t": epoch seconds, "message": "..."}`` to ``progress_path``. Standard output and error belong to the code
under test.

With ``gate`` set the child imports everything it needs, reports "ready" and sleeps at that named pipe (gate.py) before
it touches a device, so that its start costs the device no time.

Exit status 0: a report is there, whatever its outcome. Anything else without a report: the worker decides between
*crashed*, *oom* and *timeout* from how the process ended.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PROTOCOL_VERSION = 1


BY_DEVICE = -1
"""Of a limit: what suits the kind of device, see ``Limits.on``."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When measuring stops; every setting has a default that suits a short benchmark."""

    wall_s: float = 600.0
    no_progress_s: float = 120.0
    warmup_max_s: float = 3.0
    min_samples: int = 5
    max_samples: int = BY_DEVICE
    min_time_s: float = BY_DEVICE
    max_time_s: float = BY_DEVICE
    relative_half_width: float = 0.01
    """Stop when the interval of the median is this narrow (0.01 = ±1 %)."""
    profile: bool = True
    """Run the separate device-trace pass where the device has one."""
    profile_time_s: float = 0.4
    """Steps traced: as many as fill this, within bounds."""
    conditions_hz: float = 20.0
    """How often clocks, power, heat and the rest are read while measuring."""

    def on(self, *, accelerator: bool) -> Limits:
        """With what suits the device where nothing was set.

        An accelerator's host stumbles for tenths of a second and a power cap swings as long: a process covers more than
        one such swing. What a turn costs besides (context, loading of kernels) is then the smaller part of it.
        """
        given = {"max_samples": self.max_samples, "min_time_s": self.min_time_s, "max_time_s": self.max_time_s}
        suits = ACCELERATOR if accelerator else HOST
        found = {name: suits[name] if value < 0 else value for name, value in given.items()}
        return dataclasses.replace(self, **found)  # type: ignore[arg-type]


HOST: Mapping[str, float] = {"max_samples": 200, "min_time_s": 0.3, "max_time_s": 1.5}
ACCELERATOR: Mapping[str, float] = {"max_samples": 2000, "min_time_s": 2.0, "max_time_s": 3.0}


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One fresh process of one benchmark."""

    plugin: str
    params: Mapping[str, int | float | str | bool]
    report_path: str
    progress_path: str
    workdir: str
    target: str | None = None
    """"package.module:factory"."""
    paths: tuple[str, ...] = ()
    """Put first on sys.path, in this order."""
    device: str = "auto"
    devices: tuple[str, ...] = ()
    """Device UUIDs or indices this process may use; empty: all visible."""
    limits: Limits = field(default_factory=Limits)
    expected_version: str | None = None
    gate: str = ""
    """Named pipe to wait at before the device is touched; empty: go on at once."""
    version: int = PROTOCOL_VERSION

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ChildSpec:
        """Raises ValueError when the text was written by a newer version."""
        raw: dict[str, Any] = json.loads(text)
        _refuse_newer(raw)
        raw["limits"] = Limits(**raw.get("limits", {}))
        raw["paths"] = tuple(raw.get("paths", ()))
        raw["devices"] = tuple(raw.get("devices", ()))
        return cls(**raw)


@dataclass(frozen=True, slots=True)
class MetricReport:
    """Samples of one metric at one point of the sub-parameters, with the metric's declaration beside them."""

    metric: str
    unit: str
    direction: int
    kind: str
    values: tuple[float, ...]
    params: Mapping[str, int | float | str | bool] = field(default_factory=dict)
    states: tuple[str, ...] = ()
    gate: bool = True
    clock: str = "none"


@dataclass(frozen=True, slots=True)
class ChildReport:
    """What one fresh process found. ``outcome`` is a value of spi.Outcome.

    ``evidence``: for anything but ok: "message" (one line), "traceback", "peak_memory_bytes", "last_progress", …
    ``conditions``: summary (clocks, power, temperature, throttle reasons, foreign processes, launch_bound, cold caches,
    steady) plus "trace": columns of equal length by name, with "t_s" the time since start; not-available things are
    ``{"unavailable": "why"}``.
    ``phases_s``: seconds by phase: import, gate (asleep before its turn), device (first touch of it), setup, warmup,
    measure, profile, check, teardown.
    """

    plugin: str
    plugin_version: str
    outcome: str
    metrics: tuple[MetricReport, ...] = ()
    evidence: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    phases_s: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    device: str = "cpu"
    device_uuid: str | None = None
    artefacts: tuple[Mapping[str, str], ...] = ()
    """{"kind": "kernel-table", "name": "...", "path": file in workdir, "media_type": "application/json"}."""
    version: int = PROTOCOL_VERSION

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ChildReport:
        """Raises ValueError when the text was written by a newer version."""
        raw: dict[str, Any] = json.loads(text)
        _refuse_newer(raw)
        raw["metrics"] = tuple(
            MetricReport(**{**m, "values": tuple(m["values"]), "states": tuple(m.get("states", ()))})
            for m in raw.get("metrics", ())
        )
        raw["artefacts"] = tuple(raw.get("artefacts", ()))
        return cls(**raw)


def _refuse_newer(raw: Mapping[str, Any]) -> None:
    found = raw.get("version", 0)
    if not isinstance(found, int) or found > PROTOCOL_VERSION:
        raise ValueError(
            f"benchmark protocol version {found} is newer than {PROTOCOL_VERSION}, which this Groundspeed speaks: "
            "upgrade the worker so that worker and plugins come from the same release"
        )
