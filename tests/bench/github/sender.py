"""Sends a plan of deliveries at a steady rate over so many connections; writes when each began and how long it took.

sender.py URL PLAN OUT RATE CONNECTIONS SECRET
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import sys
import threading
import time
import uuid
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit


def main(url: str, plan: str, out: str, rate: str, connections: str, secret: str) -> None:
    queue: SimpleQueue[tuple[float, dict[str, Any], bytes, dict[str, str]]] = SimpleQueue()
    begin = time.monotonic() + 0.5
    for i, one in enumerate(json.loads(Path(plan).read_text())):
        body = one["body"].encode()
        headers = {
            "Content-Type": "application/json",
            "X-GitHub-Delivery": str(uuid.uuid4()),
            "X-GitHub-Event": one["event"],
            "X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
        }
        queue.put((begin + i / float(rate), one, body, headers))
    done: list[dict[str, Any]] = []
    threads = [threading.Thread(target=work, args=(urlsplit(url).netloc, queue, done)) for _ in range(int(connections))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    Path(out).write_text(json.dumps(done))


def work(place: str, queue: SimpleQueue[Any], done: list[dict[str, Any]]) -> None:
    """One connection; a delivery that could not begin in time counts from when it should have."""
    connection = http.client.HTTPConnection(place, timeout=60)
    while True:
        try:
            due, one, body, headers = queue.get_nowait()
        except Empty:
            return
        time.sleep(max(0.0, due - time.monotonic()))
        at = time.time() - max(0.0, time.monotonic() - due)
        connection.request("POST", "/webhooks/github", body, headers)
        answer = connection.getresponse()
        answer.read()
        took = time.monotonic() - due
        done.append({"head": one["head"], "at": at, "ms": 1000 * took, "status": answer.status})


if __name__ == "__main__":
    main(*sys.argv[1:])
