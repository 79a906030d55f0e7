"""Accounts, tokens, channels and what was done, by somebody who signs in with a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

import demo_campaign
import demo_data
import demo_people
from groundspeed.service.db.campaign_tables import Campaign
from groundspeed.service.db.engine import Database

from .conftest import Site, front_of, open_tab, sign_in

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service that people sign in to; these tests change it."""
    folder = tmp_path_factory.mktemp("people")
    db = Database(f"sqlite:///{folder / 'demo.db'}")
    with front_of(db, folder) as url:
        demo_data.create_tables(db)
        demo = demo_data.fill(db, demo_data.Shape(commits=8, machines=1, extra=0, keep_samples=False, live=False))
        demo_campaign.add(db)
        yield Site(db, url, demo, front=url, cookie=demo_people.add(db))
    db.close()


def test_nobody_is_shown_anything_before_signing_in(browser: Browser, house: Site) -> None:
    """One is led to the sign-in page, which leads back; without a provider's word the door stays shut."""
    context, tab = open_tab(browser, house.url)
    page = tab.open("/projects/tinygpt/benchmarks?q=train")
    expect(page).to_have_url(re.compile(r"/sign-in\?next=%2Fprojects%2Ftinygpt%2Fbenchmarks%3Fq%3Dtrain$"))
    for way in ("GitHub", "Single sign-on"):
        link = page.get_by_role("link", name=f"Continue with {way}")
        expect(link).to_have_attribute("href", re.compile(r"next=%2Fprojects%2Ftinygpt%2Fbenchmarks%3Fq%3Dtrain"))
    context.close()
    assert not tab.errors


def test_an_admin_gives_roles_and_tokens_and_has_people_told(browser: Browser, house: Site) -> None:
    context, tab = open_tab(browser, house.url)
    sign_in(context, house)
    page = tab.open("/account")
    expect(page.get_by_role("heading", level=1)).to_have_text("Ada Marsh")
    page.get_by_label("Name").fill("nightly <b>")
    page.get_by_label("read").check()
    page.get_by_role("button", name="Make a token").click()
    secret = page.locator(".secret").inner_text()
    bearer = {"authorization": f"Bearer {secret}"}
    assert page.request.get(f"{house.url}/api/v1/projects", headers=bearer).status == 200
    page.get_by_role("link", name="Back to your account").click()
    row = page.get_by_role("row", name="nightly <b>")
    expect(row).to_contain_text("in force")
    row.get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    # Anew, without the cookie of this browser.
    outside = browser.new_context()
    assert outside.request.get(f"{house.url}/api/v1/projects", headers=bearer).status == 401
    outside.close()

    accounts = page.get_by_role("navigation", name="Accounts")
    accounts.get_by_role("link", name="Accounts and tokens").click()
    page.get_by_role("combobox", name="Role of bo").select_option("operator")
    page.get_by_role("row", name="Bo Lindqvist").get_by_role("button", name="Save").click()
    expect(page.get_by_role("row", name="Bo Lindqvist")).to_contain_text("operator by hand")
    page.get_by_role("row", name="stranger").get_by_role("button", name="Close").click()
    expect(page.get_by_role("row", name="stranger")).to_contain_text("closed")

    accounts.get_by_role("link", name="Who is told").click()
    page.get_by_label("Name").fill("night shift")
    page.get_by_label("By").select_option("slack")
    page.get_by_label("Where").fill("https://hooks.example.org/night")
    page.get_by_label("Digest").select_option("daily")
    page.get_by_role("button", name="Add").click()
    channel = page.get_by_role("row", name="night shift")
    expect(channel).to_contain_text("daily")
    channel.get_by_role("button", name="Pause").click()
    expect(channel).to_contain_text("paused")
    channel.get_by_role("button", name="Delete").click()
    expect(channel).to_have_count(0)

    accounts.get_by_role("link", name="Who did what").click()
    for done in ("token.create", "account.role", "channel.add", "channel.delete"):
        expect(page.get_by_role("cell", name=done, exact=True).first).to_be_visible()
    page.get_by_label("To what").fill("channel")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("cell", name="token.create", exact=True)).to_have_count(0)
    page.get_by_role("link", name="ada", exact=True).click()
    page.get_by_role("button", name="Sign out everywhere").click()
    expect(page).to_have_url(re.compile("/sign-in"))
    page.goto(house.url + "/account")
    expect(page).to_have_url(re.compile("/sign-in"))
    context.close()
    assert not tab.errors


def test_a_campaign_is_followed_and_decided(browser: Browser, house: Site) -> None:
    """Its page changes by itself as waves go on; a decision says why, and is kept with who made it."""
    context, tab = open_tab(browser, house.url)
    context.add_cookies([{"name": "groundspeed", "value": demo_people.add_admin(house.db), "url": house.url}])
    page = tab.open("/projects/tinygpt")
    page.get_by_role("link", name="Campaigns").click()
    page.get_by_role("link", name=demo_campaign.NAME).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("held")
    page.get_by_label("Why").fill("the canary lost its settings")
    page.get_by_role("button", name="Abort").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("aborted")
    page.get_by_role("button", name="Take up again").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("held")
    with house.db.transaction() as session:
        session.get_one(Campaign, 1).state = "running"
    expect(page.get_by_role("heading", level=1)).to_contain_text("running")
    context.close()
    assert not tab.errors
