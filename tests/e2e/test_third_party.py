"""A plugin in a package of its own, built and installed by pip, runs without touching Groundspeed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .conftest import Counted, Groundspeed


@pytest.mark.usefixtures("acme_plugin")
def test_it_is_found_and_measures_a_project(groundspeed: Groundspeed, counted: Callable[..., Counted]) -> None:
    project = counted()
    for points in (3, 3, 4):
        project.commit(points)
    done = groundspeed.run("demo", "--repo", str(project.folder), "--port", "0", "--once", timeout_s=240)
    assert done.returncode == 0, done.stdout + done.stderr
    values = groundspeed.query(
        "select result.value from result join revision on revision.id = result.revision_id order by revision.position"
    )
    assert sorted({value for (value,) in values}) == [30.0, 40.0]
    assert groundspeed.query("select distinct outcome from run") == [("ok",)]
