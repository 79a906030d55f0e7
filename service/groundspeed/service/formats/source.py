"""A source of results: a name and bytes, unpacked, with the places in it. Sizes are bounded before anything is read."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, Any, NoReturn

from groundspeed.service.formats.records import Refused, Where

MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
"""A document that has to be held as a whole (JSON) may be this long after unpacking."""
MAX_LINE_CHARS = 8 * 1024 * 1024
BRIEF_CHARS = 4000
"""No line that a tool prints for people is longer; what is would only cost time to look through."""
HEAD_BYTES = 64 * 1024

_MAGIC = ((b"\x1f\x8b", "gzip"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"))
UNPACK_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)


@dataclass(frozen=True, slots=True)
class Document:
    """``name`` as people know it (a path inside a tree, or a file's name); ``open`` gives its bytes from the start."""

    name: str
    open: Callable[[], IO[bytes]]
    room: int = 0
    """Bytes that it may unpack to; 0: as many as there are, where it is read in pieces."""

    @property
    def path(self) -> PurePosixPath:
        return PurePosixPath(self.name)

    def where(self, line: int = 0, pointer: str = "") -> Where:
        return Where(self.name, line, pointer)

    def refuse(self, reason: str, line: int = 0, advice: str = "") -> NoReturn:
        raise Refused(reason, self.where(line), advice)

    @contextmanager
    def stream(self) -> Iterator[IO[bytes]]:
        """The bytes, unpacked when the content says that they are gzip, xz or bzip2; closed when the block ends."""
        with self.open() as raw:
            head = raw.read(6)
            raw.seek(0)
            packing = next((name for magic, name in _MAGIC if head.startswith(magic)), "")
            unpacked: Any = raw
            if packing == "gzip":
                unpacked = gzip.GzipFile(fileobj=raw)
            elif packing == "xz":
                unpacked = lzma.LZMAFile(raw)  # noqa: SIM115 - closed by the with below
            elif packing == "bzip2":
                unpacked = bz2.BZ2File(raw)
            with unpacked:
                bounded: Any = _Bounded(unpacked, self.room) if packing and self.room else unpacked
                yield bounded

    def head(self) -> str:
        """The first 64 KiB as text."""
        try:
            with self.stream() as stream:
                return _decoded(stream.read(HEAD_BYTES))
        except UNPACK_ERRORS as error:
            self.refuse(f"cannot be unpacked ({error}).", advice="Is the file complete?")

    def data(self) -> bytes:
        """All of it, unpacked; refused beyond MAX_DOCUMENT_BYTES."""
        try:
            with self.stream() as stream:
                data = stream.read(MAX_DOCUMENT_BYTES + 1)
        except UNPACK_ERRORS as error:
            self.refuse(f"cannot be unpacked ({error}).", advice="Is the file complete?")
        if len(data) > MAX_DOCUMENT_BYTES:
            self.refuse(f"is longer than {MAX_DOCUMENT_BYTES >> 20} MiB.", advice="Split it.")
        return data

    def text(self) -> str:
        """All of it as text (UTF-8 or UTF-16 with a mark); refused beyond MAX_DOCUMENT_BYTES."""
        return _decoded(self.data())

    def lines(self) -> Iterator[tuple[int, str]]:
        """(line number from 1, text without its end), streamed; a line longer than 8 MiB is refused."""
        number = 0
        try:
            with self.stream() as stream, _text_of_stream(stream) as text:
                while line := text.readline(MAX_LINE_CHARS):
                    number += 1
                    if len(line) >= MAX_LINE_CHARS:
                        self.refuse(f"a line is longer than {MAX_LINE_CHARS >> 20} MiB.", number)
                    yield number, line.rstrip("\r\n")
        except UNPACK_ERRORS as error:
            self.refuse(f"cannot be unpacked ({error}).", number, "Is the file complete?")

    def brief_lines(self) -> Iterator[tuple[int, str]]:
        """The same, each cut after BRIEF_CHARS."""
        for number, line in self.lines():
            yield number, line[:BRIEF_CHARS]

    def json(self) -> Any:
        """All of it as JSON (NaN and Infinity are read); refused with the line where it breaks."""
        return loads(self.text(), self)


class _Bounded(io.RawIOBase):
    """A stream that ends with an error where it would give more than so many bytes."""

    def __init__(self, stream: IO[bytes], room: int) -> None:
        self._stream, self._room = stream, room

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, self._room + 1) if size >= 0 else self._room + 1)
        if self._stream.tell() > self._room:
            raise OSError(f"it unpacks to more than {self._room >> 20} MiB")
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)


def _encoding(start: bytes) -> str:
    """UTF-8, or UTF-16 where a mark says so: redirections in Windows PowerShell and Excel's "Unicode text" are."""
    return "utf-16" if start[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig"


def _decoded(data: bytes) -> str:
    return data.decode(_encoding(data), "replace")


def _text_of_stream(stream: Any) -> io.TextIOWrapper:
    """The text of a stream of bytes, in the encoding of its mark."""
    start = stream.read(2)
    stream.seek(0)
    return io.TextIOWrapper(stream, _encoding(start), "replace", newline=None)


def loads(text: str, document: Document, first_line: int = 1) -> Any:
    """JSON from ``text``, which starts at ``first_line`` of the document."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        document.refuse(f"is not JSON: {error.msg} at column {error.colno}.", line, "Is the file complete?")
    except RecursionError:
        document.refuse("JSON is nested too deeply.", first_line)
    except ValueError as error:
        document.refuse(f"has a number that cannot be read ({error}).", first_line)


def of_bytes(name: str, data: bytes, room: int = 0) -> Document:
    """A document held in memory, which may unpack to ``room`` bytes (0: see :class:`Document`)."""
    return Document(name, lambda: io.BytesIO(data), room)


class Lines:
    """Finds the line of things in a JSON text by the text of their name, going forward only (one pass in all)."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1

    def step(self) -> None:
        """The next search begins behind what was found."""
        self._at += 1

    def find(self, needle: str) -> int:
        """The line where ``needle`` as a JSON string comes next; the line of the last thing found when it does not."""
        index = self._text.find(json.dumps(needle), self._at)
        if index < 0:
            index = self._text.find(json.dumps(needle, ensure_ascii=False), self._at)
        if index >= 0:
            self._line += self._text.count("\n", self._at, index)
            self._at = index
        return self._line


def text_of(value: object, limit: int = 200) -> str:
    """A short text of any JSON value; empty for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value[:limit]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bool | int | float):
        try:
            return str(value)[:limit]
        except ValueError:  # an integer of more digits than Python writes
            return "a very large number"
    return json.dumps(value, sort_keys=True, default=str)[:limit]


def dict_of(value: object) -> dict[str, Any]:
    """The value when it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def list_of(value: object) -> list[Any]:
    """The value when it is a list, else an empty one."""
    return value if isinstance(value, list) else []
