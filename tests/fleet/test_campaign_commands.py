"""What people, hooks and other work do to a campaign while it is under way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groundspeed.service.db import tables as t
from groundspeed.service.errors import Conflict, Invalid, NotFound
from groundspeed.service.usecases.campaigns import commands, hooks, report
from rack import Rack, page, said

NEW = "580.65.06"


Make = Callable[..., Rack]


def test_abort_takes_nothing_further_and_resume_goes_on_where_it_stood(make: Make) -> None:
    one = make(4)
    one.create(canary=1, waves=(1.0,))
    one.tick(2)
    assert commands.abort(one.db, "driver-580", one.fleet.now, actor="ada", why="not today") > 0
    assert one.work() == 0
    assert page(one).reasons == ("ended by ada: not today",)
    one.tick(3)
    assert set(one.states().values()) == {"baseline"}
    assert commands.resume(one.db, "driver-580", one.fleet.now, actor="ada") == "running"
    one.through()
    assert page(one).state == "done"
    with pytest.raises(Conflict, match="already done"):
        commands.abort(one.db, "driver-580", one.fleet.now, actor="ada")


def test_a_node_rolled_back_shows_the_effect_go(make: Make) -> None:
    one = make(5)
    for machine in one.machines.values():
        machine.driver_effect = {("rack_fabric", NEW): 0.05}
    one.create(canary=3, waves=(1.0,), hold="manual", stop_on_no_go=False)
    one.through(rounds=3, upgrade=False)
    commands.approve(one.db, "driver-580", one.fleet.now, actor="ada")
    one.through(rounds=7)
    assert page(one).state == "held"
    name = commands.confirm(one.db, "driver-580", one.fleet.now, actor="ada")
    one.upgrade(name, driver="570.86.15")
    one.through(rounds=3, upgrade=False)
    shown = page(one)
    assert one.states()[name] == "confirmed"
    assert shown.confirmation.startswith(f"{name}, fabric: bus_bandwidth")
    assert shown.confirmation.endswith("the effect is gone, so it was the change")


def test_a_node_takes_no_jobs_while_it_is_changed(make: Make) -> None:
    one = make(3)
    one.create(canary=1, waves=(1.0,))
    one.through(rounds=3, upgrade=False)
    assert one.states()["n01"] == "upgrading"
    one.fleet.measure()
    assert "draining" in one.fleet.next("n01").reason
    assert one.fleet.next("n02").attempt_id is not None
    one.upgrade("n01")
    one.tick(2)
    with one.db.read() as session:
        assert session.query(t.Node).filter_by(name="n01").one().state == "active"


def judged_while(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """Have something happen while a campaign's results are analysed."""
    analyse = report.conclude

    def slowly(*arguments: Any) -> Any:
        meanwhile()
        return analyse(*arguments)

    monkeypatch.setattr(report, "conclude", slowly)


