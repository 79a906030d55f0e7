"""Command: any program, by its resources or by what it prints."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Literal

from groundspeed.plugins.programs import formats, running
from groundspeed.plugins.programs.values import Reading
from groundspeed.plugins.spi import (
    Context,
    Direction,
    Kind,
    Measured,
    Metric,
    Needs,
    Param,
    ParamValue,
    SampleState,
    TimedOut,
    Unsupported,
    WrongResult,
)

TAIL = 4000
OUTPUT_FILE_BYTES = 64 << 20


class ProgramFailed(Exception):
    """The program did not do its work; ``evidence`` holds the ends of its output."""

    def __init__(self, message: str, evidence: dict[str, object]) -> None:
        super().__init__(message)
        self.evidence = evidence


class Command:
    """Self-timed. Each run is a fresh process tree, ended whole; the last readings of a failing program are kept."""

    timing: ClassVar[Literal["self-timed"]] = "self-timed"
    name = "command"
    version = "1"
    description = "Any program: wall, user and system time, peak memory, and values that it prints"
    needs = Needs(target=False)
    watches_devices: ClassVar[bool] = True
    params: tuple[Param, ...] = (
        Param("command", "str", "",
              description="without a shell; {python} is the build's Python, {workdir} an empty folder"),
        Param("parser", "str", "none", choices=("none", "auto", *formats.PARSERS),
              description="of its output; auto: whichever knows it"),
        Param("pattern", "str", "", series=False,
              description="regular expression for a line, with a group `value` and if wanted `name`"),
        Param("unit", "str", "",
              description="of the pattern's value: s, ms, GB/s, req/s, …; others are kept as they are"),
        Param("better", "str", "lower", choices=("lower", "higher"), description="of a value in another unit"),
        Param("pick", "str", "last", choices=("first", "last", "all"), description="of several matches in one run"),
        Param("output_file", "str", "", series=False,
              description="read this file that it writes (newest match; of {workdir} or the checkout), not stdout"),
        Param("runs", "int", 5, minimum=1, maximum=10_000, series=False),
        Param("warmups", "int", 1, minimum=0, maximum=1000, series=False, description="runs before, not counted"),
        Param("timeout_s", "float", 300.0, minimum=0.0, series=False, description="of one run; 0: none"),
        Param("silence_s", "float", 0.0, minimum=0.0, series=False, description="without output it has hung; 0: never"),
        Param("output_bytes", "int", 256 << 20, minimum=0, series=False,
              description="more than this ends it; 0: no limit"),
        Param("processes", "int", 4096, minimum=0, series=False, description="more than this ends it; 0: no limit"),
        Param("status", "int", 0, minimum=0, maximum=255, series=False, description="exit status that means success"),
    )  # fmt: skip

    def metrics(self) -> tuple[Metric, ...]:
        return METRICS

    def run(self, context: Context) -> Iterable[Measured]:
        argv = arguments(context)
        check_pattern(str(context.params["pattern"]))
        bounds = running.Bounds(
            timeout_s=float(context.params["timeout_s"]),
            silence_s=float(context.params["silence_s"]),
            output_bytes=int(context.params["output_bytes"]),
            processes=int(context.params["processes"]),
        )
        seen = Seen()
        trouble: Exception | None = None
        warm_ups = int(context.params["warmups"])
        for number in range(warm_ups + int(context.params["runs"])):
            context.progress(f"run {number + 1}")
            begin = time.perf_counter()
            try:
                with context.phase("warmup") if number < warm_ups else contextlib.nullcontext():
                    ended, reading = once(argv, context, bounds)
            except (TimedOut, ProgramFailed, WrongResult) as error:
                trouble = error
                reading = getattr(error, "reading", Reading())
                ended = None
            if number >= warm_ups or trouble is not None:
                seen.add(ended, reading, context.state_between(begin, time.perf_counter() - begin))
            if trouble is not None:
                break
        yield from seen.measured()
        if trouble is not None:
            raise trouble


class Seen:
    """Values of all runs by metric and parameters."""

    def __init__(self) -> None:
        self._points: dict[tuple[str, tuple[tuple[str, ParamValue], ...]], list[tuple[float, SampleState]]] = {}

    def add(self, ended: running.Ended | None, reading: Reading, state: SampleState) -> None:
        """``state``: of all values of this run, by the device's conditions while it went on."""
        if ended is not None:
            for metric, value in (
                ("wall_time", ended.wall_s),
                ("user_time", ended.user_s),
                ("system_time", ended.system_s),
                ("peak_memory", float(ended.peak_rss_bytes)),
            ):
                self._points.setdefault((metric, ()), []).append((value, state))
        for one in reading.values:
            where = (one.metric, tuple(sorted(one.params.items())))
            self._points.setdefault(where, []).append((one.value, state))

    def measured(self) -> Iterable[Measured]:
        for (metric, params), points in self._points.items():
            yield Measured(metric, [one for one, _ in points], dict(params), [state for _, state in points])


