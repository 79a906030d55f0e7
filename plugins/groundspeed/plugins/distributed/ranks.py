"""Starts the ranks of one benchmark on this machine, follows them, and says which of them failed and how.

Each rank is a fresh process of ``python -m groundspeed.plugins.distributed.rank`` in the group of the benchmark
process, so that whoever ends the group ends the ranks. Ranks meet through a file in the working folder, or, in a job
of several nodes, at the address that the job was given; each node then starts and follows its own share of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from groundspeed.plugins.distributed.nodes import Nodes
from groundspeed.plugins.gate import Gate
from groundspeed.plugins.spi import Context, Skip, TimedOut, Unsupported, WrongResult
from groundspeed.plugins.symptoms import as_dict

POLL_S = 0.02
ANSWER_S = 15.0
"""Longest wait for the Python stacks of hanging ranks, and for what they say of their collectives."""
START_S = 100.0
"""How long a rank may take until it has met the others: less than the silence that ends the benchmark's process, which
knows nothing of ranks.
"""
GRACE_S = 2.0
"""After one rank's error: how long another, whose death may be its cause, gets to be seen."""
TAIL_BYTES = 8000
_LOST = ("onnection", "closed by peer", "remote process", "ncclRemoteError", "remote worker", "Socket", "Broken pipe")
_OUTERMOST = b"in _run_module_as_main\n"
"""How the stack of the main thread ends, which is written last."""
_WAITING = ("distributed_c10d.py", "in synchronize", "in barrier", "in wait\n", "in expect")
"""In the stack of a rank that waits for others: in a collective, for the device, or for a collective's result."""


