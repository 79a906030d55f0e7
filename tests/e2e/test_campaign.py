"""A driver upgrade on twelve machines, each a real worker process, with trouble planted on four of them.

Of the machines only the edge is replaced: libnvidia-ml answers from a capture, and the suites replay recorded noise. All
the rest is what a user starts: API, control worker, Redis, Celery, checkout, a fresh process a benchmark, the hook.
"""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from groundspeed.service.db.engine import Database
from processes import Process, RedisServer, Service, until
from repositories import GitRepo

from .rack.captures import Machine

RACK = Path(__file__).parent / "rack"
OLD, NEW = "570.86.15", "580.65.06"
CONFIG = """\
[project]
name = "rack"

[[suite]]
name = "compute"
plugin = "rack_compute"

[[suite]]
name = "fabric"
plugin = "rack_fabric"
"""
NAMES = [f"n{i:02}" for i in range(1, 13)]
LOSES_SETTINGS, STAYS_AWAY, SLOW_CARD, SLOW_LINKS = "n04", "n05", "n06", "n07"
AFTER = {LOSES_SETTINGS: Machine(LOSES_SETTINGS, NEW, persistence=False, clock=1755)}


class Rack:
    """The machines, the service, and a campaign over them."""

    def __init__(self, folder: Path, redis: RedisServer, database: Database) -> None:
        self.folder = folder / "rack"
        self.http = httpx.Client(timeout=60)
        (self.folder / "after").mkdir(parents=True)
        (folder / "data").mkdir()
        self._plugin(folder / "site")
        self._machines()
        self.repo = GitRepo(folder / "repo")
        self.repo.commit("Start", {"groundspeed.toml": CONFIG})
        after = self.folder / "after"
        hook = f'cp {after}/"$GROUNDSPEED_NODE".xml {self.folder}/tmp-"$GROUNDSPEED_NODE" && '
        hook += f'mv {self.folder}/tmp-"$GROUNDSPEED_NODE" {self.folder}/"$GROUNDSPEED_NODE".reboot'
        self.service = Service(
            folder / "data", broker_url=redis.url, database_url=database.url, heartbeat_s="1", log_level="WARNING",
            campaign_hooks=json.dumps({"reboot": hook}),
        )  # fmt: skip
        self.workers = Process(
            [str(RACK / "machines.py"), str(self.folder)],
            {
                "PYTHONPATH": str(folder / "site"),
                "OMP_NUM_THREADS": "1",
                "GROUNDSPEED_WORKER_API_URL": self.service.url,
                "GROUNDSPEED_WORKER_BROKER_URL": redis.url,
                "GROUNDSPEED_WORKER_DEVICE": "cpu",
                "GROUNDSPEED_WORKER_IDLE_POLL_S": "1.5",
                "GROUNDSPEED_WORKER_PASS_ENV": '["RACK_FOLDER", "RACK_NODE"]',
                "GROUNDSPEED_LOG_LEVEL": "WARNING",
            },
            folder / "machines.log",
        )

    def _plugin(self, site: Path) -> None:
        """Installed as any other distribution is."""
        info = site / "rack_replay-1.dist-info"
        info.mkdir(parents=True)
        shutil.copy(RACK / "replay.py", site / "rack_replay.py")
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rack-replay\nVersion: 1\n")
        points = "rack_compute = rack_replay:COMPUTE\nrack_fabric = rack_replay:FABRIC\n"
        (info / "entry_points.txt").write_text(f"[groundspeed.benchmarks]\n{points}")
        listed = ("rack_replay.py", f"{info.name}/METADATA", f"{info.name}/entry_points.txt", f"{info.name}/RECORD")
        (info / "RECORD").write_text("".join(f"{name},,\n" for name in listed))

    def _machines(self) -> None:
        for name in NAMES:
            (self.folder / f"{name}.xml").write_text(Machine(name, OLD).capture())
            after = AFTER.get(name, Machine(name, NEW)).capture()
            (self.folder / "after" / f"{name}.xml").write_text("" if name == STAYS_AWAY else after)
        truth = {
            "noise": {"rack_compute": noise("gemm", 0.0054), "rack_fabric": noise("copy", 0.0019)},
            "nodes": 0.003,
            "devices": {f"rack_compute/{Machine(SLOW_CARD, OLD).uuid(1)}": 0.08},
            "drivers": {f"rack_fabric/{SLOW_LINKS}/{NEW}": 0.02},
            "settings": {"rack_compute": 0.05, "rack_fabric": 0.05},
        }
        (self.folder / "truth.json").write_text(json.dumps(truth))

    def start(self) -> None:
        self.service.start("api", "control")
        self.workers.start()
        until(self._up, 180.0, what="the machines are up")
        assert self.ask("/projects", {"repo_url": str(self.repo.path), "watch": False})["slug"] == "rack"
        until(lambda: len(self.get("/fleet")["nodes"]) == len(NAMES), 180.0, what="all nodes have registered")

    def _up(self) -> bool:
        assert self.workers.alive, self.workers.said()
        return (self.folder / "ready").exists()

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        reply = self.http.post(f"{self.service.url}/api/v1{path}", json=body)
        assert reply.status_code in {200, 201}, reply.text
        return reply.json()

    def get(self, path: str) -> Any:
        reply = self.http.get(f"{self.service.url}/api/v1{path}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    def campaign(self) -> Any:
        return self.get("/campaigns/driver-580")

    def end(self) -> None:
        self.workers.end()
        self.service.end()
        self.http.close()

    def said(self) -> str:
        logs = "\n".join(path.read_text()[-400:] for path in sorted(self.folder.glob("*.log")))
        return f"{self.campaign()['counts']}\n{self.service.said()}\n{self.workers.said()[-2000:]}\n{logs}"


def noise(workload: str, spread: float) -> list[float]:
    """Relative deviations of recorded processes; without the recordings, drawn at the spread that they showed."""
    import rack

    recorded = rack.recorded(workload)
    if recorded is not None:
        return [float(math.expm1(value)) for value in recorded]
    drawn = random.Random(1)
    return [drawn.gauss(0.0, spread) for _ in range(40)]


@pytest.fixture
def machines(tmp_path: Path, redis_server: RedisServer, sqlite_database: Database) -> Iterator[Rack]:
    one = Rack(tmp_path, redis_server, sqlite_database)
    try:
        yield one
    finally:
        one.end()


@pytest.mark.timeout(900)
def test_each_trouble_is_reported_by_name_and_the_second_wave_is_not_touched(machines: Rack) -> None:
    machines.start()
    made = machines.ask(
        "/campaigns",
        {
            "name": "driver-580", "project": "rack", "wanted": {"gpu.driver": "580"}, "canary": 2, "waves": [0.6, 1.0],
            "replicates": 3, "hook": "reboot", "return_s": 30, "max_lost": 1,
        },
    )  # fmt: skip
    assert made["waves"] == [NAMES[:2], NAMES[2:8], NAMES[8:]]
    try:
        until(lambda: machines.campaign()["state"] != "running", 600.0, 1.0, "the campaign is held")
    except AssertionError as late:
        raise AssertionError(machines.said()) from late
    shown = machines.campaign()

    assert (shown["state"], shown["phase"]) == ("held", "wave 1"), shown["reasons"]
    assert {reason.split(":")[0] for reason in shown["reasons"]} == {LOSES_SETTINGS, STAYS_AWAY, SLOW_LINKS}
    states = {node["name"]: node["state"] for node in shown["nodes"]}
    assert {name for name, state in states.items() if state == "ready"} == set(NAMES[8:])
    assert all(OLD in (machines.folder / f"{name}.xml").read_text() for name in NAMES[8:])

    said = shown["findings"]
    assert {line.split()[0].strip(":") for line in said} == {LOSES_SETTINGS, STAYS_AWAY, SLOW_CARD, SLOW_LINKS}, said
    text = "\n".join(said)
    assert f"{STAYS_AWAY}: it did not come back within 30 s." in text
    assert f"{LOSES_SETTINGS} does not count: it came back with settings lost:" in text
    assert "gpu0 and gpu1.persistence: True → False" in text
    assert "gpu0 and gpu1.clocks_policy: application clocks 1980 MHz → default" in text
    assert f"{SLOW_CARD} gpu1 ({Machine(SLOW_CARD, OLD).uuid(1)}) is" in text
    assert "worse than its peers in compute: throughput (compute), before and after alike." in text
    (links,) = [line for line in said if line.startswith(SLOW_LINKS)]
    assert "fabric: bus_bandwidth [2 devices]" in links
    assert "%" in links

    common = "\n".join(shown["common"])
    assert "gpu0 and gpu1.gsp_firmware: 570.86.15 → 580.65.06" in common  # it came with the driver, on every node
    by_name = {metric["metric"]: metric for metric in shown["metrics"]}
    assert by_name["compute: throughput"]["answer"] == "go"
    assert shown["basis"].startswith("6 nodes that count")

    csv = httpx.get(f"{machines.service.url}/api/v1/campaigns/driver-580/report.csv", timeout=60).text
    assert csv.count("\r\nnode,") == len(NAMES)
    for path in (
        "/campaigns/driver-580",
        "/campaigns/driver-580/report.html",
        "/campaigns",
        "/projects/rack/stragglers",
    ):
        page = httpx.get(machines.service.url + path, timeout=60)
        assert page.status_code == 200, (path, page.text[-800:], machines.service.said()[-2000:])
    assert SLOW_CARD in page.text  # stands out without any change too
