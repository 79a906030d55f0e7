"""What happens next in a campaign: the states of its nodes, its phases and hold points, and the rules that stop it.

Everything here is a function of what is known now, so that a campaign goes on from the database alone after any crash,
and asking twice gives the same answer. Drawn in docs/campaigns.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

NodeState = Literal[
    "waiting", "baseline", "ready", "draining", "upgrading", "measuring", "measured",
    "reverting", "again", "confirmed", "lost", "wrong", "dirty", "failed", "unfit",
]  # fmt: skip
Environment = Literal["same", "wanted", "wrong"]
Measured = Literal["no", "running", "done", "failed"]
HookState = Literal["", "asked", "running", "done", "failed"]

FINAL = frozenset({"measured", "confirmed", "lost", "wrong", "dirty", "failed", "unfit"})
"""States that a phase does not wait for. *lost* is left again by a node that comes back late."""
TROUBLE = frozenset({"lost", "wrong", "dirty", "failed"})
BASELINE, CANARY = 0, 1
"""Phases; the waves follow as 2, 3 …"""


@dataclass(frozen=True, slots=True)
class Rules:
    """``hold``: *auto* goes on by itself where nothing was found, *manual* waits for a person after every phase.
    ``max_lost``: more nodes that do not come back end the campaign. ``stop_on_no_go``: a no-go verdict ends it.
    ``return_s``: a node that is away for longer is lost; ``measure_s``: longest that one side of a node may take.
    """

    hold: Literal["auto", "manual"] = "auto"
    max_lost: int = 1
    stop_on_no_go: bool = True
    return_s: float = 3600.0
    measure_s: float = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as it stands. ``environment``: now, against the one its baseline was measured in and the one wanted;
    ``fresh``: it has given a sign of life; ``busy``: it runs jobs; ``measured``: of the side that its state is about.
    """

    name: str
    wave: int
    state: NodeState
    in_state_s: float = 0.0
    fresh: bool = True
    busy: bool = False
    hygiene: str = ""
    refused: str = ""
    """Why it takes no jobs though its hygiene is fine: a person has taken it out of use."""
    environment: Environment = "same"
    measured: Measured = "no"
    measured_why: str = ""
    hook: HookState = ""
    hook_why: str = ""
    repaired: bool = False
    """It was measured with settings lost, and they are back."""


@dataclass(frozen=True, slots=True)
class Move:
    name: str
    to: NodeState
    note: str = ""


def node_move(node: NodeView, phase: int, rules: Rules) -> Move | None:
    """The node's next step in this phase of a running campaign; None: it waits."""
    step = _STEPS.get(node.state)
    return step(node, phase, rules) if step is not None else None


def _waiting(node: NodeView, _phase: int, rules: Rules) -> Move | None:
    if node.hygiene:
        return Move(node.name, "unfit", node.hygiene)
    if node.refused:
        return Move(node.name, "unfit", node.refused)
    if node.environment == "wanted":
        return Move(node.name, "unfit", "it already has what is to be validated: there is nothing to compare with")
    if node.fresh:
        return Move(node.name, "baseline")
    if node.in_state_s > rules.return_s:
        return Move(node.name, "unfit", "it has not been heard of")
    return None


def _baseline(node: NodeView, _phase: int, rules: Rules) -> Move | None:
    if node.environment != "same":
        return Move(node.name, "unfit", "its environment changed while its baseline was measured")
    if node.measured == "done":
        return Move(node.name, "ready")
    if node.measured == "failed":
        return Move(node.name, "unfit", f"its baseline could not be measured: {node.measured_why}")
    if node.hygiene:
        return Move(node.name, "unfit", node.hygiene)
    if node.in_state_s > rules.measure_s:
        return Move(node.name, "unfit", "its baseline was not measured in time")
    return None


def _ready(node: NodeView, phase: int, _rules: Rules) -> Move | None:
    return Move(node.name, "draining") if phase >= node.wave else None


def _draining(node: NodeView, _phase: int, rules: Rules) -> Move | None:
    if not node.busy or node.in_state_s > rules.measure_s:
        return Move(node.name, "upgrading")
    return None


def _upgrading(node: NodeView, _phase: int, rules: Rules) -> Move | None:
    if node.environment == "wanted":
        if node.hygiene:
            return Move(node.name, "dirty", node.hygiene)
        return Move(node.name, "measuring")
    if node.environment == "wrong":
        return Move(node.name, "wrong", "it came back with another environment than asked")
    if node.hook == "failed":
        return Move(node.name, "failed", f"the hook failed: {node.hook_why}")
    if node.in_state_s > rules.return_s:
        return Move(node.name, "lost", f"it did not come back within {_span(rules.return_s)}")
    return None


def _lost(node: NodeView, _phase: int, _rules: Rules) -> Move | None:
    if node.environment == "wanted" and node.fresh:
        return Move(node.name, "measuring", "it came back late")
    return None


