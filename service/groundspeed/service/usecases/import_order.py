"""In which order imported commits stand: by a git repository, by a commit graph file, or by dates when nothing
better is.

A graph file has one commit a line, tab-separated: hash, parents (blank-separated), author time, commit time (seconds
since 1970), tags; newest first, lines with # are comments. ``git log --format='%H%x09%P%x09%at%x09%ct%x09'`` makes it.
"""

from __future__ import annotations

import gzip
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from groundspeed.service.errors import Invalid
from groundspeed.service.repo.git import GitFailed, git, started

_SURELY_A_TIME = 12
"""So many digits and more may be beyond what a date can be."""
FORMAT = "%H%x09%P%x09%at%x09%ct%x09%D%x09%an%x09%s"


@dataclass(slots=True)
class GraphCommit:
    """A line of a graph, in its cells: a repository has many commits, and few of them are asked about. Not frozen, for
    that makes each of them take twice as long.
    """

    cells: Sequence[str]

    @property
    def sha(self) -> str:
        return self.cells[0]

    @property
    def parents(self) -> tuple[str, ...]:
        return tuple(self.cells[1].split())

    @property
    def authored_at(self) -> datetime:
        return _time(self.cells[2])

    @property
    def committed_at(self) -> datetime:
        return _time(self.cells[3])

    @property
    def tags(self) -> tuple[str, ...]:
        return _tags(self.cells[4:5])

    @property
    def author(self) -> str:
        return self.cells[5] if len(self.cells) > 6 else ""

    @property
    def title(self) -> str:
        return self.cells[6] if len(self.cells) > 6 else ""


@dataclass(slots=True)
class Graph:
    """The commits reachable from a branch; ``tip`` is the newest. ``origin`` says where this is known from."""

    commits: dict[str, GraphCommit]
    tip: str
    origin: str
    _sorted: list[str] = field(default_factory=list)

    def resolve(self, sha: str) -> str:
        """The full hash that ``sha`` abbreviates; ``sha`` itself when it is unknown or stands for several."""
        if sha in self.commits or len(sha) < 6:
            return sha
        if not self._sorted:
            self._sorted = sorted(self.commits)
        at = bisect_left(self._sorted, sha)
        found = [s for s in self._sorted[at : at + 2] if s.startswith(sha)]
        return found[0] if len(found) == 1 else sha

    def first_parents(self) -> dict[str, int]:
        """Distance from the root along first parents, by hash."""
        chain: list[str] = []
        at: str | None = self.tip
        seen: set[str] = set()
        while at in self.commits and at not in seen:
            seen.add(at)
            chain.append(at)
            parents = self.commits[at].parents
            at = parents[0] if parents else None
        return {sha: i for i, sha in enumerate(reversed(chain))}

    def topological(self) -> dict[str, int]:
        """A place for every commit: parents before children, merged branches just before their merge."""
        order: dict[str, int] = {}
        stack: list[tuple[str, int]] = [(self.tip, 0)]
        visiting: set[str] = set()
        while stack:
            sha, done = stack.pop()
            if sha in order or sha not in self.commits:
                continue
            parents = self.commits[sha].parents
            visiting.add(sha)
            if done < len(parents):
                stack.append((sha, done + 1))
                # the first parent's history first: what is merged in stands between it and the merge
                if parents[done] not in order and parents[done] not in visiting:
                    stack.append((parents[done], 0))
            else:
                order[sha] = len(order)
        return order


@dataclass(frozen=True, slots=True)
class Later:
    """A graph that is read when it is first asked for; None: there is none. ``length`` is that of its hashes (0: not
    known): one as long stands for itself.
    """

    read: Callable[[], Graph | None]
    length: int = 0


NO_GRAPH = Later(lambda: None)
_AGAIN = "Look at it with `git fsck`, then import again: results that are stored stay, and none is stored twice."


@contextmanager
def of_repository(path: Path, branch: str = "") -> Iterator[Later]:
    """The history of a local git repository, which git tells while the block does something else. Raises
    :class:`Invalid` at once when it is none or has no such branch, and later when git stumbles over the history.
    """
    name = branch or "HEAD"
    with _readable(f"{path} has no commit {name}", "Give a git repository, and --branch."):
        tip = git("rev-parse", "--verify", f"{name}^{{commit}}", cwd=path).strip()
    with started("log", f"--format={FORMAT}", "--decorate-refs=refs/tags/*", tip, cwd=path, timeout_s=600.0) as said:

        @cache
        def read() -> Graph:
            with _readable(f"The history of {path} cannot be read", _AGAIN):
                log = said()
            return _graph(log.split("\n"), f"the git repository {path.name}", tip)

        yield Later(read, len(tip))


@contextmanager
def _readable(otherwise: str, advice: str) -> Iterator[None]:
    try:
        yield
    except (GitFailed, OSError) as error:
        raise Invalid(f"{otherwise} ({error}).", advice) from error


def of_file(path: Path) -> Graph:
    """The history in a commit graph file (gzip too). Raises :class:`Invalid` naming the line."""
    try:
        data = path.read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8", "replace")
    except (OSError, EOFError, zlib.error) as error:
        raise Invalid(f"{path} cannot be read ({error}).", "Give a commit graph file.") from error
    return _graph(text.split("\n"), f"the commit graph {path.name}")


def _graph(lines: Sequence[str], origin: str, tip: str = "") -> Graph:
    commits: dict[str, GraphCommit] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        cells = line.split("\t")
        commits[cells[0]] = commit = GraphCommit(cells)
        tip = tip or cells[0]
        if len(cells) > 4 and _is_time(cells[2]) and _is_time(cells[3]):
            continue
        try:
            _ = commit.parents, commit.authored_at, commit.committed_at
        except (IndexError, ValueError, OverflowError, OSError) as error:
            advice = "Hash, parents, author time, commit time and tags are expected, with tabs between."
            raise Invalid(f"Line {number} of {origin} is no commit ({error}).", advice) from error
    if not commits:
        raise Invalid(f"There is no commit in {origin}.", "Is it the right file?")
    return Graph(commits, tip, origin)


def _is_time(text: str) -> bool:
    return len(text) < _SURELY_A_TIME and text.isdecimal()


def _time(text: str) -> datetime:
    return datetime.fromtimestamp(int(text), UTC)


def _tags(cells: Sequence[str]) -> tuple[str, ...]:
    if not cells or not cells[0]:
        return ()
    words = cells[0].replace("tag: ", "").split(",")
    return tuple(w.strip() for w in words if w.strip())


def positions(
    graph: Graph | None, measured: Iterable[tuple[str, datetime]], *, first_parent_only: bool
) -> dict[str, int]:
    """The position of each measured commit (hash, time); absent: it is not on the branch.

    First-parent distance when all that the graph knows of stand on it (or when the project's other commits are counted
    so); else the place in topological order. Without a graph: the rank by time.
    """
    known = list(measured)
    if graph is None:
        ranked = sorted(known, key=lambda entry: (entry[1], entry[0]))
        return {sha: i for i, (sha, _) in enumerate(ranked)}
    straight = graph.first_parents()
    inside = [sha for sha, _ in known if sha in graph.commits]
    if first_parent_only or all(sha in straight for sha in inside):
        return {sha: straight[sha] for sha in inside if sha in straight}
    everything = graph.topological()
    return {sha: everything[sha] for sha in inside if sha in everything}
