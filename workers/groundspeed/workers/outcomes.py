"""From how a benchmark process ended to an outcome with its evidence. Pure."""

from __future__ import annotations

import re
import signal
from typing import Any

from groundspeed.plugins.doctor import texts
from groundspeed.plugins.protocol import ChildReport
from groundspeed.plugins.spi import Outcome
from groundspeed.plugins.symptoms import as_dict
from groundspeed.workers.output import harmless
from groundspeed.workers.process import Command, Ended

MAX_TEXT = 16_000
_OUT_OF_MEMORY = re.compile(
    r"MemoryError|std::bad_alloc|Cannot allocate memory|[Oo]ut of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY"
)


def judge(
    command: Command, ended: Ended, report: ChildReport | None, unreadable: str
) -> tuple[Outcome, dict[str, Any]]:
    """Outcome and evidence of one process.

    A limit that ended the process speaks first, then its own report, then how it died. ``unreadable`` says why a
    report that is there cannot be used.
    """
    outcome, message = _verdict(command, ended, report, unreadable)
    if outcome is Outcome.OK:
        return outcome, {}
    found: dict[str, Any] = {"message": message, **_circumstances(ended)}
    if report is not None:
        found |= report.evidence
    if "hints" not in found and (codes := _symptoms(outcome, ended, report)):
        found["hints"] = [as_dict(code) for code in codes]
    return outcome, clean(found)


def _symptoms(outcome: Outcome, ended: Ended, report: ChildReport | None) -> list[str]:
    """What doctor would say of a process that was ended or died without a word of its own."""
    if ended.cause in {"wall", "no-progress"}:
        return ["hang"]
    if report is not None:
        return []
    said = texts.codes(ended.stderr_tail)
    return said or (["out-of-memory"] if outcome is Outcome.OOM else [])


def _verdict(command: Command, ended: Ended, report: ChildReport | None, unreadable: str) -> tuple[Outcome, str]:
    if ended.cause == "not-started":
        return Outcome.CRASHED, f"the benchmark process could not be started: {ended.error}"
    if ended.cause == "wall":
        return Outcome.TIMEOUT, f"still running after the limit of {command.wall_s:g} s (wall_s); it was ended"
    if ended.cause == "no-progress":
        return Outcome.TIMEOUT, (
            f"no sign of life for {command.no_progress_s:g} s (no_progress_s), last: {ended.last_progress or 'none'}"
        )
    if ended.cause == "memory":
        return Outcome.OOM, (
            f"held {ended.max_rss_bytes:,} bytes of memory, more than the {command.memory_limit_bytes:,} allowed on "
            "this node (memory_limit_bytes); it was ended"
        )
    if report is not None:
        return Outcome(report.outcome), str(report.evidence.get("message", ""))
    return _died(ended, unreadable)


def _died(ended: Ended, unreadable: str) -> tuple[Outcome, str]:
    status = ended.status
    if unreadable:
        return Outcome.CRASHED, unreadable
    if ended.kernel_oom and status in {-signal.SIGKILL, 137}:
        return Outcome.OOM, "the kernel ended the process because memory ran out"
    if _OUT_OF_MEMORY.search(ended.stderr_tail[-4000:]):
        return Outcome.OOM, "the process ran out of memory and died without a report"
    if status is not None and status < 0:
        return Outcome.CRASHED, f"the process died by {_signal_name(-status)} without a report"
    if status is None:
        return (
            Outcome.CRASHED,
            "the process that started the benchmark was killed with it, so how it ended is not known",
        )
    return Outcome.CRASHED, f"the process ended with status {status} without a report"


def _circumstances(ended: Ended) -> dict[str, Any]:
    found: dict[str, Any] = {"wall_s": round(ended.wall_s, 3), "peak_memory_bytes": ended.max_rss_bytes}
    if ended.status is not None and ended.status < 0:
        found["signal"] = _signal_name(-ended.status)
    elif ended.status:
        found["exit_status"] = ended.status
    for name in ("stderr_tail", "stacks", "last_progress"):
        if text := getattr(ended, name):
            found[name] = text
    if not ended.stderr_tail and ended.stdout_tail:
        found["stdout_tail"] = ended.stdout_tail
    if ended.swept:
        found["left_processes"] = ended.swept
    if ended.unkillable:
        found["unkillable_processes"] = ended.unkillable
    return found


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def clean(value: Any, depth: int = 6) -> Any:
    """JSON-safe copy of what a child said: text made harmless and cut, numbers finite, depth and length bounded."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict) and depth:
        return {harmless(str(k))[:200]: clean(v, depth - 1) for k, v in list(value.items())[:1000]}
    if isinstance(value, (list, tuple)) and depth:
        return [clean(v, depth - 1) for v in value[:20_000]]
    return harmless(_cut(str(value)))


def _cut(text: str) -> str:
    half = MAX_TEXT // 2
    return text if len(text) <= MAX_TEXT else f"{text[:half]}\n[…]\n{text[-half:]}"
