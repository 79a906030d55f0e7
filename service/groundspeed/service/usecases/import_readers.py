"""The files of an asv tree, read in order: by other processes, some way ahead, where that pays."""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path

from groundspeed.service.formats import asv, prepared
from groundspeed.service.formats.prepared import Ready, Sent
from groundspeed.service.formats.records import Refused
from groundspeed.service.usecases import children

BYTES_FOR_A_POOL = 20_000_000
"""Starting a process takes as long as reading about a tenth of this."""
BYTES_AHEAD = 32_000_000
"""So much is read ahead: others go on reading while this process loads its modules or writes a batch."""
BEHIND = 10
"""How far processes that read stand back behind the one that writes, which has more to do in the end."""


@dataclass(slots=True)
class Readers:
    """Reads ``files`` (path and name) of a tree. ``processes`` beside this one; 0: as many as pay, -1: none."""

    tree: asv.Tree
    files: Sequence[tuple[Path, str]]
    processes: int = 0
    _pool: ProcessPoolExecutor | None = None
    _wanted: int = 0
    _asked: int = 0
    """How many files the others were given."""
    _ahead: deque[tuple[Future[bytes], int]] = field(default_factory=deque)
    """Those that this process has not taken yet, with their sizes."""
    _bytes: int = 0

    @property
    def large(self) -> bool:
        """Whether there is so much that other processes help, where there are processors for them."""
        return sum(_size(path) for path, _ in self.files) >= BYTES_FOR_A_POOL

    def begin(self) -> None:
        """Have the others begin, where they are to help. A copy of this process is the cheaper the less it holds."""
        self._wanted = self.processes or _as_many_as_pay(children.cores())
        if self._wanted > 0 and self.large:
            self._pool = ProcessPoolExecutor(self._wanted, children.context(), _begin, (self.tree,))
            self._ask(self._pool)

    def close(self) -> None:
        """End the others, once they have read the files that they are at."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def read(self) -> Iterator[tuple[list[Ready], Refused | None]]:
        """What each file holds, and what ended it early."""
        done = 0
        try:
            for item in self._of_others():
                done += 1
                yield item
        except BrokenProcessPool:  # one of them was killed: this process reads what is missing
            pass
        finally:
            self.close()
        if done < len(self.files):
            prepared.begin(self.tree)
        for path, name in self.files[done:]:
            yield prepared.read_file(str(path), name)

    def _of_others(self) -> Iterator[tuple[list[Ready], Refused | None]]:
        receiver = prepared.Receiver()
        while self._pool is not None and self._ahead:
            future, size = self._ahead.popleft()
            sent: Sent = pickle.loads(future.result())  # noqa: S301 - our own process wrote it
            self._bytes -= size
            self._ask(self._pool)
            yield receiver.items(sent), sent.refused

    def _ask(self, pool: ProcessPoolExecutor) -> None:
        while self._asked < len(self.files) and (self._bytes < BYTES_AHEAD or len(self._ahead) <= 2 * self._wanted):
            path, name = self.files[self._asked]
            size = _size(path)
            self._ahead.append((pool.submit(_send, str(path), name), size))
            self._bytes += size
            self._asked += 1


def _send(path: str, name: str) -> bytes:
    """Packed here and unpacked by who takes it: the thread between, which a pool has, would hold that one up."""
    return pickle.dumps(prepared.send_file(path, name), pickle.HIGHEST_PROTOCOL)


def _as_many_as_pay(cores: int) -> int:
    """How many processes read while this one writes: on two processors two, because writing does not take as long."""
    return min(4, max(cores - 1, 2)) if cores > 1 else 0


def _size(path: Path) -> int:
    """In bytes; none of a file that is gone, which says so when it is read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _begin(tree: asv.Tree) -> None:
    """In a process that reads: results have no cycles, and looking for them would take long."""
    children.settle()
    if hasattr(os, "nice"):
        os.nice(BEHIND)
    prepared.begin(tree)
