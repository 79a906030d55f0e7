"""Results on disk: whole or absent, bounded, and sent until acknowledged."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groundspeed.service.wire import v1
from groundspeed.workers import attempt as attempt_module
from groundspeed.workers import spool as spool_module
from groundspeed.workers.attempt import Attempt
from groundspeed.workers.client import Client
from groundspeed.workers.delivery import Delivery
from groundspeed.workers.errors import ProtocolMismatch, ServiceRefused, ServiceUnavailable, SpoolFull
from groundspeed.workers.settings import WorkerSettings
from groundspeed.workers.spool import Spool


def run_report(benchmark: str = "b", replicate: int = 0, **changes: Any) -> v1.RunReport:
    raw = {
        "key": {"side": 0, "benchmark": benchmark, "replicate": replicate},
        "plugin": "p",
        "plugin_version": "1",
        "outcome": "ok",
        "started_at": 1.0,
        "duration_s": 1.0,
    }
    return v1.RunReport.model_validate(raw | changes)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", 1 << 20)


@pytest.fixture
def client(service: Any) -> Iterator[Client]:
    import threading

    made = Client(service.url, lambda: "secret-token", "node", threading.Event())
    yield made
    made.close()


@pytest.fixture
def delivery(client: Client, spool: Spool) -> Iterator[Delivery]:
    made = Delivery(client, spool)
    yield made
    made.close(0.0)


def test_what_is_put_comes_back_after_a_restart(spool: Spool, tmp_path: Path) -> None:
    """Another process on the same folder sees the same runs and the same use of space."""
    spool.put("a1", run_report("x/y=1,z=2", 3))
    spool.put_finish("a1", v1.FinishRequest(state="succeeded"))
    again = Spool(tmp_path / "spool", sum(path.stat().st_size for path in files(tmp_path)))
    assert [r.key.replicate for r in again.runs("a1")] == [3]
    assert again.finish("a1") == v1.FinishRequest(state="succeeded")
    assert (spool.has_room, again.has_room) == (True, False)
    again.drop_run("a1", run_report("x/y=1,z=2", 3).key)
    again.drop_finish("a1")
    again.tidy("a1")
    assert (again.attempts(), again.has_room) == ([], True)


def test_a_folder_that_is_tidied_meanwhile_loses_no_message(spool: Spool) -> None:
    """The sender removes empty folders while the job's thread writes into one."""
    stop = threading.Event()

    def tidy() -> None:
        while not stop.is_set():
            spool.tidy("a")

    sender = threading.Thread(target=tidy)
    sender.start()
    try:
        for _ in range(200):
            spool.put_finish("a", v1.FinishRequest(state="succeeded"))
            assert spool.finish("a") is not None
            spool.drop_finish("a")
    finally:
        stop.set()
        sender.join()


def test_a_half_written_file_of_a_killed_worker_is_nothing(spool: Spool, tmp_path: Path) -> None:
    """Temporary files vanish at the next start; a damaged file is set aside and harms no other."""
    spool.put("a1", run_report("good"))
    folder = tmp_path / "spool" / "a1"
    (folder / "000000-0-deadbeef.run.json.tmp").write_text('{"versi')
    (folder / "000000-0-damaged.run.json").write_text('{"versi')
    again = Spool(tmp_path / "spool", 1 << 20)
    assert [r.key.benchmark for r in again.runs("a1")] == ["good"]
    assert not list(folder.glob("*.tmp"))
    assert list(folder.glob("*.unreadable"))


