"""What there is to import below some paths: asv trees, criterion trees and single files; archives are unpacked
first.
"""

from __future__ import annotations

import lzma
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO, Self

from groundspeed.service.errors import Invalid
from groundspeed.service.formats import asv
from groundspeed.service.formats.prepared import Ready
from groundspeed.service.formats.records import Refused, Where
from groundspeed.service.formats.source import Document
from groundspeed.service.usecases.import_readers import Readers

MAX_UNPACKED_BYTES = 20 * 1024**3
MAX_FILES = 1_000_000
MAX_DEPTH = 4
"""So many archives may lie in one another; there are some that hold themselves."""
_CRITERION = {"benchmark.json", "estimates.json", "sample.json"}
_IGNORED = {".git", "published", "html", "graphs", "node_modules", "__pycache__"}
"""What asv and others make of results is not imported again."""
_UNPACK_ERRORS = (
    tarfile.TarError, zipfile.BadZipFile, OSError, EOFError, lzma.LZMAError, zlib.error, RuntimeError, ValueError,
)  # fmt: skip
"""Python's module for zip says by the last two that a file is encrypted, packed as it does not know, or ill-formed."""
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip")


@dataclass(frozen=True, slots=True)
class Single:
    """One file of any format."""

    document: Document


@dataclass(frozen=True, slots=True, eq=False)
class AsvTree:
    """A results folder of asv: files of a machine in the order of their names."""

    name: str
    tree: asv.Tree
    files: tuple[tuple[Path, str], ...]
    """Path and name."""


@dataclass(frozen=True, slots=True)
class CriterionTree:
    name: str
    documents: tuple[Document, ...]


Source = Single | AsvTree | CriterionTree