def test_others_write_while_a_campaign_is_judged(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = make(4)
    written = []

    def write() -> None:
        with one.db.transaction() as session:
            session.add(t.Event(kind="annotation", title="meanwhile", at=one.fleet.now))
        written.append(1)

    one.create(canary=2, waves=(1.0,))
    judged_while(monkeypatch, write)
    one.through()
    assert (page(one).state, len(written)) == ("done", 2)


def test_what_was_decided_while_it_was_judged_stands(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = make(4)
    one.create(canary=2, waves=(1.0,))
    judged_while(monkeypatch, lambda: commands.abort(one.db, "driver-580", one.fleet.now, actor="ada", why="enough"))
    one.through(rounds=6)
    shown = page(one)
    assert (shown.state, shown.phase, shown.reasons) == ("aborted", "canary", ("ended by ada: enough",))
    assert shown.answer == ""


def test_what_happened_while_a_campaign_stood_still_is_judged_though_the_worker_was_killed(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make(4)
    one.create(canary=2, waves=(1.0,), return_s=5.0, max_lost=2)
    one.through(upgrade=False, rounds=3)
    one.upgrade("n02")
    one.through(upgrade=False, rounds=3)
    one.tick(2, 10.0)
    assert "n01: it did not come back" in said(one)
    one.upgrade("n01")
    one.tick(1)

    def killed() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        judged_while(dying, killed)
        with pytest.raises(KeyboardInterrupt):
            one.through(upgrade=False, rounds=3)
    assert not page(one).answer_reason.startswith("compute: throughput: 2 nodes")
    one.tick(1)
    assert (page(one).findings, page(one).reasons[0][:12]) == ((), "nothing of w")


# --- hooks ------------------------------------------------------------------------------------------------------------
def part_of(one: Rack, name: str) -> int:
    asked = one.fleet.messages("groundspeed.control.campaign_hook")
    return int(asked[-1]["part_id"]) if asked else 0


def test_a_hook_is_told_the_node_once_and_its_failure_is_in_the_report(make: Make, tmp_path: Path) -> None:
    one = make(3)
    one.create(canary=1, waves=(1.0,), hook="reboot")
    one.through(rounds=3, upgrade=False)
    out = tmp_path / "told"
    command = f'echo "$GROUNDSPEED_NODE $GROUNDSPEED_ACTION" >> {out}; cat >> {out}; echo no such host >&2; exit 3'
    for _ in range(2):
        hooks.run(one.db, part_of(one, "n01"), {"reboot": command}, lambda *_: "", one.fleet.now, 20.0)
    told = out.read_text()
    assert told.startswith("n01 change\n{")
    assert told.count("n01 change") == 1
    one.tick(2)
    assert page(one).findings == ("n01: the hook failed: the command ended with status 3: no such host.",)


def test_a_webhook_gets_what_is_wanted(make: Make) -> None:
    one = make(3)
    one.create(canary=1, waves=(1.0,), hook="reboot")
    one.through(rounds=3, upgrade=False)
    sent = []
    hooks.run(
        one.db, part_of(one, "n01"), {"reboot": "https://ops.example/x"}, lambda *a: sent.append(a) or "",
        one.fleet.now, 20.0,
    )  # fmt: skip
    [(address, body)] = sent
    assert address == "https://ops.example/x"
    assert (body["node"], body["action"], body["wanted"]) == ("n01", "change", {"gpu.driver": "580"})


# --- what is refused --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wanted": {}}, "changes nothing"),
        ({"waves": (1.5,)}, "shares above 0"),
        ({"canary": 0}, "canary: 0"),
        ({"replicates": 1}, "replicates: 1"),
        ({"margin": 0.0}, "margin of 'all'"),
        ({"hook": "nope"}, "There is no hook 'nope'"),
        ({"where": {"rack": "9"}}, "No node fits rack=9"),
        ({"nodes": ("n99",)}, "no node 'n99'"),
        ({"suites": ("speed",)}, "no suite 'speed'"),
        ({"scopes": {"compute": "row"}}, "the scope 'row'"),
        ({"name": "a b"}, "no name of a campaign"),
    ],
)
def test_a_campaign_that_cannot_be_right_is_refused_in_words(
    make: Make, changes: dict[str, object], words: str
) -> None:
    from groundspeed.service.usecases.campaigns import create

    one = make(2)
    new = create.New(**{"name": "x", "project": "toy", "wanted": {"gpu.driver": "580"}, **changes})  # type: ignore[arg-type]
    with pytest.raises(Invalid, match=words):
        create.create(one.db, one.fleet.mirrors, new, one.fleet.now, actor="ada", hooks={})


def test_a_node_is_in_one_campaign_at_a_time_and_names_are_unique(make: Make) -> None:
    one = make(2)
    one.create()
    with pytest.raises(Conflict, match="a campaign 'driver-580' already"):
        one.create()
    with pytest.raises(Conflict, match="is in the campaign 'driver-580'"):
        one.create("other")
    with pytest.raises(NotFound, match="There are: driver-580"):
        page(one, "none")


def test_the_states_drawn_in_the_documentation_are_those_there_are(root: Path) -> None:
    from groundspeed.service.domain.campaigns import machine

    text = (root / "docs" / "campaigns.md").read_text()
    rows = [line.split("|") for line in text.split("## The states of a node")[1].split("##")[0].splitlines()]
    drawn = {row[1].strip() for row in rows if len(row) > 3} - {"state", "---"}
    assert drawn == set(machine._STEPS)
    ends = set(machine.FINAL) - drawn
    assert all(f"*{state}*" in text for state in ends)
