"""The pure parts of a campaign: the state machine, waves, pairs and rings, costs."""

from __future__ import annotations

import doctest
from dataclasses import replace
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundspeed.service.db.tables import Device
from groundspeed.service.domain import attribution, environments
from groundspeed.service.domain.campaigns import conclude, cost, machine, waves
from groundspeed.service.domain.campaigns.machine import FINAL, Findings, NodeView, Rules
from groundspeed.service.usecases.campaigns import select


@pytest.mark.parametrize("module", [attribution, conclude, cost, environments, waves])
def test_docstring_examples_hold(module: ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


names = st.lists(st.from_regex(r"n[0-9]{1,3}", fullmatch=True), min_size=1, max_size=40, unique=True)


@given(names, st.integers(1, 6), st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5))
def test_every_node_has_one_wave_and_no_wave_before_the_last_is_skipped(
    nodes: list[str], canary: int, shares: list[float]
) -> None:
    found = waves.assign([waves.Candidate(name) for name in nodes], canary, shares)
    assert set(found) == set(nodes)
    assert sum(wave == 1 for wave in found.values()) == min(canary, len(nodes))
    assert sorted(set(found.values())) == list(range(1, max(found.values()) + 1)) or max(found.values()) > len(shares)


def test_canaries_come_from_every_hardware_and_rack() -> None:
    nodes = [waves.Candidate(f"n{i}", group="H200" if i < 6 else "A100", rack=str(i % 2)) for i in range(12)]
    found = waves.assign(nodes, 4, (1.0,))
    canaries = [node for node in nodes if found[node.name] == 1]
    assert {(node.group, node.rack) for node in canaries} == {(g, r) for g in ("H200", "A100") for r in "01"}


states = st.sampled_from([*machine._STEPS, *FINAL])
views = st.builds(
    NodeView, name=st.just("n1"), wave=st.integers(1, 3), state=states, in_state_s=st.floats(0, 1e5),
    fresh=st.booleans(), busy=st.booleans(), hygiene=st.sampled_from(["", "Hygiene: x"]),
    environment=st.sampled_from(["same", "wanted", "wrong"]), measured=st.sampled_from(["no", "running", "done", "failed"]),
    hook=st.sampled_from(["", "asked", "running", "done", "failed"]),
)  # fmt: skip


@given(views, st.integers(0, 3))
def test_a_node_moves_only_as_drawn_and_never_before_its_wave(node: NodeView, phase: int) -> None:
    move = machine.node_move(node, phase, Rules())
    if move is None:
        return
    assert move.to in _ALLOWED[node.state]
    if move.to == "draining":
        assert phase >= node.wave


_ALLOWED = {
    "waiting": {"baseline", "unfit"},
    "baseline": {"ready", "unfit"},
    "ready": {"draining"},
    "draining": {"upgrading"},
    "upgrading": {"measuring", "wrong", "dirty", "lost", "failed"},
    "measuring": {"measured", "wrong", "dirty", "failed"},
    "measured": {"measuring"},
    "reverting": {"again", "measured", "lost"},
    "again": {"confirmed", "measured"},
    "lost": {"measuring"},
}


@given(st.lists(views, min_size=1, max_size=6), st.sampled_from(["go", "no-go", "not-enough-evidence"]))
def test_a_no_go_never_goes_on_by_itself(nodes: list[NodeView], answer: str) -> None:
    nodes = [replace(node, name=f"n{i}") for i, node in enumerate(nodes)]
    decision = machine.decide(nodes, {}, 1, Findings(answer=answer, reason="r"), Rules())
    assert not (answer == "no-go" and decision.kind == "next")
    if max(node.wave for node in nodes) == 1:
        assert decision.kind == "finish"


def device(index: int, **facts: object) -> Device:
    return Device(node_id=1, index=index, uuid=f"GPU-{index}", facts=facts)


def test_suites_are_spread_over_devices_rings_and_pairs() -> None:
    benchmark = {"key": "b", "plugin": "p", "params": {}, "replicates": 3}
    four = [device(i, numa=i // 2, links={f"GPU-{j}": "NVL" for j in range(4) if j != i}) for i in range(4)]

    def groups(scope: str) -> list[tuple[str, list[int]]]:
        found = select.spread([benchmark], scope, four)
        return [(b["key"], [int(uuid[-1]) for uuid in b.get("devices", ())]) for b in found]

    assert groups("node") == [("b", [])]
    assert groups("device") == [(f"b @gpu{i}", [i]) for i in range(4)]
    assert groups("fabric") == [("b @all", [0, 1, 2, 3]), ("b @gpu0+gpu1", [0, 1]), ("b @gpu2+gpu3", [2, 3])]
    assert [b["key"] for b in select.spread([benchmark], "fabric", four[:1])] == ["b @gpu0"]
    assert select.spread([benchmark], "device", []) == [benchmark]


def test_pairs_cover_each_kind_of_link() -> None:
    links = {
        ("a", "b"): "NVL",
        ("c", "d"): "NVL",
        ("a", "c"): "SYS",
        ("a", "d"): "SYS",
        ("b", "c"): "SYS",
        ("b", "d"): "SYS",
    }
    assert waves.pairs("abcd", links) == [("a", "b"), ("c", "d"), ("a", "c"), ("b", "d")]
