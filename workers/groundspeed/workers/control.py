"""The control workload: pinned, tiny, the same for ever. It runs once in each lease, before anything of the code under
test, with the node's own Python; what it takes tells a machine that became slower from code that did.

Changing what it computes starts its history anew: raise ``VERSION`` then.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from groundspeed.workers.variables import base_variables

VERSION = 1
LIMIT_S = 60.0
PROGRAM = """
import json, os, statistics, sys, time

if sys.argv[3:]:
    os.sched_setaffinity(0, map(int, sys.argv[3:]))

def cpu():
    total = 0
    for i in range(200_000):
        total = (total * 31 + i) % 1_000_003
    return total

def timed(work, times):
    work()
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return statistics.median(found)

out = {"cpu_s": timed(cpu, 5)}
if sys.argv[1] != "none":
    import torch
    device = sys.argv[1]
    wait = torch.cuda.synchronize if device.startswith("cuda") else (lambda: None)
    size = int(sys.argv[2])
    a = torch.ones(size, size, device=device, dtype=torch.bfloat16)
    b = torch.empty(size * size, device=device, dtype=torch.float32)
    def product():
        for _ in range(10):
            torch.mm(a, a)
        wait()
    def copy():
        for _ in range(10):
            b.clone()
        wait()
    out |= {"device_s": timed(product, 7), "memory_s": timed(copy, 7)}
print(json.dumps(out))
"""


def measure(python: Path, device: str, cpus: Sequence[int] = (), size: int = 4096) -> dict[str, Any]:
    """Seconds of the fixed pieces of work. ``device``: "none" for the processor alone, else a torch device.

    What goes wrong is an answer too: {"unavailable": why}. It never costs a job.
    """
    command = [str(python), "-I", "-c", PROGRAM, device, str(size), *map(str, cpus)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, check=True, env=base_variables(os.environ)
        )
        found: dict[str, Any] = {"version": VERSION, **json.loads(done.stdout)}
    except subprocess.TimeoutExpired:
        return {"unavailable": f"the control workload took longer than {LIMIT_S:g} s"}
    except subprocess.CalledProcessError as error:
        return {"unavailable": f"the control workload failed: {error.stderr.strip().splitlines()[-1:]}"}
    except (OSError, ValueError) as error:
        return {"unavailable": f"the control workload could not be run: {error}"}
    return found