def arguments(context: Context) -> list[str]:
    """Raises Unsupported that says what is wrong with ``command``."""
    text = str(context.params["command"])
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Unsupported(f"command = {text!r} cannot be split into words: {error}") from error
    if not words:
        raise Unsupported('set params.command to the program and its arguments, such as "all_reduce_perf -b 8 -e 1G"')
    known = {"{python}": sys.executable, "{workdir}": str(context.workdir)}
    for name, value in known.items():
        words = [word.replace(name, value) for word in words]
    return words


def check_pattern(expression: str) -> None:
    try:
        re.compile(expression)
    except re.error as error:
        raise Unsupported(f"pattern = {expression!r} is no regular expression: {error}") from error


def once(argv: list[str], context: Context, bounds: running.Bounds) -> tuple[running.Ended, Reading]:
    """One run. Raises TimedOut, ProgramFailed or WrongResult, the last two with ``reading`` as far as it goes."""
    try:
        ended = running.run(argv, cwd=Path.cwd(), env=os.environ, bounds=bounds, alive=context.progress)
    except OSError as error:
        raise Unsupported(f"the program {argv[0]!r} cannot be started: {error.strerror}") from error
    evidence: dict[str, object] = {
        "exit_status": ended.status,
        "stdout_tail": ended.stdout.text()[-TAIL:],
        "stderr_tail": ended.stderr.text()[-TAIL:],
        "left_processes": ended.left_behind,
    }
    if ended.left_behind:
        context.labels["left_processes"] = f"the program left {ended.left_behind} processes behind; they were ended"
    if ended.cause in {"timeout", "silence"}:
        limit = bounds.timeout_s if ended.cause == "timeout" else bounds.silence_s
        name = "timeout_s" if ended.cause == "timeout" else "silence_s"
        what = "still ran" if ended.cause == "timeout" else "had printed nothing"
        raise TimedOut(f"{argv[0]} {what} after {limit:g} s ({name}); it and all it started were ended", evidence)
    if ended.cause:
        limits = {"output": f"printed more than {bounds.output_bytes} bytes (output_bytes)",
                  "processes": f"started more than {bounds.processes} processes (processes)"}  # fmt: skip
        raise ProgramFailed(f"{argv[0]} {limits[ended.cause]} and was ended", evidence)
    reading = read(context, ended)
    trouble: Exception | None = None
    if ended.status != int(context.params["status"]):
        how = f"died by signal {-ended.status}" if ended.status < 0 else f"ended with status {ended.status}"
        trouble = ProgramFailed(f"{argv[0]} {how}: {last_line(ended)}", evidence)
    elif reading.wrong:
        trouble = WrongResult(reading.wrong)
    elif reading.failed:
        trouble = ProgramFailed(f"{argv[0]}: {reading.failed}", evidence)
    if trouble is not None:
        trouble.reading = reading  # type: ignore[attr-defined]
        raise trouble
    return ended, reading


def last_line(ended: running.Ended) -> str:
    lines = (ended.stderr.text().strip() or ended.stdout.text().strip()).splitlines()
    return lines[-1][:300] if lines else "it printed nothing"


def read(context: Context, ended: running.Ended) -> Reading:
    """The declared pattern's values and those of the parser; a program of which neither is asked gives none."""
    parser, expression = str(context.params["parser"]), str(context.params["pattern"])
    if parser == "none" and not expression:
        return Reading()
    text = output_of(context, ended)
    reading = Reading()
    if expression:
        params = context.params
        reading = formats.pattern(text, expression, str(params["unit"]), str(params["better"]), str(params["pick"]))
    if parser != "none":
        name = formats.guess(text) if parser == "auto" else parser
        if not name:
            reading.failed = f"no parser knows the output; there are: {', '.join(formats.PARSERS)}"
            return reading
        found = formats.PARSERS[name](text)
        reading.values += found.values
        reading.wrong = found.wrong
        reading.failed = reading.failed or found.failed
    return reading


