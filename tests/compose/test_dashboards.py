"""Dashboards and alerts name metrics that the service really gives."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from groundspeed.service.api.metrics import Answered, render
from groundspeed.service.control.wiring import Parts
from groundspeed.service.db.engine import Database
from groundspeed.service.repo import Mirrors
from groundspeed.service.settings import Settings
from groundspeed.service.usecases.leases import Policy

OPS = Path(__file__).resolve().parents[2] / "service" / "ops"
DASHBOARDS = sorted((OPS / "grafana" / "dashboards").glob("*.json"))
OTHERS = {"up"}
WORDS = {
    "by", "or", "unless", "sum", "max", "count", "rate", "absent", "vector", "topk", "histogram_quantile", "le",
    "state", "pool", "route", "outcome", "status", "project", "job",
}  # fmt: skip


@pytest.fixture(scope="module")
def exported(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of all samples on /metrics after one request."""
    folder = tmp_path_factory.mktemp("metrics")
    db = Database(f"sqlite:///{sqlite_template}")
    parts = Parts(Settings.load(data_dir=folder), db, Mirrors(folder / "mirrors"), Policy())
    answered = Answered()
    answered.note("GET", "/healthz", 200, 0.01)
    text = render(parts, answered)[0].decode()
    db.close()
    families = re.findall(r"^# TYPE (\w+) (\w+)", text, re.MULTILINE)
    ends = {"histogram": ("_bucket", "_count")}
    return {name + end for name, kind in families if not name.endswith("_created") for end in ends.get(kind, ("",))}


def expressions() -> list[tuple[str, str]]:
    found = []
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            found += [(f"{path.name}: {panel['title']}", target["expr"]) for target in panel["targets"]]
    for group in yaml.safe_load((OPS / "alerts.yml").read_text())["groups"]:
        found += [(rule["alert"], rule["expr"]) for rule in group["rules"]]
    return found


def test_there_are_dashboards_and_alerts() -> None:
    assert len(DASHBOARDS) >= 2
    assert len(expressions()) >= 20


@pytest.mark.parametrize(("where", "expression"), expressions())
def test_every_metric_named_is_one_that_the_service_gives(where: str, expression: str, exported: set[str]) -> None:
    bare = re.sub(r'"[^"]*"|\[\w+\]', "", expression)
    names = set(re.findall(r"[A-Za-z_]\w*", bare)) - WORDS
    assert names, where
    assert names <= exported | OTHERS, f"{where} names {names - exported - OTHERS}"
    assert bare.count("(") == bare.count(")")


def test_every_metric_is_on_a_dashboard(exported: set[str]) -> None:
    shown = " ".join(expression for _, expression in expressions())
    assert {name for name in exported if name not in shown} == set()


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_do_not_lie_on_one_another(path: Path) -> None:
    dashboard: dict[str, Any] = json.loads(path.read_text())
    places = [panel["gridPos"] for panel in dashboard["panels"]]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(places)
    for a, b in itertools.combinations(places, 2):
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, (a, b)
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_dashboards_read_the_provisioned_source() -> None:
    source = yaml.safe_load((OPS / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"][0]
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            assert panel["datasource"] == {"type": source["type"], "uid": source["uid"]}
            assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])
