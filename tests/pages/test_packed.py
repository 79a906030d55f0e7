"""What a graph's page carries for its scripts: shorter than the model, and says the same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from pydantic_core import to_json

from groundspeed.service.pages.packed import HASH_CHARACTERS, packed
from groundspeed.service.wire import views as v

from .conftest import Site


def column(sent: Any) -> list[Any]:
    """As the scripts read it."""
    if isinstance(sent, list):
        return sent
    return [sent["all"]] * sent["n"] if "all" in sent else np.cumsum(sent["steps"]).tolist()


@pytest.mark.parametrize("series", ["1,2,5", "3"])
def test_the_data_of_a_page_says_what_the_model_says(site: Site, series: str) -> None:
    graph = v.Graph.model_validate_json(site.http.get(f"/api/v1/projects/tinygpt/graph?series={series}").content)
    sent = json.loads(to_json(packed(graph), inf_nan_mode="null"))
    assert len(json.dumps(sent)) < 0.8 * len(graph.model_dump_json())
    revisions = sent["revisions"]
    assert revisions["sha"] == [sha[:HASH_CHARACTERS] for sha in graph.revisions.sha]
    assert packed(graph, whole=True)["revisions"]["sha"] == graph.revisions.sha
    for name in ("position", "at", "author"):
        assert column(revisions[name]) == list(getattr(graph.revisions, name))
    for one, model in zip(sent["series"], graph.series, strict=True):
        points, wanted = one["points"], model.points
        for name in ("revision", "environment", "count", "run", "state"):
            assert column(points[name]) == list(getattr(wanted, name))
        value = np.array(points["value"])
        low, high = value - points["below"], value + (points["above"] or points["below"])
        reach = np.array(wanted.high) - np.array(wanted.low)
        np.testing.assert_allclose(value, wanted.value, rtol=1e-7)
        assert (np.abs(low - wanted.low) <= 1e-3 * reach + 1e-7 * np.abs(value)).all()
        assert (np.abs(high - wanted.high) <= 1e-3 * reach + 1e-7 * np.abs(value)).all()
        assert [change["id"] for change in one["changes"]] == [change.id for change in model.changes]


def test_what_is_missing_huge_or_tiny_is_packed_too(site: Site) -> None:
    """A value that is not there stays so; powers of ten do not cost figures."""
    graph = v.Graph.model_validate_json(site.http.get("/api/v1/projects/tinygpt/series/1").content)
    shown = graph.series[0]
    values: tuple[float | None, ...] = (None, 0.0, 1.23456789e-9, -9.87654321e15, 42.0)
    points = shown.points.model_copy(
        update={
            "value": values, "low": values, "high": values,
            **{name: getattr(shown.points, name)[:5] for name in ("revision", "environment", "count", "run", "state")},
        }
    )  # fmt: skip
    made = graph.model_copy(update={"series": (shown.model_copy(update={"points": points}),)})
    sent = json.loads(to_json(packed(made), inf_nan_mode="null"))["series"][0]["points"]
    assert sent["value"] == [None, 0.0, 1.2345679e-9, -9.8765432e15, 42.0]
    assert sent["below"] == [None, 0.0, 0.0, 0.0, 0.0]
    assert sent["above"] is None