def output_of(context: Context, ended: running.Ended) -> str:
    """Standard output (and, where that is empty, standard error), or the newest file that matches ``output_file``."""
    wanted = str(context.params["output_file"])
    if not wanted:
        text = ended.stdout.text()
        return text if text.strip() else ended.stderr.text()
    name = wanted.replace("{workdir}", str(context.workdir))
    roots = [Path("/")] if name.startswith("/") else [context.workdir, Path.cwd()]
    found = [path for root in roots for path in root.glob(name.lstrip("/")) if path.is_file()]
    if not found:
        return ""
    newest = max(found, key=lambda path: path.stat().st_mtime)
    with newest.open("rb") as file:
        return file.read(OUTPUT_FILE_BYTES).decode("utf-8", "replace")


def _time(name: str, description: str, formula: str, *, gate: bool = False) -> Metric:
    return Metric(name, "s", Direction.LOWER, Kind.TIME, description, formula, gate, "wall")


def _rate(name: str, unit: str, description: str, formula: str, *, gate: bool = True) -> Metric:
    return Metric(name, unit, Direction.HIGHER, Kind.RATE, description, formula, gate, "wall")


METRICS = (
    _time("wall_time", "from start to end of the program", "perf_counter around it"),
    Metric("user_time", "s", Direction.LOWER, Kind.TIME, "CPU time in the program and the children it waited for",
           "wait4, ru_utime", clock="cpu"),
    Metric("system_time", "s", Direction.LOWER, Kind.TIME, "CPU time in the kernel on their behalf", "wait4, ru_stime",
           gate=False, clock="cpu"),
    Metric("peak_memory", "B", Direction.LOWER, Kind.BYTES, "resident set of the largest of its processes",
           "wait4, ru_maxrss"),
    _time("reported_time", "by the pattern, where its unit is a time", "the printed number in seconds", gate=True),
    _rate("reported_rate", "1/s", "by the pattern, where its unit is a rate", "the printed number"),
    _rate("reported_bandwidth", "B/s", "by the pattern, where its unit is bytes a second", "the printed number in B/s"),
    Metric("reported_bytes", "B", Direction.LOWER, Kind.BYTES, "by the pattern, where its unit is bytes",
           "the printed number in bytes"),
    Metric("reported_lower", "1", Direction.LOWER, Kind.COUNTER, "by the pattern, in its own unit, lower is better",
           "the printed number"),
    Metric("reported_higher", "1", Direction.HIGHER, Kind.COUNTER, "by the pattern, in its own unit, higher is better",
           "the printed number"),
    _time("collective_time", "nccl-tests: one operation", "column time"),
    _rate("algorithm_bandwidth", "B/s", "nccl-tests: buffer size over time", "column algbw", gate=False),
    _rate("bus_bandwidth", "B/s", "nccl-tests: what each link carries", "column busbw"),
    _rate("average_bus_bandwidth", "B/s", "nccl-tests: over all sizes", "Avg bus bandwidth", gate=False),
    _rate("query_rate", "queries/s", "trtexec: throughput", "Throughput in qps"),
    _time("device_time", "trtexec: GPU compute time of a query", "GPU Compute Time", gate=True),
    _time("enqueue_time", "trtexec: host time of starting a query", "Enqueue Time"),
    _time("transfer_time", "trtexec: copies of a query", "H2D Latency, D2H Latency"),
    _rate("request_rate", "requests/s", "vLLM, SGLang: completed requests", "request throughput"),
    _rate("token_rate", "tokens/s", "vLLM, SGLang: input, output or all tokens", "token throughput"),
    _time("time_to_first_token", "vLLM, SGLang: from request to first token", "TTFT"),
    _time("time_per_output_token", "vLLM, SGLang: tokens after the first", "TPOT"),
    _time("inter_token_latency", "vLLM, SGLang: between tokens", "ITL"),
    _time("end_to_end_latency", "vLLM, SGLang: from request to last token; trtexec: of a query with its copies",
          "E2EL, E2E latency, Latency, Host Latency"),
    Metric("completed_share", "1", Direction.HIGHER, Kind.RATIO, "vLLM, SGLang: requests that were answered",
           "completed / asked", gate=False),
)  # fmt: skip

PLUGIN = Command()