def test_a_full_spool_says_what_to_do_and_keeps_nothing_by_halves(tmp_path: Path) -> None:
    """The bound is the operator's."""
    spool = Spool(tmp_path / "spool", 5000)

    def fill() -> None:
        for replicate in range(100):
            spool.put("a1", run_report(replicate=replicate))

    with pytest.raises(SpoolFull, match="GROUNDSPEED_WORKER_SPOOL_MAX_BYTES"):
        fill()
    assert not spool.has_room
    assert len(list(spool.runs("a1"))) == len(list((tmp_path / "spool" / "a1").iterdir()))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_full_disk_is_one_clear_error(
    spool: Spool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    """The system's refusal at any step leaves the folder as it was."""

    def no_room(_fd: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(spool_module.os, "fsync", no_room)
    with pytest.raises(SpoolFull, match=os.strerror(number)):
        spool.put("a1", run_report())
    assert list((tmp_path / "spool").rglob("*.json*")) == []


def test_replay_sends_everything_once_and_then_the_finish(service: Any, spool: Spool, delivery: Delivery, tmp_path: Path) -> None:  # fmt: skip
    """Runs, artefacts and finish of an earlier process arrive in that order; the spool ends empty."""
    service.attempts["a1"] = 7
    service.state[7] = "running"
    data = tmp_path / "table.json"
    data.write_bytes(b"[1]")
    sha = "a" * 64
    reference = {"kind": "kernel-table", "name": "t", "sha256": sha, "size_bytes": 3}
    for replicate in range(120):
        spool.put("a1", run_report(replicate=replicate, artefacts=[reference] if replicate == 5 else []))
    spool.put_artefact("a1", sha, data)
    spool.put_finish("a1", v1.FinishRequest(state="succeeded"))
    delivery.start()
    service.wait(lambda: service.state[7] == "done")
    service.wait(lambda: not spool.attempts())
    assert len(service.runs) == 120
    assert service.repeated == []
    assert service.artefacts == {sha: b"[1]"}
    assert files(tmp_path / "spool") == []


def test_an_attempt_that_ends_while_its_runs_are_being_sent_ends_after_all_of_them(
    service: Any, spool: Spool, delivery: Delivery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last run and the end come to lie in the spool just when the runs before them are on their way."""
    service.attempts["a1"] = 7
    service.state[7] = "running"
    real_runs, real_finish, at_the_end = Client.runs, Client.finish, []

    def runs(self: Client, attempt: str, batch: v1.RunBatch, patience_s: float = 0.0) -> v1.RunAck:
        if not service.runs:
            spool.put(attempt, run_report(replicate=1))
            spool.put_finish(attempt, v1.FinishRequest(state="succeeded"))
            delivery.kick()
        return real_runs(self, attempt, batch, patience_s)

    def finish(self: Client, attempt: str, request: v1.FinishRequest, patience_s: float = 0.0) -> v1.Ack:
        at_the_end.append(len(service.runs))
        return real_finish(self, attempt, request, patience_s)

    monkeypatch.setattr(Client, "runs", runs)
    monkeypatch.setattr(Client, "finish", finish)
    spool.put("a1", run_report())
    delivery.start()
    service.wait(lambda: service.state[7] == "done")
    assert at_the_end == [2]


def test_lines_that_were_dropped_leave_a_line(service: Any, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what is kept for a service that is away the oldest go, and the log says so in their place."""
    monkeypatch.setattr(attempt_module, "_LOG_MOST", 2)
    service.attempts["a1"] = 7
    attempt = Attempt(client, "a1", 30.0)
    for k in range(5):
        attempt.line("stdout", f"line {k}")
    with attempt:
        attempt.line("stdout", "line 5")
    gap = "4 lines before this one were dropped: the service could not be reached for too long."
    assert [(line["seq"], line["text"]) for line in service.logs] == [(4, gap), (5, "line 4"), (6, "line 5")]


def test_lines_that_go_while_they_are_being_sent_are_not_told_as_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_module, "_LOG_MOST", 2)
    sent: list[tuple[int, str]] = []

    class Slow:
        def log(self, _attempt: str, batch: v1.LogBatch) -> None:
            for k in range(3 if not sent else 0):
                attempt.line("stdout", f"later {k}")
            sent.extend((line.seq, line.text) for line in batch.lines)

    attempt = Attempt(Slow(), "a1", 30.0)  # type: ignore[arg-type]
    for k in range(2):
        attempt.line("stdout", f"line {k}")
    attempt._send_batches()
    assert sent[:2] == [(1, "line 0"), (2, "line 1")]
    assert sent[2][1].startswith("1 lines before this one were dropped")
    assert sent[3:] == [(4, "later 1"), (5, "later 2")]


def test_an_outage_delays_results_and_loses_none(service: Any, spool: Spool, delivery: Delivery) -> None:
    """While the service answers 503 everything stays on disk."""
    service.attempts["a1"] = 7
    service.state[7] = "running"
    service.down = True
    delivery.start()
    spool.put("a1", run_report())
    delivery.kick()
    time.sleep(0.6)
    assert len(list(spool.runs("a1"))) == 1
    service.down = False
    service.wait(lambda: len(service.runs) == 1 and not list(spool.runs("a1")))


def test_one_bad_result_does_not_hold_back_the_others(service: Any, spool: Spool, delivery: Delivery, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """A result that the service calls invalid becomes a failure with the reason; an attempt it does not know is given
    up as a whole.
    """
    service.attempts["a2"] = 8
    service.state[8] = "running"
    for replicate in range(3):
        spool.put("a2", run_report(replicate=replicate))
    spool.put("a1-unknown", run_report())
    real = Client.runs

    def picky(self: Client, attempt: str, batch: v1.RunBatch, patience_s: float = 0.0) -> v1.RunAck:
        if attempt == "a1-unknown":
            raise ServiceRefused("no such attempt", status=404)
        if any(run.key.replicate == 1 and run.outcome == "ok" for run in batch.runs):
            raise ServiceRefused("not valid", status=422)
        return real(self, attempt, batch, patience_s)

    monkeypatch.setattr(Client, "runs", picky)
    delivery.start()
    service.wait(lambda: not spool.attempts())
    told = {key[3]: run for key, run in service.runs.items()}
    assert {replicate: run["outcome"] for replicate, run in told.items()} == {0: "ok", 1: "failed", 2: "ok"}
    assert "refuses the result: not valid" in told[1]["evidence"]["message"]


def test_strange_files_in_the_spool_hold_no_result_back(
    service: Any, spool: Spool, delivery: Delivery, tmp_path: Path
) -> None:
    """Folders that are no attempt's stay as they are, files that no result can be read from are set aside."""
    folder = tmp_path / "spool"
    spool.put("b1", run_report())
    (folder / "b1" / "copy.run.json").write_bytes(next((folder / "b1").glob("*.run.json")).read_bytes())
    (folder / "b1" / "deep.run.json").write_text("[" * 100_000)
    for name in (".nfs", "lost+found", "a b"):
        (folder / name).mkdir()
    service.attempts["b1"] = 8
    service.state[8] = "running"
    delivery.start()
    service.wait(lambda: len(service.runs) == 1 and not spool.waits)
    assert sorted(path.name for path in folder.iterdir()) == [".nfs", "a b", "b1", "lost+found"]
    assert sorted(path.name for path in (folder / "b1").iterdir()) == [
        "copy.run.json.unreadable", "deep.run.json.unreadable",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "error",
    [
        ServiceRefused("who are you", status=401),
        ProtocolMismatch("upgrade the older one", status=426),
        ServiceUnavailable("a proxy answers 404"),
        RuntimeError("something nobody thought of"),
    ],
    ids=repr,
)
def test_a_wrong_token_or_release_loses_nothing(
    spool: Spool, delivery: Delivery, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """They are the operator's to correct; results wait for it."""

    def refused(*_: Any, **__: Any) -> v1.RunAck:
        raise error

    monkeypatch.setattr(Client, "runs", refused)
    spool.put("a1", run_report())
    delivery.start()
    delivery.flush("a1", 0.5, delivery._end)
    assert len(list(spool.runs("a1"))) == 1


def test_the_client_tries_again_on_5xx_and_never_on_4xx(service: Any, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """503 twice, then the answer; 409 once."""
    claim = v1.ClaimRequest(protocol=1, node="node")
    import threading

    service.down = True

    def back_after_two() -> None:
        while len(service.tokens) < 2:
            time.sleep(0.01)
        service.down = False

    threading.Thread(target=back_after_two, daemon=True).start()
    assert client.next(claim, patience_s=120).attempt_id is None
    assert len(service.tokens) > 1
    assert set(service.tokens) == {"Bearer secret-token"}
    service.tokens.clear()
    with pytest.raises(ServiceRefused) as refused:
        client._post("/gone", claim, v1.Ack, patience_s=10)
    assert (refused.value.status, refused.value.code, len(service.tokens)) == (409, "conflict", 1)
    with pytest.raises(ServiceUnavailable, match="not as Groundspeed does"):  # of whatever stands in for it
        client._post("/nowhere", claim, v1.Ack, patience_s=0)


def test_no_service_at_all_is_unavailable(tmp_path: Path) -> None:
    """A refused connection is told with the address."""
    import threading

    client = Client("http://127.0.0.1:9", lambda: None, "node", threading.Event())
    with pytest.raises(ServiceUnavailable, match=r"127\.0\.0\.1:9"):
        client.heartbeat("a", v1.AttemptHeartbeat())
    client.close()


def test_a_token_that_was_rotated_is_read_again(service: Any, tmp_path: Path) -> None:
    """Without a restart; where the file has not changed the refusal stands."""
    import threading

    file = tmp_path / "token"
    file.write_text("old\n")
    settings = WorkerSettings(token_file=file)
    client = Client(service.url, settings.read_token, "node", threading.Event())
    service.accepts_token = "Bearer new"
    with pytest.raises(ServiceRefused) as refused:
        client.heartbeat("a", v1.AttemptHeartbeat())
    assert refused.value.status == 401
    file.write_text("new\n")
    assert client.heartbeat("a", v1.AttemptHeartbeat()).verdict == "continue"
    assert service.tokens == ["Bearer old", "Bearer old", "Bearer new"]
    client.close()


@pytest.mark.parametrize("protocol", [v1.PROTOCOL - 1, v1.PROTOCOL + 1])
def test_another_protocol_is_told_in_words(service: Any, client: Client, protocol: int, make_register: Callable[[], v1.RegisterRequest]) -> None:  # fmt: skip
    """The service's words reach the operator."""
    service.accepts_protocol = protocol
    with pytest.raises(ProtocolMismatch, match=f"speaks protocol {v1.PROTOCOL}"):
        client.register(make_register())


@pytest.fixture
def make_register() -> Callable[[], v1.RegisterRequest]:
    return lambda: v1.RegisterRequest(protocol=v1.PROTOCOL, node="node", worker_version="0", hardware=v1.HardwareSpec())
