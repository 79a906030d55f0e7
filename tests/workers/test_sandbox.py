"""Untrusted code in bubblewrap: it measures, and reaches nothing else."""

from __future__ import annotations

import os
import socket
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from groundspeed.workers import indexproxy, sandbox

ACME = """
from groundspeed.plugins.spi import Direction, Kind, Measured, Metric, Needs, Param
class Plugin:
    name, version, description, timing = "acme", "1", "calls the target", "self-timed"
    params, needs = (), Needs(target=True)
    def metrics(self): return (Metric("seconds", "s", Direction.LOWER, Kind.TIME),)
    def run(self, context): yield Measured("seconds", [float(context.target(context))])
PLUGIN = Plugin()
"""
HOSTILE = """
import glob, os, socket, sys
OUTSIDE = {outside!r}

def fine(context):
    import numpy, torch
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname()).close()
    open("written-here", "w").close()
    return float(torch.ones(2).sum())

def reads_files(context):
    found = [p for p in (OUTSIDE, "/root/.ssh", "/etc/shadow", "/var/lib", "/home") if os.path.exists(p)]
    secrets = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        if b"hush" in open(path, "rb").read(): secrets.append(path)
    if found or secrets or os.getuid() == 0: raise RuntimeError(f"{{found}} {{secrets}} {{os.getuid()}}")
    return 1.0

def reaches_network(context):
    for address in {addresses!r}:
        try: socket.create_connection(tuple(address), timeout=2).close()
        except OSError: continue
        raise RuntimeError(f"reached {{address}}")
    return 1.0

def writes_elsewhere(context):
    written = []
    for folder in [os.path.dirname(sys.executable), os.path.dirname(os.__file__), "/usr", "/etc", *sys.path]:
        try: open(os.path.join(folder, "planted"), "w").close()
        except OSError: continue
        if not folder.startswith(os.getcwd()): written.append(folder)
    if written: raise RuntimeError(str(written))
    return 1.0

def lies_about_its_report(context):
    import inspect
    frame = inspect.currentframe()
    while "spec" not in frame.f_locals: frame = frame.f_back
    spec = frame.f_locals["spec"]
    os.remove(spec.progress_path); os.mkfifo(spec.progress_path)
    os.symlink(OUTSIDE, spec.report_path)
    os._exit(0)
"""


@pytest.fixture(autouse=True)
def _working() -> None:
    name, why = sandbox.available()
    if not name:
        pytest.skip(f"no sandbox on this machine: {why}")


@pytest.fixture
def acme(tmp_path: Path) -> str:
    site = tmp_path / "site"
    info = site / "acme_bench-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "acme_bench.py").write_text(ACME)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-bench\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[groundspeed.benchmarks]\nacme = acme_bench:PLUGIN\n")
    (info / "RECORD").write_text(f"acme_bench.py,,\n{info.name}/METADATA,,\n{info.name}/entry_points.txt,,\n")
    return str(site)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """A package index with one package."""
    folder = tmp_path / "index" / "simple" / "tool"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "tool-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tool.py", "")
        wheel.writestr("tool-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n")
        wheel.writestr("tool-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        names = ("tool.py", *(f"tool-1.0.dist-info/{name}" for name in ("METADATA", "WHEEL", "RECORD")))
        wheel.writestr("tool-1.0.dist-info/RECORD", "".join(f"{name},,\n" for name in names))

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "index")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/simple/"
    server.shutdown()
    server.server_close()


