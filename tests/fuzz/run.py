"""``make fuzz``: every target for its time, each in a process with bounded memory; failures leave their input behind.

Times are of the processor: on a busy machine the same is tried, only later.

python tests/fuzz/run.py [--seconds 120] [--hand-written 600] [--only NAME …] [--seed N]
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import resource
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from fuzz import seeds, targets

MEMORY_BYTES = 1024**3
HANG_S = 10
"""Of the processor's time: nothing that is fuzzed is longer than 200 kB, and whatever takes this long hangs."""
FOUND = Path(__file__).resolve().parent / "found"


class Hang(Exception):
    """A target that does not come back."""


def _alarm(_signal: int, _frame: Any) -> None:
    raise Hang


def one(name: str, seconds: float, start: int, results: Any) -> None:
    """Fuzz one target until its time is over or it fails."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, _alarm)
    rng, count, end = random.Random(start), 0, time.process_time() + seconds
    target, slowest = targets.TARGETS[name], 0.0
    while time.process_time() < end:
        data = seeds.damaged(name, rng) if count else seeds.seed(name)
        count += 1
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, HANG_S)
        try:
            target(data)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is what fuzzing looks for
            signal.setitimer(signal.ITIMER_PROF, 0)
            FOUND.mkdir(exist_ok=True)
            path = FOUND / f"{name}-{start}-{count}.bin"
            path.write_bytes(data)
            results.put(
                (
                    name,
                    count,
                    slowest,
                    f"{type(error).__name__} (input kept in {path})\n{traceback.format_exc(limit=-4)}",
                )
            )
            return
        signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    results.put((name, count, slowest, f"{time.process_time():.0f} s of processor time, peak memory {peak} MiB"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="of the processor, for each importer")
    parser.add_argument("--hand-written", type=float, default=600.0, help="likewise, for each parser of text")
    parser.add_argument("--only", nargs="*", default=sorted(targets.TARGETS))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and the daemons end with it
    results: Any = multiprocessing.Queue()
    waiting, running, bad = list(options.only), {}, 0
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            seconds = options.hand_written if name in targets.HAND_WRITTEN else options.seconds
            arguments = (name, seconds, options.seed, results)
            running[name] = multiprocessing.Process(target=one, args=arguments, daemon=True)
            running[name].start()
        time.sleep(0.2)
        for name, process in list(running.items()):
            if not process.is_alive():
                del running[name]
                if process.exitcode:
                    bad += 1
                    sys.stdout.write(f"FAIL {name}: its process ended with {process.exitcode}\n")
        while not results.empty():
            name, count, slowest, text = results.get()
            failed = "peak memory" not in text
            bad += failed
            sys.stdout.write(
                f"{'FAIL' if failed else 'ok  '} {name}: {count} inputs, slowest {slowest * 1e3:.0f} ms, {text}\n"
            )
            sys.stdout.flush()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
