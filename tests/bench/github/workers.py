"""Simulated workers: each takes jobs over HTTP and reports all pairs at once; writes when the last report was sent.

workers.py URL SLOTS OUT
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import httpx

from groundspeed.service.wire import v1
from world import run, samples

PAIRS = 3
stop = threading.Event()
lock = threading.Lock()


def work(url: str, slot: int, out: Path) -> None:
    node = f"sim{slot}"
    with httpx.Client(base_url=f"{url}/api/v1", timeout=60) as client:
        while not stop.is_set():
            message = v1.ClaimRequest(protocol=v1.PROTOCOL, node=node, delivery=uuid.uuid4().hex)
            claimed = post(client, f"/workers/{node}/next", message)
            if claimed is None or not claimed.get("job"):
                stop.wait(0.5)
                continue
            job = v1.JobSpec.model_validate(claimed["job"])
            reports = [
                report(one, pair, side.index) for one in job.benchmarks for pair in range(PAIRS) for side in job.sides
            ]
            with lock, out.open("a") as file:
                file.write(json.dumps({"head": job.sides[-1].sha, "at": time.time()}) + "\n")
            post(client, f"/attempts/{claimed['attempt_id']}/runs", v1.RunBatch(runs=tuple(reports)))
            post(client, f"/attempts/{claimed['attempt_id']}/finish", v1.FinishRequest(state="succeeded"))


def report(benchmark: v1.BenchmarkSpec, pair: int, side: int) -> v1.RunReport:
    value = (1.1 if side else 1.0) * (1 + 0.0005 * ((pair * 7 + side * 3) % 5 - 2))
    return run(
        benchmark.key, pair, side, plugin=benchmark.plugin, params=benchmark.params, samples=[samples("time", value)]
    )


def post(client: httpx.Client, path: str, message: v1.Wire) -> Any:
    try:
        answer = client.post(path, content=message.model_dump_json(), headers={"content-type": "application/json"})
        return answer.json() if answer.is_success else None
    except httpx.HTTPError:
        return None


def main(url: str, slots: str, out: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    Path(out).touch()
    threads = [threading.Thread(target=work, args=(url, slot, Path(out)), daemon=True) for slot in range(int(slots))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
