"""Starts the ranks of one benchmark on this machine, follows them, and says which of them failed and how.

Each rank is a fresh process of ``python -m groundspeed.plugins.distributed.rank`` in the group of the benchmark
process, so that whoever ends the group ends the ranks. Ranks meet through a file in the working folder, or, in a job
of several nodes, at the address that the job was given; each node then starts and follows its own share of them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from groundspeed.plugins.distributed.nodes import Nodes
from groundspeed.plugins.spi import Context, TimedOut, WrongResult

POLL_S = 0.02
STACKS_S = 1.0
"""How long a hung rank gets to write its Python stacks before it is killed."""
TAIL_BYTES = 8000


class RankFailed(Exception):
    """A rank ended without finishing; names the rank and how it ended."""

    def __init__(self, message: str, evidence: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.evidence = dict(evidence)


@dataclass(slots=True)
class Rank:
    """One process and the files it writes: JSON lines of events, and its standard error."""

    number: int
    process: subprocess.Popen[bytes]
    events_path: Path
    stderr_path: Path
    offset: int = 0
    last_event: str = "started"
    last_seen_s: float = field(default_factory=time.monotonic)
    finished: bool = False

    def new_events(self) -> Iterator[dict[str, Any]]:
        """Whole lines written since the last call."""
        with self.events_path.open("rb") as file:
            file.seek(self.offset)
            text = file.read()
        whole, newline, _ = text.rpartition(b"\n")
        self.offset += len(whole) + len(newline)
        for line in whole.splitlines():
            event: dict[str, Any] = json.loads(line)
            self.last_seen_s = time.monotonic()
            self.last_event = str(event.get("at", event["event"]))
            yield event

    def stderr_tail(self) -> str:
        data = self.stderr_path.read_bytes() if self.stderr_path.exists() else b""
        return data[-TAIL_BYTES:].decode("utf-8", "replace")


@dataclass(slots=True)
class Ranks:
    """``run`` yields the events of all ranks as they come. A context manager: leaving it ends every rank."""

    context: Context
    entry: str
    """"package.module:function", called in each rank with a distributed.rank.RankContext."""
    world_size: int
    payload: Mapping[str, Any]
    silence_s: float = 60.0
    """A rank that reports nothing for so long is taken as hung."""
    ranks: list[Rank] = field(default_factory=list)

    def __enter__(self) -> Self:
        meeting = self.context.workdir / f"rendezvous-{os.getpid()}-{time.monotonic_ns()}"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        environment.setdefault("OMP_NUM_THREADS", "1")
        nodes = Nodes.here()
        place = nodes.meeting or f"file://{meeting}"
        for local, number in enumerate(nodes.ranks(self.world_size)):
            self.ranks.append(self._start(number, local, meeting, place, environment))
        return self

    def __exit__(self, *_: object) -> None:
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.process.kill()
            rank.process.wait()

    def _start(self, number: int, local: int, meeting: Path, place: str, environment: dict[str, str]) -> Rank:
        events = self.context.workdir / f"{meeting.name}-rank{number}.jsonl"
        stderr = events.with_suffix(".stderr")
        events.touch()
        spec = {
            "entry": self.entry,
            "rank": number,
            "local": local,
            "world_size": self.world_size,
            "device": self.context.device.partition(":")[0],
            "meeting": place,
            "events": str(events),
            "payload": dict(self.payload),
        }
        with stderr.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "groundspeed.plugins.distributed.rank", json.dumps(spec)],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
            )
        return Rank(number, process, events, stderr)

    def run(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(rank, event) until all have finished.

        Raises RankFailed, WrongResult or TimedOut after the last good event.
        """
        while not all(rank.finished for rank in self.ranks):
            for rank in self.ranks:
                if rank.finished:
                    continue
                ended = rank.process.poll() is not None
                for event in rank.new_events():
                    rank.finished = rank.finished or event["event"] == "finished"
                    self._raise_if_bad(rank, event)
                    yield rank.number, event
                if ended and not rank.finished:
                    raise RankFailed(self._how_it_ended(rank), self._evidence())
            self._raise_if_hung()
            time.sleep(POLL_S)

    def _raise_if_bad(self, rank: Rank, event: Mapping[str, Any]) -> None:
        if event["event"] == "wrong":
            wrong = WrongResult(f"rank {rank.number}: {event['message']}")
            wrong.evidence = self._evidence()  # type: ignore[attr-defined]
            raise wrong
        if event["event"] == "error":
            evidence = {**self._evidence(), "rank_traceback": event.get("traceback", "")}
            if event.get("oom"):
                raise MemoryError(f"rank {rank.number} of {self.world_size}: {event['message']}")
            raise RankFailed(f"rank {rank.number} of {self.world_size}: {event['message']}", evidence)

    def _raise_if_hung(self) -> None:
        now = time.monotonic()
        alive = [rank for rank in self.ranks if not rank.finished]
        hung = [rank for rank in alive if now - rank.last_seen_s > self.silence_s]
        if not hung:
            return
        # The one that got least far holds up the others, which wait for it inside the collective.
        culprit = min(self.ranks, key=lambda rank: (rank.finished, rank.offset))
        evidence = self._evidence(stacks=True)
        raise TimedOut(
            f"no rank made progress for {self.silence_s:g} s; rank {culprit.number} of {self.world_size} "
            f"is behind the others, last at {culprit.last_event!r}",
            evidence,
        )

    def _how_it_ended(self, rank: Rank) -> str:
        code = rank.process.returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        return f"rank {rank.number} of {self.world_size} {how}, last at {rank.last_event!r}"

    def _evidence(self, *, stacks: bool = False) -> dict[str, Any]:
        if stacks:
            for rank in self.ranks:
                if rank.process.poll() is None:
                    rank.process.send_signal(signal.SIGUSR1)
            time.sleep(STACKS_S)
        return {
            "ranks": [
                {
                    "rank": rank.number,
                    "last_progress": rank.last_event,
                    "exit_status": rank.process.poll(),
                    "stderr_tail": rank.stderr_tail(),
                }
                for rank in self.ranks
            ]
        }