@dataclass(slots=True)
class Sources:
    """Everything below ``paths``. A context manager: leaving it deletes what was unpacked."""

    paths: Sequence[Path]
    room: int = MAX_UNPACKED_BYTES
    """Bytes that all archives together may unpack to; what one takes is taken off."""
    document_room: int = 0
    """Bytes that a single packed file may unpack to; 0: any number, where it is read in pieces."""
    refused: list[Refused] = field(default_factory=list)
    _stack: ExitStack = field(default_factory=ExitStack)
    _found: Iterator[Source] | None = None
    _readers: dict[AsvTree, Readers] = field(default_factory=dict)
    """Of trees whose reading has begun."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def begin(self) -> None:
        """Find the first, and have its files read meanwhile where it is a tree of many: who imports them has modules to
        load and a database to open. Raises as :meth:`find`.
        """
        found = self._find()
        first = list(islice(found, 1))
        self._found = chain(first, found)
        for source in first:
            if isinstance(source, AsvTree):
                self._readers[source] = self._begin(source)

    @property
    def large(self) -> bool:
        """Whether a tree whose reading has begun is a large one."""
        return any(readers.large for readers in self._readers.values())

    def find(self) -> Iterator[Source]:
        """What there is, once. Raises :class:`Invalid` for a path that is not there, before anything is given, and for
        an archive that was named and cannot be unpacked; one inside a folder is refused, and what else is there is
        given.
        """
        return self._found or self._find()

    def read(self, source: AsvTree, processes: int = 0) -> Iterator[tuple[list[Ready], Refused | None]]:
        """What each file of a tree holds, in order; ``processes`` as in :class:`Readers`."""
        return (self._readers.pop(source, None) or self._begin(source, processes)).read()

    def _begin(self, source: AsvTree, processes: int = 0) -> Readers:
        readers = Readers(source.tree, source.files, processes)
        self._stack.callback(readers.close)
        readers.begin()
        return readers

    def _find(self) -> Iterator[Source]:
        for path in self.paths:
            if not path.exists():
                raise Invalid(f"There is no {path}.", "Give a file, an archive or a folder of results.")
        for path in self.paths:
            if path.is_file() and is_archive(path.name):
                yield from self._folder(self._unpacked(path), path.name, 1)
            elif path.is_file():
                yield Single(document_of(path, path.name, self.document_room))
            else:
                yield from self._folder(path, "", 0)

    def _unpacked(self, path: Path, depth: int = 0) -> Path:
        if depth > MAX_DEPTH:
            raise Invalid(f"{path.name} lies in {depth} other archives.", "Unpack it yourself.")
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="groundspeed-import-")))
        try:
            if path.name.lower().endswith(".zip"):
                with zipfile.ZipFile(path) as archive:
                    for entry in archive.infolist():
                        self._take(path, entry.file_size)
                    archive.extractall(folder)  # noqa: S202 - sizes are checked, and zipfile keeps names inside
            else:
                with tarfile.open(path) as archive_:
                    self._extract(path, archive_, folder)
        except _UNPACK_ERRORS as error:
            raise Invalid(f"{path.name} cannot be unpacked ({error}).", "Is the archive complete?") from error
        return folder

    def _extract(self, path: Path, archive: tarfile.TarFile, folder: Path) -> None:
        """Plain files and folders only, inside ``folder``; links and devices are left out."""
        for member in archive:
            self._take(path, member.size)
            if member.isfile() or member.isdir():
                archive.extract(member, folder, filter="data", set_attrs=False)

    def _take(self, path: Path, size: int) -> None:
        if size > self.room:
            raise Invalid(f"{path.name} unpacks to more than is taken in at once.", "Unpack it yourself.")
        self.room -= size

    def _folder(self, folder: Path, label: str, depth: int) -> Iterator[Source]:
        """Trees first recognised by their descriptions; what is left over is taken file by file."""
        files = sorted(self._walk(folder, folder, label))
        if len(files) > MAX_FILES:
            raise Invalid(f"There are more than {MAX_FILES} files below {folder}.", "Import its folders one by one.")
        roots = [p.parent for p in files if p.name == "benchmarks.json" and _has_machines(p.parent)]
        roots += [p.parent.parent for p in files if p.name == "machine.json" and p.parent.parent not in roots]
        taken: set[Path] = set()
        for root in sorted(set(roots)):
            inside = [p for p in files if root in p.parents and p not in taken and p.suffix == ".json"]
            taken |= set(inside)
            tree = self._asv(root, inside, folder, label)
            if tree.files:
                yield tree
        criterion = [p for p in files if p not in taken and _in_criterion(p)]
        taken |= set(criterion)
        if criterion:
            yield CriterionTree(label or folder.name, tuple(document_of(p, _name(p, folder, label)) for p in criterion))
        for path in files:
            if path in taken or path.name == "asv.conf.json":
                continue
            if is_archive(path.name):
                yield from self._inner(path, _name(path, folder, label), depth)
                continue
            yield Single(document_of(path, _name(path, folder, label), self.document_room))

    def _inner(self, path: Path, name: str, depth: int) -> Iterator[Source]:
        """An archive inside a folder."""
        try:
            unpacked = self._unpacked(path, depth)
        except Invalid as error:
            self.refused.append(Refused(error.title, Where(name), error.advice))
            return
        yield from self._folder(unpacked, name, depth + 1)

    def _walk(self, at: Path, folder: Path, label: str) -> Iterator[Path]:
        """The files below ``at``; a folder that cannot be read is refused."""
        try:
            for path in at.iterdir():
                if path.is_symlink():
                    continue
                if path.is_dir() and path.name not in _IGNORED:
                    yield from self._walk(path, folder, label)
                elif path.is_file() and not path.name.startswith("."):
                    yield path
        except OSError as error:
            place = Where(_name(at, folder, label))
            self.refused.append(Refused(f"cannot be read ({error.strerror}).", place, "May this user read it?"))

    def _asv(self, root: Path, inside: Sequence[Path], folder: Path, label: str) -> AsvTree:
        benchmarks, machines, results = {}, {}, []
        for path in inside:
            document = document_of(path, _name(path, folder, label))
            try:
                if path.name == "benchmarks.json" and path.parent == root:
                    benchmarks = asv.read_benchmarks(document)
                elif path.name == "machine.json":
                    machines[path.parent.name] = asv.read_machine(document)
                elif path.parent != root:
                    results.append((path, document.name))
            except Refused as error:
                self.refused.append(error)
        return AsvTree(label or root.name, asv.Tree(benchmarks, machines), tuple(results))


def is_archive(name: str) -> bool:
    """Whether a file of this name is unpacked, and what it holds imported."""
    return name.lower().endswith(_ARCHIVES)


def _has_machines(folder: Path) -> bool:
    return any(folder.glob("*/machine.json"))


def _in_criterion(path: Path) -> bool:
    if path.name not in {*_CRITERION, "tukey.json", "raw.csv"}:
        return False
    return path.parent.name == "change" or any(
        (path.parent / name).exists() for name in ("benchmark.json", "sample.json")
    )


def _name(path: Path, folder: Path, label: str) -> str:
    inside = path.relative_to(folder).as_posix()
    return f"{label}/{inside}" if label else inside


def document_of(path: Path, name: str, room: int = 0) -> Document:
    """A file under the name that messages give it; ``room``: bytes that it may unpack to."""

    def opened() -> IO[bytes]:
        return path.open("rb")

    return Document(name, opened, room)
