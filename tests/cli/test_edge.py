"""Failures leave as one paragraph with status 2; nobody sees a traceback who did not ask for one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from groundspeed.cli import edge, instance
from groundspeed.service.errors import Conflict, Invalid, NotFound


def fails(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (NotFound("There is no project 'x'.", "List them."), "There is no project 'x'. List them."),
        (ModuleNotFoundError("no", name="sqlmodel"), "pip install 'groundspeed[service]'"),
        (ModuleNotFoundError("no", name="psutil"), "pip install 'groundspeed[worker]'"),
        (PermissionError(13, "Permission denied", "/x/y"), "refused /x/y: Permission denied"),
        (UnicodeEncodeError("utf-8", "\udcff", 0, 1, "surrogates not allowed"), "holds the byte 0xff"),
        (ZeroDivisionError("division by zero"), "That is a fault of Groundspeed"),
    ],
)
def test_each_failure_is_one_line_and_status_2(
    error: Exception, says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GROUNDSPEED_TRACEBACK", raising=False)
    assert edge.guarded(lambda: fails(error)) == 2
    out = capsys.readouterr()
    assert says in out.err
    assert len(out.err.splitlines()) == 1
    assert out.out == ""


def test_developers_can_have_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUNDSPEED_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        edge.guarded(lambda: fails(ZeroDivisionError()))


@pytest.mark.parametrize(
    ("ended", "status"), [(SystemExit(0), 0), (SystemExit(1), 1), (SystemExit(), 0), (KeyboardInterrupt(), 130)]
)
def test_a_command_that_ends_by_itself_keeps_its_status(ended: BaseException, status: int) -> None:
    assert edge.guarded(lambda: fails(ended)) == status


def test_closed_streams_lead_nowhere(root: Path) -> None:
    """Nothing that is opened later gets their numbers."""
    code = (
        "import os, sys; from groundspeed.cli.edge import guarded; "
        "program = lambda: (print('x'), sys.stderr.write('y'), sys.stdin.read(), sys.exit(os.open('/dev/null', 0)))\n"
        "os._exit(guarded(program))"
    )
    done = subprocess.run(["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, code], check=False, cwd=root)
    assert done.returncode >= 3


def command(*arguments: str, data: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "groundspeed.cli", *arguments, "--data", str(data)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


def test_help_and_version_of_commands_need_no_database(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "groundspeed.cli", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    for name in ("up", "demo", "init", "findings", "status", "run", "project", "config", "worker", "plugins"):
        assert name in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_project_is_named_with_what_to_do(tmp_path: Path) -> None:
    done = command("findings", "nosuch", data=tmp_path / "d")
    assert done.returncode == 2
    assert "nosuch" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_data_folder_that_cannot_be_made_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = command("status", data=tmp_path / "file" / "d")
    assert done.returncode == 2
    assert "--data" in done.stderr


def test_a_setting_that_cannot_be_is_named(tmp_path: Path) -> None:
    done = command("status", data=tmp_path / "d", GROUNDSPEED_PORT="many")
    assert done.returncode == 2
    assert "GROUNDSPEED_PORT" in done.stderr


def test_piped_output_has_no_colours_and_json_is_json(tmp_path: Path) -> None:
    import json

    plain = command("status", data=tmp_path / "d", FORCE_COLOR="", TERM="xterm-256color")
    assert "\x1b" not in plain.stdout
    assert json.loads(command("status", "--json", data=tmp_path / "d").stdout)["running"] is None
    assert json.loads(command("project", "list", "--json", data=tmp_path / "d").stdout) == []


def test_one_folder_has_one_groundspeed(tmp_path: Path) -> None:
    with instance.only_one(tmp_path) as note:
        note({"url": "http://127.0.0.1:1"})
        assert instance.running(tmp_path) == {"pid": os.getpid(), "url": "http://127.0.0.1:1"}
        with pytest.raises(Conflict, match=f"process {os.getpid()}, http://127.0.0.1:1"), instance.only_one(tmp_path):
            pass
    assert instance.running(tmp_path) is None
    with instance.only_one(tmp_path):
        pass


def test_a_port_that_is_taken_or_not_ours_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Invalid, match="is taken by another program"):
        instance.free_port("127.0.0.1", taken.getsockname()[1])
    assert instance.free_port("127.0.0.1", 0) > 0
    tried, probed = list[int](), instance._probed

    def counted(host: str, port: int) -> int:
        tried.append(port)
        return probed(host, port)

    monkeypatch.setattr(instance, "_probed", counted)
    with pytest.raises(Invalid, match="cannot be listened on"):
        instance.free_port("203.0.113.1", 0)
    assert len(tried) == 1, "of a host that is not this machine one port says it for all"
