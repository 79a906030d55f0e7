"""An address for every page, for tests that visit them all: a view that has none here fails."""

from __future__ import annotations

import demo_data
from groundspeed.service.api.routes.views import VIEWS


def addresses(demo: demo_data.Filled) -> dict[str, str]:
    """API path of each view → address of a page of it, over ``demo`` with a campaign, pull requests and people."""
    base = f"/projects/{demo.slug}"
    found = {
        "/projects": "/",
        "/projects/{slug}": base,
        "/projects/{slug}/benchmarks": f"{base}/benchmarks?q=train&sort=change",
        "/projects/{slug}/graph": f"{base}/graph?series=1,2,5",
        "/projects/{slug}/series/{series_id}": f"{base}/series/1",
        "/projects/{slug}/regressions": f"{base}/regressions?kind=all&state=all",
        "/projects/{slug}/regressions/{regression_id}": f"{base}/regressions/{demo.regressions[0]}",
        "/projects/{slug}/commits/{sha}": f"{base}/commits/{demo.shas[-5]}",
        "/projects/{slug}/compare": f"{base}/compare?base={demo.shas[10]}&head={demo.shas[-2]}",
        "/projects/{slug}/runs": f"{base}/runs",
        "/runs": "/runs",
        "/requests/{request_id}": f"/requests/{demo.requests[-1]}",
        "/jobs/{job_id}": f"/jobs/{demo.jobs[-4]}",
        "/runs/{run_id}": "/runs/1",
        "/fleet": "/fleet",
        "/fleet/{name:path}": f"/fleet/{demo.nodes[0]}",
        "/projects/{slug}/stragglers": f"{base}/stragglers?days=3650",
        "/projects/{slug}/pulls": f"{base}/pulls",
        "/projects/{slug}/pulls/{number}": f"{base}/pulls/12",
        "/campaigns": "/campaigns",
        "/campaigns/{name}": "/campaigns/driver-580",
        "/search": "/search?q=train",
        "/account": "/account",
        "/accounts": "/accounts",
        "/channels": "/channels",
        "/audit": "/audit?subject=regression",
    }
    assert set(found) == {view.path for view in VIEWS}, "give every view an address here"
    return found
