"""``make fuzz``: every target for its time, each in a process with bounded memory; failures leave their input behind.

Times are of the processor: on a busy machine the same is tried, only later. What was done is remembered in
``.bench/fuzz``: a run that was stopped goes on where it was, and one that starts when all is done starts anew.

python tests/fuzz/run.py [--seconds 120] [--hand-written 600] [--only NAME …] [--seed N] [--table]
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

from fuzz import ledger, seeds, targets

MEMORY_BYTES = 1024**3
HANG_S = 10
"""Of the processor's time: nothing that is fuzzed is longer than 200 kB, and whatever takes this long hangs."""
SLICE_S = 20
"""Of the processor's time: so much at most is forgotten when a run is stopped."""
FOUND = Path(__file__).resolve().parent / "found"


class Hang(Exception):
    """A target that does not come back."""


def _alarm(_signal: int, _frame: Any) -> None:
    raise Hang


def one(name: str, seconds: float, start: int, results: Any) -> None:
    """Fuzz one target until its time is over or it fails; tell ``results`` (name, seconds, inputs, slowest, peak MiB,
    failure) after every slice of it.
    """
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, _alarm)
    rng, tried, target = random.Random(start), 0, targets.TARGETS[name]
    sliced, slowest = time.process_time(), 0.0
    count, end = 0, sliced + seconds
    while (now := time.process_time()) < end:
        if now - sliced > SLICE_S:
            results.put((name, now - sliced, count, slowest, _peak(), ""))
            sliced, count, slowest = now, 0, 0.0
        data = seeds.damaged(name, rng) if tried else seeds.seed(name)
        tried, count = tried + 1, count + 1
        signal.setitimer(signal.ITIMER_PROF, HANG_S)
        began = time.process_time()
        try:
            target(data)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is what fuzzing looks for
            signal.setitimer(signal.ITIMER_PROF, 0)
            FOUND.mkdir(exist_ok=True)
            path = FOUND / f"{name}-{start}-{tried}.bin"
            path.write_bytes(data)
            failure = f"{type(error).__name__} (input kept in {path})\n{traceback.format_exc(limit=-4)}"
            results.put((name, time.process_time() - sliced, count, slowest, _peak(), failure))
            return
        signal.setitimer(signal.ITIMER_PROF, 0)
        slowest = max(slowest, time.process_time() - began)
    results.put((name, time.process_time() - sliced, count, slowest, _peak(), ""))


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main() -> int:
    options = _options()
    wanted = {name: options.hand_written if name in targets.HAND_WRITTEN else options.seconds for name in options.only}
    done = {name: ledger.read(name) for name in wanted}
    if options.table:
        sys.stdout.writelines(_line(name, done[name], seconds) for name, seconds in wanted.items())
        return 0
    if all(done[name].seconds >= seconds for name, seconds in wanted.items()):
        for name in wanted:
            ledger.forget(name)
            done[name] = ledger.read(name)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and the daemons end with it
    bad = _fuzz(wanted, done, options)
    return 1 if bad else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="of the processor, for each importer")
    parser.add_argument("--hand-written", type=float, default=600.0, help="likewise, for each parser of text")
    parser.add_argument("--only", nargs="*", default=sorted(targets.TARGETS), choices=sorted(targets.TARGETS))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--table", action="store_true", help="only show what has been done")
    return parser.parse_args()


def _line(name: str, entry: ledger.Entry, seconds: float) -> str:
    return (
        f"{'ok  ' if entry.seconds >= seconds else 'part'} {name}: {entry.seconds:.0f} of {seconds:.0f} s of processor "
        f"time, {entry.inputs} inputs, slowest {entry.slowest * 1e3:.0f} ms, peak memory {entry.peak_mib} MiB\n"
    )


def _fuzz(wanted: dict[str, float], done: dict[str, ledger.Entry], options: argparse.Namespace) -> int:
    """Run what is missing; gives the number of failures."""
    results: Any = multiprocessing.Queue()
    waiting = [name for name, seconds in wanted.items() if done[name].seconds < seconds]
    sys.stdout.writelines(_line(name, done[name], wanted[name]) for name in wanted if name not in waiting)
    running: dict[str, Any] = {}
    failed: set[str] = set()
    while waiting or running:
        while waiting and len(running) < options.jobs:
            name = waiting.pop(0)
            start = options.seed + done[name].inputs  # and a run that goes on tries what it has not tried
            arguments = (name, wanted[name] - done[name].seconds, start, results)
            running[name] = multiprocessing.Process(target=one, args=arguments, daemon=True)
            running[name].start()
        time.sleep(0.2)
        ended = {name: process for name, process in running.items() if not process.is_alive()}
        while not results.empty():
            name, *account, failure = results.get()
            done[name].add(*account)
            if failure:
                failed.add(name)
                ledger.forget(name)
                sys.stdout.write(f"FAIL {name}: input {done[name].inputs}, {failure}\n")
            else:
                ledger.write(name, done[name])
        for name, process in ended.items():
            del running[name]
            if process.exitcode:
                failed.add(name)
                sys.stdout.write(f"FAIL {name}: its process ended with {process.exitcode}\n")
            elif name not in failed:
                sys.stdout.write(_line(name, done[name], wanted[name]))
        sys.stdout.flush()
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