def _measuring(node: NodeView, _phase: int, rules: Rules) -> Move | None:
    if node.environment != "wanted":
        return Move(node.name, "wrong", "its environment changed again while it was measured")
    if node.measured == "done":
        return Move(node.name, "measured")
    if node.measured == "failed":
        return Move(node.name, "failed", f"it could not be measured after the change: {node.measured_why}")
    if node.hygiene:
        return Move(node.name, "dirty", node.hygiene)
    if node.in_state_s > rules.measure_s:
        return Move(node.name, "failed", "it was not measured in time after the change")
    return None


def _measured(node: NodeView, _phase: int, _rules: Rules) -> Move | None:
    if node.repaired and node.environment == "wanted" and node.fresh and not node.hygiene:
        return Move(node.name, "measuring", "its settings are back: it is measured again")
    return None


def _reverting(node: NodeView, _phase: int, rules: Rules) -> Move | None:
    if node.environment == "same" and node.fresh and node.hook != "asked":
        return Move(node.name, "again")
    if node.hook == "failed":
        return Move(node.name, "measured", f"it could not be rolled back: {node.hook_why}")
    if node.in_state_s > rules.return_s:
        return Move(node.name, "lost", "it did not come back from being rolled back")
    return None


def _again(node: NodeView, _phase: int, rules: Rules) -> Move | None:
    if node.measured == "done":
        return Move(node.name, "confirmed")
    if node.measured == "failed" or node.in_state_s > rules.measure_s:
        return Move(node.name, "measured", f"it could not be measured after being rolled back: {node.measured_why}")
    return None


_STEPS = {
    "waiting": _waiting,
    "baseline": _baseline,
    "ready": _ready,
    "draining": _draining,
    "upgrading": _upgrading,
    "lost": _lost,
    "measuring": _measuring,
    "measured": _measured,
    "reverting": _reverting,
    "again": _again,
}


def phase_over(nodes: Sequence[NodeView], phase: int) -> bool:
    """Whether nothing of this phase is still to come."""
    if phase == BASELINE:
        return all(node.state not in {"waiting", "baseline"} for node in nodes)
    return all(node.state in FINAL for node in nodes if node.wave <= phase)


@dataclass(frozen=True, slots=True)
class Findings:
    """What the gate looks at. ``answer`` is the fleet's verdict so far; ``disagreeing`` and ``unlike`` name nodes of
    all phases: those individually worse, and those that do not count (settings lost, something else changed).
    """

    answer: str = "not-enough-evidence"
    reason: str = ""
    disagreeing: dict[str, str] = field(default_factory=dict)
    unlike: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows the end of a phase, and why."""

    kind: Literal["next", "hold", "abort", "finish"]
    reasons: tuple[str, ...] = ()


def decide(nodes: Sequence[NodeView], notes: dict[str, str], phase: int, findings: Findings, rules: Rules) -> Decision:
    """At the end of a phase: go on, wait for a person, or end. ``notes``: what is known of a node in trouble."""
    last = max((node.wave for node in nodes), default=CANARY)
    if phase == BASELINE:
        return _after_baseline(nodes, notes, rules)
    lost = [node.name for node in nodes if node.state == "lost"]
    stops = []
    if rules.stop_on_no_go and findings.answer == "no-go":
        stops.append(f"no-go: {findings.reason}")
    if len(lost) > rules.max_lost:
        stops.append(f"{len(lost)} nodes did not come back ({', '.join(lost)}), at most {rules.max_lost} may")
    if phase >= last:
        return Decision("finish", tuple(stops) or ("all waves are through",))
    if stops:
        return Decision("abort", tuple(stops))
    found = _of_this_phase(nodes, notes, phase, findings)
    if found or rules.hold == "manual":
        return Decision("hold", tuple(found) or ("a person goes on from here",))
    return Decision("next")


def _after_baseline(nodes: Sequence[NodeView], notes: dict[str, str], rules: Rules) -> Decision:
    unfit = [f"{node.name}: {notes.get(node.name, '')}" for node in nodes if node.state == "unfit"]
    if len(unfit) == len(nodes):
        return Decision("abort", ("no node has a baseline", *unfit[:5]))
    canaries = [node for node in nodes if node.wave == CANARY]
    if all(node.state == "unfit" for node in canaries):
        return Decision("hold", ("no canary has a baseline", *unfit[:5]))
    if rules.hold == "manual":
        return Decision("hold", tuple(unfit) or ("a person goes on from here",))
    return Decision("next")


def _of_this_phase(nodes: Sequence[NodeView], notes: dict[str, str], phase: int, findings: Findings) -> list[str]:
    """Nodes of this wave that somebody should look at before more are touched."""
    mine = [node for node in nodes if node.wave == phase]
    found = [f"{node.name}: {notes.get(node.name) or node.state}" for node in mine if node.state in TROUBLE]
    names = {node.name for node in mine}
    for words in (findings.unlike, findings.disagreeing):
        found += [f"{name}: {why}" for name, why in words.items() if name in names]
    return found


def phase_name(phase: int) -> str:
    """As people say it."""
    return {BASELINE: "baseline", CANARY: "canary"}.get(phase, f"wave {phase - 1}")


def _span(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds >= 120 else f"{seconds:g} s"
