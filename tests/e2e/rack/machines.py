"""Twelve machines in one place: a real worker process each, forked from one that has everything imported.

``python machines.py FOLDER``: FOLDER holds a capture ``NAME.xml`` for each node. A file ``NAME.reboot`` is a reboot:
its content becomes the capture and the worker is started again; empty content: the machine does not come back.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

from captures import Library

from groundspeed.plugins import device
from groundspeed.plugins.device.nvml import Nvml
from groundspeed.workers import main as worker
from groundspeed.workers import node as worker_node

FOLDER = Path(sys.argv[1])
_children: dict[str, int] = {}


def start(name: str) -> None:
    """Fork the worker of one node. What is read once of the real machine (its plugins, its packages) is shared."""
    pid = os.fork()
    if pid:
        _children[name] = pid
        return
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # gone with the rack
    device._opened[:] = [Nvml(library=Library(FOLDER / f"{name}.xml"))]
    os.environ |= {
        "GROUNDSPEED_WORKER_NODE": name,
        "GROUNDSPEED_WORKER_DATA_DIR": str(FOLDER / name),
        "RACK_FOLDER": str(FOLDER),
        "RACK_NODE": name,
    }
    log = os.open(FOLDER / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os._exit(worker.run())


def stop(name: str) -> None:
    pid = _children.pop(name, None)
    if pid is not None:
        os.kill(pid, signal.SIGKILL)  # power off
        os.waitpid(pid, 0)


def main() -> None:
    catalogue = tuple(spec for spec in worker.read_catalogue() if spec.name.startswith("rack_"))
    stack = worker.discover(None, (), FOLDER / "stack")
    worker.read_catalogue = lambda: catalogue
    worker.discover = lambda *_: stack
    worker_node._LOOK_EVERY_S = 1.0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for capture in sorted(FOLDER.glob("*.xml")):
        start(capture.stem)
    (FOLDER / "ready").touch()
    while True:
        for wish in sorted(FOLDER.glob("*.reboot")):
            content = wish.read_text(encoding="utf-8")
            wish.unlink()
            stop(wish.stem)
            if content:
                (FOLDER / f"{wish.stem}.xml").write_text(content, encoding="utf-8")
                start(wish.stem)
        time.sleep(0.2)


if __name__ == "__main__":
    try:
        main()
    finally:
        for name in list(_children):
            stop(name)