def test_untrusted_code_measures_and_reaches_nothing_else(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, tmp_path: Path) -> None:  # fmt: skip
    """No file of the node, no token, no network, no lasting trace; and its result is taken like any other."""
    outside = tmp_path / "outside"
    outside.write_text('{"message": "hush-outside"}')
    host, port = service.url.removeprefix("http://").split(":")
    addresses = [[host, int(port)], ["169.254.169.254", 80], ["1.1.1.1", 53]]
    sha = repo.commit({"bench.py": HOSTILE.format(outside=str(outside), addresses=addresses)})
    names = ["fine", "reads_files", "reaches_network", "writes_elsewhere", "lies_about_its_report"]
    benchmarks = [{"key": n, "plugin": "acme", "target": f"bench:{n}"} for n in names]
    service.add(make_job(repo, sha, trust="untrusted", benchmarks=benchmarks, build={"submodules": True}))
    worker = start_worker(
        PYTHONPATH=acme, GROUNDSPEED_WORKER_TOKEN="hush-token", GROUNDSPEED_WORKER_PASS_ENV='["SHELL"]'
    )
    service.wait_done(1)
    runs = {key[1]: run for key, run in service.of_job(1).items()}
    told = {name: (run["outcome"], run["evidence"].get("message")) for name, run in runs.items()}
    assert {n: o for n, (o, _) in told.items()} == dict.fromkeys(names[:4], "ok") | {names[4]: "crashed"}, told
    assert runs["fine"]["samples"][0]["values"] == (2.0,)
    assert "hush" not in str(service.runs)
    assert service.registered[0]["sandbox"] == "bubblewrap"
    checkouts = tmp_path / "data" / "worker" / "cache" / "untrusted" / "checkouts"
    assert not list(checkouts.glob("*/*/*/src"))
    assert worker.process is not None


def test_an_untrusted_build_reaches_the_index_and_nothing_else(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, index: str) -> None:  # fmt: skip
    """pip finds its package; the service next to the index is out of reach, directly and through the relay."""
    sha = repo.commit({"bench.py": "def fine(context):\n    import tool\n    return 1.0\n"})
    fetch = (
        'python -c "import urllib.request as r, sys\n'
        f"for proxies in ({{}}, {{'http': 'http://127.0.0.1:{sandbox.PROXY_PORT}'}}):\n"
        "    try: r.build_opener(r.ProxyHandler(proxies)).open(sys.argv[1], timeout=60)\n"
        "    except OSError as e: print('not reached:', e)\n"
        "    else: sys.exit('reached')\" "
    )
    install = ["pip install tool==1.0", f"{fetch} {service.url}/docs", f"{fetch} http://169.254.169.254/latest"]
    benchmarks = [{"key": "fine", "plugin": "acme", "target": "bench:fine"}]
    service.add(make_job(repo, sha, 1, trust="untrusted", build={"install": install}, benchmarks=benchmarks))
    start_worker(PYTHONPATH=acme, GROUNDSPEED_WORKER_PACKAGE_INDEX=index)
    service.wait_done(1)
    run = service.of_job(1)[0, "fine", 0]
    assert run["outcome"] == "ok", run["evidence"]
    assert [f["name"] for f in run["build"]] == ["package.tool"]
    assert any("403" in line["text"] for line in service.logs)


def test_without_an_index_an_untrusted_build_has_no_network(service: Any, repo: Any, make_job: Any, start_worker: Any, acme: str, index: str) -> None:  # fmt: skip
    """The build fails as the revision's own, with its log."""
    sha = repo.commit({"bench.py": ""})
    build = {"install": [f"pip install --index-url {index} --retries 0 --timeout 2 tool==1.0"]}
    benchmarks = [{"key": "fine", "plugin": "acme", "target": "bench:fine"}]
    service.add(make_job(repo, sha, 1, trust="untrusted", build=build, benchmarks=benchmarks))
    start_worker(PYTHONPATH=acme)
    service.wait(lambda: bool(service.finished))
    assert service.of_job(1) == {} or {run["outcome"] for run in service.of_job(1).values()} == {"failed"}
    assert "tool" not in str([run["build"] for run in service.of_job(1).values()])


def test_the_index_proxy_knows_hosts_by_name_and_port(tmp_path: Path) -> None:
    """Another port of the same host is another place."""
    assert indexproxy.index_hosts("https://pypi.org/simple", ()) == {"pypi.org:443", "files.pythonhosted.org:443"}
    hosts = indexproxy.index_hosts("http://localhost:8081/simple", ("cdn.example.com",))
    assert hosts == {"localhost:8081", "cdn.example.com:443"}
    with indexproxy.serving(tmp_path / "s", hosts) as path:
        for request in (
            b"CONNECT localhost:22 HTTP/1.1",
            b"CONNECT evil.example:443 HTTP/1.1",
            b"GET http://localhost/ HTTP/1.1",
        ):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                client.sendall(request + b"\r\n\r\n")
                assert client.recv(100).startswith(b"HTTP/1.1 403")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(path))
            client.sendall(os.urandom(50) + b"\r\n\r\n")
            assert client.recv(100) == b""
