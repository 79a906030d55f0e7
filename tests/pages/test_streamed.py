"""Pages whose head is sent before the rest is read."""

from __future__ import annotations

import re

import httpx
import pytest

from groundspeed.service.api.routes.views import VIEWS, ViewRoute
from groundspeed.service.errors import Unavailable
from groundspeed.service.pages import render, streamed
from groundspeed.service.usecases.views import revision
from groundspeed.service.wire import views as v
from page_addresses import addresses

from .conftest import Site

IN_PARTS = [view for view in VIEWS if view.in_parts is not None]


def test_the_head_is_made_before_anything_else_is_read(site: Site) -> None:
    sha, read = site.demo.shas[-5], list[str]()
    path = f"/projects/{site.demo.slug}/commits/{sha}"

    def whole() -> v.View:
        read.append(sha)
        return revision.revision_page(site.db, site.demo.slug, sha)

    texts = render.in_parts("commit.html", revision.head(site.db, site.demo.slug, sha), whole, path=path)
    first = next(texts)
    assert ("<h1>" in first, "Results" in first, read) == (True, False, [])
    assert first + "".join(texts) == render.render("commit.html", whole(), path=path)


@pytest.mark.parametrize("view", IN_PARTS, ids=lambda view: view.path)
def test_it_is_sent_in_parts_packed_or_not(site: Site, view: ViewRoute) -> None:
    """Both are the same page; what is asked for wrongly is refused before anything is sent."""
    path = addresses(site.demo)[view.path]
    plain = site.http.get(path, headers={"accept-encoding": "identity"})
    assert "content-length" not in plain.headers
    packed = site.http.get(path)
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.num_bytes_downloaded < 0.5 * len(packed.content)
    assert packed.text == plain.text
    assert site.http.get(f"/projects/none{path[path.index('/', 10) :]}").status_code == 404


def test_a_tag_is_no_answer_to_who_would_see_another_page(site: Site) -> None:
    path = f"/projects/{site.demo.slug}/commits/{site.demo.shas[-5]}"
    tag = site.http.get(path).headers["etag"]
    other = site.http.get(path, headers={"if-none-match": tag, "cookie": "theme=dark"})
    assert (other.status_code, 'data-theme="dark"' in other.text) == (200, True)
    assert site.http.get(path, headers={"if-none-match": f"{other.headers['etag']}, {tag}"}).headers["etag"] == tag


@pytest.mark.parametrize(("accepted", "packed"), [("br, GZIP;q=0.5", True), ("gzip;q=0, identity", False)])
def test_it_is_packed_for_who_takes_that(site: Site, accepted: str, packed: bool) -> None:
    """Whether it is sent in parts or whole."""
    for path in (f"/projects/{site.demo.slug}/commits/{site.demo.shas[-5]}", f"/projects/{site.demo.slug}"):
        reply = site.http.get(path, headers={"accept-encoding": accepted})
        assert ("content-encoding" in reply.headers, "</html>" in reply.text) == (packed, True)


@pytest.mark.parametrize(
    ("error", "words"), [(Unavailable("It is gone.", "Wait."), "It is gone. Wait."), (KeyError(1), "Reload it.")]
)
def test_a_page_that_breaks_off_says_so(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    """To people where it stops, and to programs by an answer that is not whole; its tag is no answer to anybody."""

    def late(*_: object) -> v.RevisionPage:
        raise error

    address = f"{site.url}/projects/{site.demo.slug}/commits/{site.demo.shas[-5]}"
    parts: list[str] = []
    with monkeypatch.context() as failing:
        failing.setattr(revision, "revision_page", late)
        with httpx.stream("GET", address, timeout=60) as reply, pytest.raises(httpx.RemoteProtocolError):
            parts.extend(reply.iter_text())
    text = "".join(parts)
    assert "<h1>" in text
    assert text.endswith(f"{words}</p></main></body></html>")
    assert httpx.get(address, headers={"if-none-match": reply.headers["etag"]}, timeout=60).status_code == 200
    [line] = re.findall(r"request_seconds_count{.*commits.*5xx.*", httpx.get(f"{site.url}/metrics", timeout=60).text)
    assert "/projects/{slug}/commits/{sha}" in line


def test_few_answers_are_remembered() -> None:
    sent = streamed.Sent(2)
    for tag in "abc":
        sent.note(f'W/"{tag}"', tag)
    assert sent.of('W/"a", W/"b",W/"c"') == {'W/"b"': "b", 'W/"c"': "c"}


def test_the_head_is_there_while_the_rest_is_read(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the wire: a reader has the head in hand before the results are asked for."""
    import threading

    seen = threading.Event()
    ask = revision.revision_page

    def late(*given: object) -> v.RevisionPage:
        assert seen.wait(60)
        return ask(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(revision, "revision_page", late)
    address = f"{site.url}/projects/{site.demo.slug}/commits/{site.demo.shas[-5]}"
    text = ""
    with httpx.stream("GET", address, timeout=60) as reply:
        for part in reply.iter_text():
            text += part
            if "</nav>" in text and "<h1>" in text:
                seen.set()
    assert text.rstrip().endswith("</html>")
    assert "Results" in text
