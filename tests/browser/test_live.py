"""Pages of work that goes on."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from groundspeed.service.db import tables as t

from .conftest import Site, Tab

pytestmark = pytest.mark.browser


def test_a_log_streams_and_the_page_follows(tab: Tab, site: Site) -> None:
    """New lines come without reloading, as text and not as markup; progress and state follow; the log stays."""
    attempt_id = site.demo.running_attempt
    assert attempt_id
    page = tab.open(f"/jobs/{site.demo.jobs[-4]}")
    log = page.get_by_role("log")
    expect(log.locator(".line")).to_have_count(6)
    with site.db.transaction() as session:
        for seq, text in ((6, "step 60: loss 3.771"), (7, "<img src=x onerror=alert(1)>")):
            session.add(t.LogEntry(attempt_id=attempt_id, seq=seq, at=datetime.now(UTC), stream="stdout", text=text))
        attempt = session.get_one(t.Attempt, attempt_id)
        attempt.done, attempt.message = 5, "training: batch_size=32, process 1 of 3"
    expect(log.locator(".line")).to_have_count(8)
    expect(log).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator("[data-progress]")).to_contain_text("5/8")
    expect(page.locator("[data-progress]")).to_contain_text("batch_size=32")
    expect(log.locator(".line")).to_have_count(8)


def test_a_request_shows_its_jobs_finishing(tab: Tab, site: Site) -> None:
    page = tab.open(f"/requests/{site.demo.requests[-1]}")
    job = site.demo.jobs[-3]
    row = page.locator(f"tr[data-job='{job}']")
    expect(row).to_contain_text("1. in the queue")
    with site.db.transaction() as session:
        session.get_one(t.Job, job).state = "done"
    expect(row).to_contain_text("done")
