"""Whatever a benchmark's process writes as its report, its run comes out as a message, and the job goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from groundspeed.plugins.spi import Outcome
from groundspeed.service.wire import v1
from groundspeed.workers.reports import Finding, collect_artefacts, read_report, to_wire

GOOD: dict[str, Any] = {
    "plugin": "training", "plugin_version": "1", "outcome": "ok", "version": 1, "conditions": {}, "phases_s": {},
    "metrics": [{"metric": "t", "unit": "s", "direction": -1, "kind": "time", "values": [1.0, 2.0]}],
    "artefacts": [{"kind": "log", "name": "n", "path": "there"}],
}  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, -1, 1.5, 10**400, 2**70, float("nan"), "", "a\0", "\ud800", "\x1b[31m", [], {}, [None], {"a": 1},
    {"a": {"b": 10**30}}, [[[1]]], "../../etc/passwd", "link", "ring", "folder", "x" * 9000, {"x": float("inf")}, [10**400],
)  # fmt: skip


def odd_reports() -> list[dict[str, Any]]:
    """The good one with each of its parts replaced by each odd thing."""
    metric, artefact = GOOD["metrics"][0], GOOD["artefacts"][0]
    names = (*GOOD, "facts", "evidence", "device", "device_uuid", "no_such")
    out = [{**GOOD, name: odd} for name in names for odd in ODD]
    out += [{**GOOD, "metrics": [{**metric, name: odd}]} for name in (*metric, "params", "states") for odd in ODD]
    out += [{**GOOD, "artefacts": [{**artefact, name: odd}]} for name in artefact for odd in ODD]
    return [*out, *({**GOOD, "metrics": [odd], "artefacts": [odd]} for odd in ODD)]


def test_a_report_of_any_shape_is_a_message(tmp_path: Path) -> None:
    work = tmp_path / "work"
    (work / "folder").mkdir(parents=True)
    (work / "there").write_text("x")
    (work / "link").symlink_to("/etc/passwd")
    (work / "ring").symlink_to("ring")
    benchmark = v1.BenchmarkSpec.model_construct(key="b", plugin="training", params={}, devices=())
    key = v1.RunKey(side=0, benchmark="b", replicate=0)
    told: set[str] = set()
    for made in odd_reports():
        (tmp_path / "report.json").write_text(json.dumps(made))
        report, why = read_report(tmp_path / "report.json")
        assert report is not None or why.startswith("the report cannot be read"), made
        for _, path in collect_artefacts(report, work, 1000):
            assert path == work / "there"
        if report is not None:
            run = to_wire(Finding(key, benchmark, Outcome(report.outcome), {}, 1.0, 1.0, report))
            assert v1.RunReport.model_validate_json(run.model_dump_json()).key == key
            told.add(run.outcome)
    assert told == {"ok", "crashed"}


@pytest.mark.parametrize("text", ["[" * 100_000, "{}", "5", "\xff", ""])
def test_a_report_that_is_none_says_why(tmp_path: Path, text: str) -> None:
    (tmp_path / "report.json").write_text(text, encoding="latin-1")
    assert read_report(tmp_path / "report.json")[1].startswith("the report cannot be read")
