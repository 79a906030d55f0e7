"""May these two sides be compared at all? Refuse, adjust or compare, each in words.

A number without its conditions is no evidence: the rules look at what the two sides ran on before anybody looks at
what they measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from groundspeed.service.domain.compare import Verdict

Decision = Literal["compare", "adjust", "refuse"]

CLOCK_TOLERANCE = 0.02
"""Mean SM clocks this far apart, relative, are different conditions."""
CAP_TOLERANCE = 0.2
"""Share of samples under the power cap that may differ between sides."""

NeverCompared = Literal[
    "missing-baseline", "renamed", "lost", "wrong-hardware", "failing-base", "failing-head", "other-version", "refused"
]

WHY_NEVER: dict[NeverCompared, str] = {
    "missing-baseline": "The base has never been measured with this benchmark on this hardware.",
    "renamed": "The benchmark is called differently in the base: nothing says that the two are the same.",
    "lost": "The results of one side were lost before they reached the service.",
    "wrong-hardware": "The two sides ran on different hardware classes.",
    "failing-base": "The benchmark fails in the base, so there is nothing to compare with.",
    "failing-head": "The benchmark fails in the head: that is a finding of its own, and no measurement.",
    "other-version": "The benchmark's version differs between the sides: its numbers are not comparable.",
    "refused": "The sides ran under conditions that differ.",
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """What one side ran under; None where it was not recorded.

    ``clock_mhz`` is the mean SM clock while it was timed, ``capped`` the share of samples under the power cap,
    ``environment`` the fingerprint of node and stack.
    """

    hardware: str | None = None
    node: str | None = None
    device: str | None = None
    environment: str | None = None
    benchmark_version: str | None = None
    clock_mhz: float | None = None
    capped: float | None = None
    contaminated: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """The decision, its words, and what to scale head's times by when the decision is *adjust* (1.0 otherwise)."""

    decision: Decision
    words: tuple[str, ...] = ()
    scale: float = 1.0


def assess(base: Conditions, head: Conditions, question: Literal["code", "environment"] = "code") -> Evidence:
    """Judge whether base and head may be compared, when the question is what the code (or the environment) did.

    Different hardware, benchmark version, foreign load, node or (for code) environment: refuse. Another clock: adjust
    to equal cycles where both clocks are known and only one or neither side was held by the power cap.
    """
    refusals = [*_identity(base, head), *_environment(base, head, question)]
    if base.contaminated or head.contaminated:
        side = (
            "Both sides" if base.contaminated and head.contaminated else "The base" if base.contaminated else "The head"
        )
        refusals.append(f"{side} shared the device with another process.")
    if refusals:
        return Evidence("refuse", tuple(refusals))
    return _clocks(base, head)


def _identity(base: Conditions, head: Conditions) -> list[str]:
    out = []
    if _differ(base.hardware, head.hardware):
        out.append(f"Other hardware: {base.hardware} against {head.hardware}.")
    if _differ(base.benchmark_version, head.benchmark_version):
        out.append(f"Other version of the benchmark: {base.benchmark_version} against {head.benchmark_version}.")
    return out


def _environment(base: Conditions, head: Conditions, question: str) -> list[str]:
    out = []
    if question == "code" and _differ(base.environment, head.environment):
        out.append("The environment changed between the sides, so the code can't be told apart from it.")
    if _differ(base.node, head.node):
        out.append(f"The sides ran on different nodes, {base.node} and {head.node}, and not side by side.")
    elif _differ(base.device, head.device):
        out.append(f"The sides ran on different devices of {base.node or 'the node'}.")
    return out


def _clocks(base: Conditions, head: Conditions) -> Evidence:
    words = []
    if base.capped is not None and head.capped is not None and abs(base.capped - head.capped) > CAP_TOLERANCE:
        words.append(
            f"The power cap held {base.capped:.0%} of the base's samples and {head.capped:.0%} of the head's: "
            "the clock differed with it."
        )
    if base.clock_mhz is None or head.clock_mhz is None or min(base.clock_mhz, head.clock_mhz) <= 0.0:
        return Evidence("refuse", (*words, "Clocks were not recorded.")) if words else Evidence("compare")
    scale = head.clock_mhz / base.clock_mhz
    if abs(scale - 1.0) <= CLOCK_TOLERANCE:
        return Evidence("compare", tuple(words))
    words.append(
        f"The clock was {base.clock_mhz:.0f} MHz for the base and {head.clock_mhz:.0f} MHz for the head: times are "
        "compared at equal cycles."
    )
    return Evidence("adjust", tuple(words), scale)


def _differ(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and a != b


def adjusted(head: Sequence[Sequence[float]], evidence: Evidence) -> list[list[float]]:
    """Head's times as they would be at the base's clock (cycles are kept)."""
    return [[v * evidence.scale for v in process] for process in head]


def agreed(time: Verdict, cycles: Verdict | None) -> Verdict:
    """Time and cycles must agree where both exist: a change in time alone is the machine's, not the code's."""
    if cycles is None or cycles.answer == "never-compared" or time.answer not in {"regressed", "improved"}:
        return time
    if cycles.answer == time.answer or not math.isfinite(cycles.effect):
        return time
    if cycles.low <= 0.0 <= cycles.high or cycles.answer in {"unchanged", "regressed", "improved"}:
        words = (
            f"Time changed by {time.effect:+.2%} but cycles by {cycles.effect:+.2%}: the clock moved, which is the "
            "machine's doing and not the code's."
        )
        return replace(time, answer="inconclusive", reason=words)
    return time
