"""airspeed velocity suites, unmodified."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Literal

from groundspeed.plugins.asv_support import suite
from groundspeed.plugins.spi import Context, Direction, Kind, Measured, Metric, Needs, Param, ParamValue

_METRICS = {"time": "time", "memory": "memory", "peakmemory": "peak_memory", "track": "track"}


class Asv:
    """Self-timed: asv discovers, builds and runs, each benchmark in processes of its own, rounds interleaved.

    Everything of asv works that ``asv run`` does: ``time_``, ``timeraw_``, ``mem_``, ``peakmem_`` and ``track_``
    benchmarks, parameters, ``setup``, ``setup_cache``, ``teardown``, ``timeout``, ``rounds``, ``repeat``,
    ``version`` and
    ``skip_*``. A benchmark that fails is the value 1 of ``failed``, so that a new failure is a step like any other.
    """

    timing: ClassVar[Literal["self-timed"]] = "self-timed"
    name = "asv"
    version = "1"
    description = "airspeed velocity suites, run by asv itself"
    needs = Needs(packages=("asv>=0.6.4",), target=False)
    params: tuple[Param, ...] = (
        Param("conf", "str", "asv.conf.json", series=False, description="asv's configuration in the repository"),
        Param("bench", "str", "", series=False, description="regular expression; empty: every benchmark"),
        Param(
            "environment", "str", "asv", choices=("asv", "build"),
            description="asv: as asv.conf.json says, matrix and commands included; build: what this job has built",
        ),
        Param("env_name", "str", "", description="one environment of asv's matrix by its name; empty: all of them"),
        Param("quick", "bool", False, description="run each benchmark once: to see that it works, not how fast"),
        Param("launch", "str", "auto", choices=("auto", "spawn", "forkserver"), series=False),
        Param("env_dir", "str", "", series=False, description="where asv keeps environments; empty: the user's cache"),
    )  # fmt: skip

    def metrics(self) -> tuple[Metric, ...]:
        return (
            Metric(
                "time",
                "s",
                Direction.LOWER,
                Kind.TIME,
                clock="wall",
                description="time_ and timeraw_ benchmarks",
                formula="wall time of one call, by asv's own rule of repeats",
            ),
            Metric(
                "memory",
                "B",
                Direction.LOWER,
                Kind.BYTES,
                description="mem_ benchmarks: size of an object",
                formula="what a second copy of what it returns takes, by pympler's asizeof",
            ),
            Metric(
                "peak_memory",
                "B",
                Direction.LOWER,
                Kind.BYTES,
                description="peakmem_: maximum resident set size",
                formula="getrusage ru_maxrss of the benchmark's process",
            ),
            Metric(
                "track",
                "1",
                Direction.LOWER,
                Kind.COUNTER,
                description="track_ benchmarks, in their own unit",
                formula="the number that the benchmark returns",
            ),
            Metric(
                "failed",
                "1",
                Direction.LOWER,
                Kind.COUNTER,
                description="1 where a benchmark fails, else 0",
                formula="whether it raised or was ended",
            ),
        )

    def run(self, context: Context) -> Iterable[Measured]:
        given = context.params
        wishes = suite.Wishes(
            conf=str(given["conf"]), bench=str(given["bench"]), environment=str(given["environment"]),
            env_name=str(given["env_name"]), quick=bool(given["quick"]), launch=str(given["launch"]),
            env_dir=str(given["env_dir"]) or str(cache_dir(Path.cwd())),
        )  # fmt: skip
        for point in suite.run(Path.cwd(), wishes, context.progress):
            params: dict[str, ParamValue] = dict(point.params)
            if point.outcome != "skipped":
                yield Measured("failed", [float(point.outcome == "failed")], params)
            if point.outcome != "ok":
                context.progress(f"{point.name} {point.outcome}")
                continue
            if point.version:
                params["benchmark_version"] = point.version
            if point.kind == "track" and point.unit:
                params["unit"] = point.unit
            yield Measured(_METRICS.get(point.kind, "track"), point.samples, params)


def cache_dir(checkout: Path) -> Path:
    """Where environments of a repository are kept between jobs; another repository has another folder."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "groundspeed" / "asv" / checkout.name


PLUGIN = Asv()
