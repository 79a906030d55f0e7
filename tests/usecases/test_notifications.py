"""Who is told of what: from the first confirmed result to letters, posts and feeds that real servers have received."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from sqlalchemy import update
from sqlmodel import col

from groundspeed.service import posting
from groundspeed.service.control import telling
from groundspeed.service.control.wiring import make
from groundspeed.service.db import tables as t
from groundspeed.service.db.engine import Database
from groundspeed.service.db.notification_tables import Channel, Notification
from groundspeed.service.errors import Conflict, Invalid, NotFound
from groundspeed.service.notify import render, senders
from groundspeed.service.settings import Settings
from groundspeed.service.usecases import ignoring, regressions
from groundspeed.service.usecases.notifications import channels, delivery, planning
from groundspeed.service.usecases.views import findings
from processes import free_port
from slow_history import LATER, confirm, recover, slow_since_commit_20
from world import NOW, World

YEARS = timedelta(days=3650)


@pytest.fixture
def world(sqlite_database: Database) -> World:
    return slow_since_commit_20(sqlite_database)


class Posts:
    """A server that keeps what is posted to it, and answers what it is told to."""

    def __init__(self) -> None:
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        posts = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                posts.received.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(posts.answers.pop(0) if posts.answers else 204)
                self.send_header("location", posts.url + "/elsewhere")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def posts() -> Iterator[Posts]:
    made = Posts()
    yield made
    made.close()


class Letters:
    """A mail server that keeps what it is given."""

    def __init__(self) -> None:
        self.received: list[tuple[list[str], EmailMessage]] = []
        self.refuse: list[str] = []

    async def handle_RCPT(  # noqa: N802 - the name that the library calls
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        if self.refuse:
            return self.refuse.pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        letter = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(letter, EmailMessage)
        self.received.append((list(envelope.rcpt_tos), letter))
        return "250 OK"


@pytest.fixture
def mail() -> Iterator[tuple[Letters, str]]:
    letters = Letters()
    controller = Controller(letters, hostname="127.0.0.1", port=free_port(), ready_timeout=120.0)
    controller.start()
    yield letters, f"smtp://127.0.0.1:{controller.port}"
    controller.stop()


def channel(world: World, kind: str, target: str, **more: Any) -> int:
    return channels.add(world.db, channels.New(more.pop("name", kind), kind, target, **more), NOW, "ada")


def tell(world: World, now: datetime = LATER, **settings: Any) -> int:
    """One round of what the control worker does."""
    planning.plan(world.db, now, YEARS)
    made = Settings.load(public_url="https://perf.example.org", **settings)
    return delivery.deliver(world.db, now, lambda batch: senders.send(made, batch))


def test_a_webhook_hears_of_a_confirmed_regression_once_and_can_check_who_says_it(world: World, posts: Posts) -> None:
    channel(world, "webhook", posts.url + "/hook", secret="shared")
    assert tell(world) == 0  # provisional: nobody is told
    confirm(world)
    assert "groundspeed.control.tell" in {m.topic for m in world.all(t.Outbox)}
    assert [tell(world), tell(world)] == [1, 0]
    [(headers, body)] = posts.received
    mac = hmac.new(b"shared", headers["groundspeed-timestamp"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["groundspeed-signature"] == f"sha256={mac}"
    said = json.loads(body)
    assert (said["version"], said["delivery"], headers["groundspeed-delivery"]) == (1, "n1", "n1")
    [event] = said["events"]
    assert (event["event"], event["project"]) == ("regression", "tiny")
    assert event["regression"]["after"]["title"] == "Commit 20"
    assert event["regression"]["worst"]["ratio"] == pytest.approx(1.2, rel=0.01)
    assert event["url"] == "https://perf.example.org/projects/tiny/regressions/1"


def test_a_recovery_and_its_end_are_told_too(world: World, posts: Posts) -> None:
    channel(world, "webhook", posts.url)
    confirm(world)
    recover(world)
    assert world.all(t.Regression)[0].state == "recovered"
    tell(world)
    assert [json.loads(body)["events"][0]["event"] for _, body in posts.received] == ["regression", "recovered"]


def test_what_cannot_be_sent_is_tried_again_under_the_same_number(world: World, posts: Posts) -> None:
    channel(world, "webhook", posts.url)
    confirm(world)
    posts.answers = [503, 500, 429]
    now = LATER
    for _ in range(4):
        tell(world, now)
        assert tell(world, now) == 0  # not before its pause is over
        now += timedelta(hours=2)
    assert [headers["groundspeed-delivery"] for headers, _ in posts.received] == ["n1"] * 4
    [row] = world.all(Notification)
    assert (row.state, row.tries, row.error) == ("sent", 4, "")


def test_a_refusal_is_final_and_so_is_the_last_try(world: World, posts: Posts) -> None:
    channel(world, "webhook", posts.url)
    confirm(world)
    posts.answers = [410]
    tell(world)
    tell(world, LATER + timedelta(hours=5))
    assert len(posts.received) == 1
    channel(world, "webhook", "http://127.0.0.1:1/", name="nobody there")
    channels.ask_test(world.db, 2, LATER, "ada")
    for n in range(delivery.MAX_TRIES + 2):
        tell(world, LATER + timedelta(hours=2 * n))
    refused = world.all(Notification)[0]
    [unanswered] = world.all(Notification, Notification.event == "test")
    assert (refused.state, refused.error) == ("failed", "answered 410: ")
    assert (unanswered.state, unanswered.tries) == ("failed", 8)
    assert unanswered.error.startswith("no answer: nobody can be reached at that address (ConnectError)")


def test_a_redirection_is_not_followed(world: World, posts: Posts) -> None:
    channel(world, "webhook", posts.url)
    confirm(world)
    posts.answers = [302]
    tell(world)
    assert len(posts.received) == 1
    assert world.all(Notification)[0].state == "failed"


def test_two_at_once_send_each_thing_once(world: World, posts: Posts) -> None:
    for n in range(6):
        channel(world, "webhook", posts.url, name=f"hook {n}")
    confirm(world)
    gate = threading.Barrier(3)

    def one() -> None:
        gate.wait()
        tell(world)

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(headers["groundspeed-delivery"] for headers, _ in posts.received) == [f"n{n}" for n in range(1, 7)]


def test_slack_is_told_in_text_that_mentions_nobody(world: World, posts: Posts) -> None:
    with world.db.transaction() as session:
        session.execute(update(t.Revision).values(title="<!channel> @here <https://evil.example|click> & *bold*\nx"))
    channel(world, "slack", posts.url)
    confirm(world)
    tell(world)
    said = json.loads(posts.received[0][1])["text"]
    assert said.startswith("Regression in tiny: train: time +20.")
    assert "&lt;!channel&gt;" in said
    assert "@here" not in said
    assert "<" not in said
    assert "bold* x" in said  # nothing breaks out of its line


def test_a_letter_goes_to_the_team_and_the_owner(world: World, mail: tuple[Letters, str]) -> None:
    letters, url = mail
    channel(world, "email", "team@example.org, owner")
    regressions.edit(world.db, 1, {"assignee": "bo@example.org"}, LATER, actor="ada")
    confirm(world)
    assert tell(world, smtp_url=url) == 1
    [(to, letter)] = letters.received
    assert to == ["team@example.org", "bo@example.org"]
    assert letter["Subject"].startswith("Regression in tiny: train: time +20.")
    assert letter["Message-ID"] == "<n1.1@perf.example.org>"
    assert letter["References"] == "<regression.1@perf.example.org>"
    body = letter.get_content()
    assert "https://perf.example.org/projects/tiny/regressions/1" in body
    assert "assigned to bo@example.org" in body


def test_a_title_cannot_add_heads_to_a_letter(world: World, mail: tuple[Letters, str]) -> None:
    letters, url = mail
    with world.db.transaction() as session:
        session.execute(update(t.Project).values(slug="tiny"))
    channel(world, "email", "team@example.org")
    confirm(world)
    with world.db.transaction() as session:
        session.execute(update(t.Regression).values(title="x\r\nBcc: all@example.org\r\n\r\nhello"))
    tell(world, smtp_url=url)
    [(to, letter)] = letters.received
    assert to == ["team@example.org"]
    assert letter["Bcc"] is None
    assert "Bcc: all@example.org" in letter["Subject"]


def test_mail_waits_for_a_server_and_a_refused_address_is_final(world: World, mail: tuple[Letters, str]) -> None:
    letters, url = mail
    channel(world, "email", "nobody@example.org")
    confirm(world)
    tell(world)
    assert "GROUNDSPEED_SMTP_URL" in world.all(Notification)[0].error
    letters.refuse = ["451 later", "550 no such user"]
    tell(world, LATER + timedelta(hours=2), smtp_url=url)
    assert world.all(Notification)[0].state == "pending"
    tell(world, LATER + timedelta(hours=4), smtp_url=url)
    assert (world.all(Notification)[0].state, letters.received) == ("failed", [])


def test_a_digest_gathers_until_its_hour(world: World, posts: Posts) -> None:
    channel(world, "webhook", posts.url, digest="daily")
    confirm(world)
    recover(world)
    tell(world)
    assert posts.received == []
    morning = planning.due("daily", LATER)
    assert (morning.hour, morning.minute) == (8, 0)
    assert tell(world, morning) == 1
    [(headers, body)] = posts.received
    assert [event["event"] for event in json.loads(body)["events"]] == ["regression", "recovered"]
    assert headers["groundspeed-delivery"].startswith("d")


def test_digests_are_due_at_full_hours_in_the_morning_and_on_mondays() -> None:
    now = datetime(2026, 3, 20, 12, 34, 56, tzinfo=UTC)  # a Friday
    assert planning.due("off", now) == now
    assert planning.due("hourly", now) == datetime(2026, 3, 20, 13, tzinfo=UTC)
    assert planning.due("daily", now) == datetime(2026, 3, 21, 8, tzinfo=UTC)
    assert planning.due("weekly", now) == datetime(2026, 3, 23, 8, tzinfo=UTC)
    assert planning.due("weekly", datetime(2026, 3, 23, 8, tzinfo=UTC)) == datetime(2026, 3, 30, 8, tzinfo=UTC)
    assert planning.due("daily", datetime(2026, 3, 20, 7, tzinfo=UTC)) == datetime(2026, 3, 20, 8, tzinfo=UTC)


def test_old_commits_other_projects_paused_and_new_channels_are_told_nothing(world: World, posts: Posts) -> None:
    other = world.add(t.Project(slug="other", name="other", repo_url="/o"))
    channel(world, "webhook", posts.url, name="elsewhere", project="other")
    channel(world, "webhook", posts.url, name="of others", events=("improvement",))
    channels.change(world.db, channel(world, "webhook", posts.url, name="paused"), "pause", NOW, "ada")
    confirm(world)
    channels.add(world.db, channels.New("late", "webhook", posts.url), LATER + timedelta(seconds=1), "ada")
    assert tell(world, LATER + timedelta(seconds=2)) == 0
    channel(world, "webhook", posts.url, name="all")
    assert planning.plan(world.db, LATER + timedelta(seconds=2), timedelta(minutes=1)) == 0  # the commit is too old
    assert tell(world, LATER + timedelta(seconds=2)) == 1
    assert other


def test_channels_that_cannot_work_are_refused(world: World) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("is no kind", {"kind": "pigeon"}), ("is no e-mail", {"kind": "email", "target": "a b@c"}),
        ("no address to post", {"target": "ftp://x"}), ("no address to post", {"target": "https://x\n.y"}),
        ("no address to post", {"target": "https://[x"}), ("no address to post", {"target": "https://x:y/"}),
        ("no address to post", {"target": "https://x..y/"}), ("no address to post", {"target": f"https://{'x' * 64}/"}),
        ("is no event", {"events": ("noon",)}), ("told nothing", {"events": ()}), ("is no digest", {"digest": "yearly"}),
        ("needs a name", {"name": " "}), ("too long", {"template": "x" * 20_000}),
    ]  # fmt: skip
    for said, changes in wrong:
        fields: dict[str, Any] = {"name": "c", "kind": "webhook", "target": "https://x.example/y", **changes}
        with pytest.raises(Invalid, match=said):
            channels.add(world.db, channels.New(**fields), NOW, "ada")
    with pytest.raises(NotFound):
        channel(world, "webhook", "https://x.example", project="none")
    channel(world, "webhook", "https://user:key@x.example/secret/path")
    with pytest.raises(Conflict):
        channel(world, "webhook", "https://x.example")
    assert channels.shown("webhook", "https://user:key@x.example/secret/path") == "https://x.example/…"


def test_channels_that_are_made_and_changed_at_once(database: Database) -> None:
    """One is made, and whoever comes later is told so."""

    def at_once(*calls: Callable[[], Any]) -> list[Any]:
        with ThreadPoolExecutor(8) as pool:
            return [one.exception() for one in [pool.submit(call) for call in calls]]

    new = channels.New("c", "webhook", "https://x.example")
    made = at_once(*[lambda: channels.add(database, new, NOW, "ada")] * 8)
    assert [type(one) for one in made if one] == [Conflict] * 7
    changed = at_once(
        *[lambda: channels.ask_test(database, 1, datetime.now(UTC), "ada")] * 3,
        *[lambda: channels.change(database, 1, "delete", NOW, "ada")] * 3,
        *[lambda: channels.change(database, 1, "pause", NOW, "ada")] * 3,
    )
    assert {type(one) for one in changed} == {type(None), NotFound}


def test_a_channel_that_fails_keeps_no_other_from_being_told(world: World, posts: Posts, tmp_path: Path) -> None:
    for name in ("nowhere", "failing", "well"):
        channel(world, "webhook", posts.url, name=name)
    with world.db.transaction() as session:
        session.execute(update(Channel).where(col(Channel.name) == "nowhere").values(target="https://x..example"))
        session.execute(update(Channel).where(col(Channel.name) == "failing").values(kind="email", target="owner"))
    confirm(world)
    planning.plan(world.db, LATER, YEARS)
    settings = Settings.load(data_dir=tmp_path, database_url=world.db.url).model_copy(update={"smtp_url": None})
    parts = make(settings)
    telling._send(parts)
    parts.database.close()
    assert len(posts.received) == 1
    told = {one.channel_id: (one.state, one.error) for one in world.all(Notification)}
    assert told == {
        1: ("pending", "no answer: UnicodeError"),
        2: ("pending", "failed: AttributeError"),
        3: ("sent", ""),
    }


def test_of_an_answer_that_never_ends_the_beginning_is_read() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            peer, _ = server.accept()
            with peer, contextlib.suppress(OSError):
                peer.sendall(b"HTTP/1.1 403 No\r\n\r\n")
                while True:
                    peer.sendall(b"x" * 1000)

        threading.Thread(target=drip, daemon=True).start()
        answer = posting.post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", {}, 60.0)
    assert (answer.status, answer.text) == (403, "x" * 2000)


def test_a_channels_own_text_and_what_it_may_not_do(world: World, posts: Posts) -> None:
    template = "{% for item in items %}{{ item.project }}/{{ item.regression.id }} {{ item.commit }}{% endfor %}"
    channel(world, "slack", posts.url, template=template)
    confirm(world)
    tell(world)
    assert json.loads(posts.received[0][1])["text"].startswith("tiny/1 ")
    for bad in (
        "{{ item.nothing }}", "{% for x in y %}", "{{ ''.__class__.__mro__ }}", "{{ range(10**9) | list }}", "{{ 1/0 }}",
        "{% include 'base.html' %}",
    ):  # fmt: skip
        with pytest.raises(Invalid, match="The template fails"):
            render.check(bad)


def test_nobody_is_told_while_it_is_ignored_and_everybody_when_that_is_over(world: World, posts: Posts) -> None:
    channel(world, "webhook", posts.url)
    until = (LATER + timedelta(days=3)).date()
    regressions.edit(world.db, 1, {"ignore_until": until.isoformat()}, LATER, actor="ada")
    confirm(world)
    assert tell(world) == 0
    assert findings.regression_list(world.db, "tiny").rows == ()
    shown = findings.regression_list(world.db, "tiny", state="ignored")
    assert [row.id for row in shown.rows] == [1]
    assert shown.counts == {"ignored": 1}
    assert ignoring.wake(world.db, LATER + timedelta(days=1)) == 0
    later = datetime.combine(until, datetime.min.time(), UTC) + timedelta(minutes=1)
    assert [ignoring.wake(world.db, later), ignoring.wake(world.db, later)] == [1, 0]
    tell(world, later)
    assert [json.loads(body)["events"][0]["event"] for _, body in posts.received] == ["over"]
    assert [row.id for row in findings.regression_list(world.db, "tiny").rows] == [1]


def all_sent() -> None:
    """The threads that send have ended."""
    for thread in [one for one in threading.enumerate() if one.name == "notifications"]:
        thread.join(240)
        assert not thread.is_alive()


def test_the_control_worker_tells(world: World, posts: Posts, tmp_path: Path) -> None:
    """The task and the tick of the control worker, with its own thread for what is slow."""
    now = datetime.now(UTC)
    with world.db.transaction() as session:
        session.execute(update(t.Revision).values(committed_at=now))
    channels.add(world.db, channels.New("hook", "webhook", posts.url), now - timedelta(minutes=1), "ada")
    confirm(world, now)
    parts = make(Settings.load(data_dir=tmp_path, database_url=world.db.url))
    telling.tell(parts)
    telling.tick(parts, now)
    all_sent()
    assert len(posts.received) == 1
    with world.db.transaction() as session:
        session.execute(update(Channel).values(enabled=False))
    telling.tick(parts, now + timedelta(days=91))
    assert world.all(Notification) == []
    all_sent()
    parts.database.close()
