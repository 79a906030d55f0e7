"""Environments on real GPUs: what a machine says of itself, what differs between two, and a change run as a campaign.

``python3 -m tests.bench.gpu.environments read OUT.json``: every facet of this machine, as a worker would register it.
``… difference ONE.json TWO.json``: in words.
``… compare OUT [--variable NVIDIA_TF32_OVERRIDE=0] [--seconds 110] [--small]``: one device, without and with a variable,
in turns; needs torch and nothing of the service. ``… replay OUT DOCS``: a campaign whose nodes answer with what
``compare`` left in OUT; DOCS receives the report. Needs the service, and no GPU.
``… campaign OUT [--nodes 4] [--variable NCCL_ALGO=Tree]``: a service, and on this one machine a worker for each group of
GPUs, each a node; the variable is set node by node by the campaign's hook. Needs the service and worker extras and git.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.bench.gpu import two_environments

CONFIG = """\
[project]
name = "environments"

[[suite]]
name = "gemm"
plugin = "gemm"
params = { precision = "bf16" }

[[suite]]
name = "fabric"
plugin = "collectives"
params = { collective = "all_reduce", min_bytes = 67108864, max_bytes = 268435456 }
"""
LIMIT_S = 540.0


def read(out: Path) -> None:
    found = two_environments.facets()
    out.write_text(json.dumps([dataclasses.asdict(facet) for facet in found], indent=1) + "\n")
    for facet in found:
        sys.stdout.write(
            f"{facet.layer:6}{facet.name:28}{facet.value if facet.value is not None else '? ' + facet.reason}\n"
        )


def difference(one: Path, two: Path) -> None:
    from groundspeed.service.domain.environments import Facet, collapse
    from groundspeed.service.domain.environments import difference as compare

    sides = [[Facet(**row) for row in json.loads(path.read_text())] for path in (one, two)]
    for line in collapse(compare(*sides)):
        sys.stdout.write(line + "\n")


class Machines:
    """A service and its workers, each with some of this machine's GPUs and its own variables."""

    def __init__(self, folder: Path, nodes: int, gpus: int) -> None:
        self.folder, self.nodes = folder, nodes
        self.share = max(gpus // nodes, 1)
        self.started: dict[str, subprocess.Popen[bytes]] = {}
        self.url = "http://127.0.0.1:8791"
        hook = f'touch {shlex.quote(str(folder))}/"$GROUNDSPEED_NODE".$GROUNDSPEED_ACTION'
        self.service = {
            "GROUNDSPEED_DATA_DIR": str(folder / "data"), "GROUNDSPEED_PORT": "8791", "GROUNDSPEED_TICK_S": "1",
            "GROUNDSPEED_HEARTBEAT_S": "2", "GROUNDSPEED_CAMPAIGN_HOOKS": json.dumps({"set": hook}),
        }  # fmt: skip

    def run(self, name: str, arguments: list[str], **variables: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.started[name] = subprocess.Popen(
                [sys.executable, "-m", *arguments], env={**os.environ, **variables}, stdout=log, stderr=log
            )

    def worker(self, index: int, **variables: str) -> None:
        gpus = range(index * self.share, (index + 1) * self.share)
        settings = {
            "DATA_DIR": str(self.folder / f"node{index}"), "NODE": f"node{index}", "API_URL": self.url,
            "IDLE_POLL_S": "1", "DEVICES": json.dumps([str(gpu) for gpu in gpus]),
        }  # fmt: skip
        given = {f"GROUNDSPEED_WORKER_{name}": value for name, value in settings.items()}
        self.run(f"node{index}", ["groundspeed.cli", "worker"], **given, **variables)

    def stop(self, name: str) -> None:
        process = self.started.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def change(self, name: str, value: str) -> None:
        """What the hook has asked for: the worker comes back with the variable, or without it."""
        for index in range(self.nodes):
            for action in ("change", "revert"):
                wish = self.folder / f"node{index}.{action}"
                if wish.exists():
                    wish.unlink()
                    self.stop(f"node{index}")
                    self.worker(index, **({name: value} if action == "change" else {}))

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/api/v1{path}", data, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)


def campaign(out: Path, nodes: int, variable: str) -> None:
    from groundspeed.plugins.device import devices

    name, _, value = variable.partition("=")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gs-environments-") as place:
        folder = Path(place)
        repo = repository(folder / "repo")
        machines = Machines(folder, nodes, len(devices()))
        try:
            machines.run("migrate", ["groundspeed.service", "migrate"], **machines.service)
            machines.started.pop("migrate").wait()
            for part in ("api", "control"):
                machines.run(part, ["groundspeed.service", part], **machines.service)
            for index in range(nodes):
                machines.worker(index)
            begin(machines, repo, nodes, f"env.{name}", value)
            follow(machines, name, value)
            for form in ("text", "json", "csv", "html"):
                done = subprocess.run(
                    [sys.executable, "-m", "groundspeed.cli", "campaign", "report", "change", "--format", form,
                     "--data", str(folder / "data")], capture_output=True, text=True, check=True,
                )  # fmt: skip
                (out / f"report.{'txt' if form == 'text' else form}").write_text(done.stdout)
            sys.stdout.write((out / "report.txt").read_text())
        finally:
            for log in folder.glob("*.log"):
                (out / log.name).write_bytes(log.read_bytes()[-20_000:])
            for started in list(machines.started):
                machines.stop(started)


def repository(path: Path) -> Path:
    path.mkdir()
    (path / "groundspeed.toml").write_text(CONFIG)
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-q", "-m", "Start"]):
        subprocess.run(["git", "-C", str(path), *arguments], check=True)
    return path


def begin(machines: Machines, repo: Path, nodes: int, facet: str, value: str) -> None:
    wait(lambda: len(machines.ask("/fleet")["nodes"]) == nodes, 120.0, "the nodes have registered")
    machines.ask("/projects", {"repo_url": str(repo), "watch": False})
    machines.ask(
        "/campaigns",
        {"name": "change", "project": "environments", "wanted": {facet: value}, "canary": max(nodes - 1, 1),
         "waves": [1.0], "replicates": 3, "hook": "set", "return_s": 120, "stop_on_no_go": False},
    )  # fmt: skip


def follow(machines: Machines, name: str, value: str) -> None:
    def over() -> bool:
        machines.change(name, value)
        return machines.ask("/campaigns/change")["state"] != "running"

    wait(over, LIMIT_S, "the campaign has ended or is held")


def wait(holds: Any, limit_s: float, what: str) -> None:
    end = time.monotonic() + limit_s
    while True:
        try:
            if holds():
                return
        except OSError as error:  # not up yet
            what = f"{what} ({error})" if "(" not in what else what
        if time.monotonic() > end:
            raise SystemExit(f"after {limit_s:g} s still not: {what}")
        time.sleep(0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("read").add_argument("out", type=Path)
    both = commands.add_parser("difference")
    both.add_argument("one", type=Path)
    both.add_argument("two", type=Path)
    one = commands.add_parser("compare")
    one.add_argument("out", type=Path)
    one.add_argument("--variable", default="NVIDIA_TF32_OVERRIDE=0")
    one.add_argument("--seconds", type=float, default=110.0, help="after which no further process begins")
    one.add_argument("--rounds", type=int, default=24, help="at most")
    one.add_argument("--small", action="store_true", help="small work on the processor, to see that it runs")
    again = commands.add_parser("replay")
    again.add_argument("results", type=Path)
    again.add_argument("out", type=Path)
    whole = commands.add_parser("campaign")
    whole.add_argument("out", type=Path)
    whole.add_argument("--nodes", type=int, default=4)
    whole.add_argument("--variable", default="NCCL_ALGO=Tree")
    given = parser.parse_args()
    if given.command == "read":
        read(given.out)
    elif given.command == "difference":
        difference(given.one, given.two)
    elif given.command == "compare":
        two_environments.compare(given.out, given.variable, given.seconds, given.rounds, small=given.small)
    elif given.command == "replay":
        from tests.bench.gpu import replayed

        replayed.replay(given.results, given.out)
    else:
        campaign(given.out, given.nodes, given.variable)


if __name__ == "__main__":
    main()