class RankFailed(Exception):
    """A rank ended without finishing; names the rank and how it ended."""

    def __init__(self, message: str, evidence: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.evidence = dict(evidence)


class RankOutOfMemory(RankFailed, MemoryError):
    """Memory ran out in a rank."""


@dataclass(slots=True)
class Rank:
    """One process and the files it writes: JSON lines of events, and its standard error."""

    number: int
    process: subprocess.Popen[bytes]
    events_path: Path
    stderr_path: Path
    offset: int = 0
    events: int = 0
    last_event: str = "started"
    last_seen_s: float = field(default_factory=time.monotonic)
    finished: bool = False
    collectives: dict[str, Any] = field(default_factory=dict)
    """What the communication library was doing when the rank was taken as hung."""

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
            self.events += 1
            self.last_event = str(event.get("at", event["event"]))
            yield event

    def state(self) -> str:
        """Of its process, as the kernel has it: "T" stopped, "S" sleeping, "R" running, "D" in the kernel; "" gone."""
        try:
            text = Path(f"/proc/{self.process.pid}/stat").read_text(errors="replace")
        except OSError:
            return ""
        return text.rpartition(")")[2].split()[0]

    def stderr_end(self) -> bytes:
        """At most TAIL_BYTES, however much there is."""
        try:
            with self.stderr_path.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                return file.read()
        except FileNotFoundError:
            return b""

    def stderr_tail(self) -> str:
        return self.stderr_end().decode("utf-8", "replace")


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
    gate: Gate | None = None
    """At which ranks that were started ahead wait with everything imported."""

    def ahead(self) -> Self:
        """Starts the ranks, which touch no device until this is entered."""
        self.gate = Gate(self.context.workdir / f"gate-{self.world_size}-{time.monotonic_ns()}")
        self._start_all()
        return self

    def __enter__(self) -> Self:
        if self.gate is None:
            self._start_all()
            return self
        self.gate.open(len(self.ranks))
        for rank in self.ranks:
            rank.last_seen_s = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every rank; a second call does nothing."""
        for rank in self.ranks:
            if rank.process.poll() is None:
                rank.process.kill()
            rank.process.wait()
        if self.gate is not None:
            self.gate.close()

    def _start_all(self) -> None:
        meeting = self.context.workdir / f"rendezvous-{os.getpid()}-{time.monotonic_ns()}"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        environment.setdefault("OMP_NUM_THREADS", "1")
        for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
            environment.setdefault(name, "64")
        nodes = Nodes.here()
        place = nodes.meeting or f"file://{meeting}"
        for local, number in enumerate(nodes.ranks(self.world_size)):
            self.ranks.append(self._start(number, local, meeting, place, environment))

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
            "gate": str(self.gate.path) if self.gate is not None else "",
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

        Until a rank says that it measures, it is set-up. Raises RankFailed, WrongResult or TimedOut after the last good
        event.
        """
        with contextlib.ExitStack() as setup:
            setup.enter_context(self.context.phase("setup"))
            while not all(rank.finished for rank in self.ranks):
                for rank in self.ranks:
                    for event in self._news(rank):
                        if event.get("measures"):
                            setup.close()
                        yield rank.number, event
                self._raise_if_hung()
                time.sleep(POLL_S)

    def _news(self, rank: Rank) -> Iterator[dict[str, Any]]:
        """Events of one rank. Raises what its bad events stand for, and RankFailed when it ended without finishing."""
        if rank.finished:
            return
        ended = rank.process.poll() is not None
        for event in rank.new_events():
            rank.finished = rank.finished or event["event"] == "finished"
            self._raise_if_bad(rank, event)
            yield event
        if ended and not rank.finished:
            raise RankFailed(self._how_it_ended(rank), {**self._evidence(), "rank": rank.number})

    def _raise_if_bad(self, rank: Rank, event: Mapping[str, Any]) -> None:
        if event["event"] == "wrong":
            wrong = WrongResult(f"rank {rank.number}: {event['message']}")
            wrong.evidence = {**self._evidence(), "rank": rank.number}  # type: ignore[attr-defined]
            raise wrong
        if event["event"] == "refused":
            raise {"Skip": Skip, "Unsupported": Unsupported}[str(event["kind"])](event["message"])
        if event["event"] == "error":
            if _complains(event):
                self._raise_the_cause(rank)
            evidence = {**self._evidence(), "rank": rank.number, "rank_traceback": event.get("traceback", "")}
            if event.get("oom"):
                raise RankOutOfMemory(f"rank {rank.number} of {self.world_size}: {event['message']}", evidence)
            raise RankFailed(f"rank {rank.number} of {self.world_size}: {event['message']}", evidence)

    def _raise_the_cause(self, complaining: Rank) -> None:
        """A rank that loses its connection complains before the one that died, or gave up, has been looked at."""
        others = [rank for rank in self.ranks if rank is not complaining and not rank.finished]
        until = time.monotonic() + GRACE_S
        while time.monotonic() < until:
            for rank in others:
                code = rank.process.poll()
                for event in rank.new_events():
                    if event["event"] in {"wrong", "refused"} or (event["event"] == "error" and not _complains(event)):
                        self._raise_if_bad(rank, event)
                if code is not None and code < 0:
                    raise RankFailed(self._how_it_ended(rank), {**self._evidence(), "rank": rank.number})
            time.sleep(POLL_S)

    def _raise_if_hung(self) -> None:
        now = time.monotonic()
        alive = [rank for rank in self.ranks if not rank.finished]
        hung = [rank for rank in alive if now - rank.last_seen_s > self._patience(rank)]
        if not hung:
            return
        states = {rank.number: rank.state() for rank in self.ranks}
        self.context.progress("asking ranks that hang for their stacks")
        evidence = self._evidence(stacks=True)
        culprit = min(alive, key=lambda rank: _blame(rank, states[rank.number]))
        how = "is stopped" if states[culprit.number] == "T" else "holds up the others"
        silent = "no rank" if len(hung) == len(alive) else "rank " + ", ".join(str(rank.number) for rank in hung)
        verb = "made" if silent == "no rank" else "has not made"
        raise TimedOut(
            f"{silent} {verb} progress for {self.silence_s:g} s; rank {culprit.number} of {self.world_size} {how}, "
            f"last at {culprit.last_event!r}",
            {**evidence, "rank": culprit.number, "hints": [as_dict("hang")]},
        )

    def _patience(self, rank: Rank) -> float:
        """Importing torch and meeting the others take long on a busy machine, and are no sign of a hang."""
        return max(self.silence_s, START_S) if rank.events < 2 else self.silence_s

    def _how_it_ended(self, rank: Rank) -> str:
        code = rank.process.returncode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        return f"rank {rank.number} of {self.world_size} {how}, last at {rank.last_event!r}"

    def _evidence(self, *, stacks: bool = False) -> dict[str, Any]:
        if stacks:
            # One after the other: no thread of the rank may run while the stacks are walked, and a thread answers.
            silent = self._ask(signal.SIGUSR1, _wrote_stacks)
            self._ask(signal.SIGUSR2, lambda rank: bool(rank.collectives) or rank.number in silent)
        return {
            "ranks": [
                {
                    "rank": rank.number,
                    "last_progress": rank.last_event,
                    "exit_status": rank.process.poll(),
                    "state": rank.state(),
                    "collectives": rank.collectives,
                    "stderr_tail": rank.stderr_tail(),
                }
                for rank in self.ranks
            ]
        }

    def _ask(self, what: signal.Signals, has_answered: Callable[[Rank], bool]) -> set[int]:
        """Send a signal to the ranks that live and wait for their answers (a busy machine is slow); returns whose did
        not come.
        """
        asked = [rank for rank in self.ranks if rank.process.poll() is None]
        for rank in asked:
            rank.process.send_signal(what)
        last = time.monotonic() + ANSWER_S
        while True:
            self._hear_of_collectives()
            waited = [
                one for one in asked if one.process.poll() is None and one.state() != "T" and not has_answered(one)
            ]
            if not waited or time.monotonic() > last:
                return {rank.number for rank in asked if not has_answered(rank)}
            time.sleep(POLL_S)

    def _hear_of_collectives(self) -> None:
        """What ranks tell of their collectives; being asked is no progress of theirs."""
        for rank in self.ranks:
            before = rank.last_event, rank.events
            for event in rank.new_events():
                if event["event"] == "collectives":
                    rank.collectives = {key: value for key, value in event.items() if key != "event"}
            rank.last_event, rank.events = before


def _wrote_stacks(rank: Rank) -> bool:
    return _OUTERMOST in rank.stderr_end()


def _complains(event: Mapping[str, Any]) -> bool:
    """Whether a rank's error is the loss of another rank."""
    text = str(event.get("message", ""))
    return any(word in text for word in _LOST)


def _blame(rank: Rank, state: str) -> tuple[int, bool, int, bool, int]:
    """Smallest for the rank that holds up the others: the least far, then one that is stopped, then one that has begun
    fewer collectives, then one whose stack is there and is not that of waiting.
    """
    begun = [one.get("collective_seq_id") or 0 for one in rank.collectives.get("last", ())]
    stacks = rank.stderr_tail()
    waits = not _wrote_stacks(rank) or any(words in stacks for words in _WAITING)
    return rank.events, state != "T", max(begun, default=sys.maxsize), waits, rank.number
