"""What a command prints, made harmless: whole lines, no control characters, and never more than a set amount."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

MAX_LINE = 4000
TAIL_BYTES = 16 * 1024
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
# Colours and cursor movements of progress bars say nothing on a page.
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")


def harmless(text: str) -> str:
    """Without terminal escapes; other control characters become U+FFFD, so that stores and pages can take it."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", _ESCAPES.sub("", text))


def tail(data: bytes, limit: int = TAIL_BYTES) -> str:
    """The end of some output as harmless text."""
    return harmless(data[-limit:].decode("utf-8", "replace")).strip()


class LineReader:
    """Turns chunks of bytes of one stream into lines for ``emit``, up to ``budget`` characters in all.

    A carriage return ends a line too (progress bars). Whatever the budget did not cover is counted, the end of the
    stream is always kept in ``tail``.
    """

    def __init__(self, emit: Callable[[str], None], budget: int) -> None:
        self._emit = emit
        self._left = budget
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._line = ""
        self._kept = bytearray()
        self.dropped_bytes = 0
        self.total_bytes = 0

    @property
    def exhausted(self) -> bool:
        return self._left <= 0

    @property
    def tail(self) -> bytes:
        return bytes(self._kept)

    def feed(self, chunk: bytes) -> None:
        self.total_bytes += len(chunk)
        self._kept += chunk[-TAIL_BYTES:]
        if len(self._kept) > 2 * TAIL_BYTES:
            del self._kept[:-TAIL_BYTES]
        if self.exhausted:
            self.dropped_bytes += len(chunk)
            return
        text = self._line + self._decode(chunk)
        held = "\r" if text.endswith("\r") else ""  # its newline may come with the next chunk
        *lines, self._line = re.split(r"\r\n|\n|\r", text.removesuffix(held))
        self._line += held
        while len(self._line) > MAX_LINE:
            lines.append(self._line[:MAX_LINE])
            self._line = self._line[MAX_LINE:]
        for line in lines:
            self._send(line)

    def close(self) -> None:
        self._line += self._decode(b"", final=True)
        if self._line:
            self._send(self._line.removesuffix("\r"))
        self._line = ""
        if self.dropped_bytes:
            self._emit(f"[{self.dropped_bytes} further bytes of output are not shown]")

    def _send(self, line: str) -> None:
        if self._left <= 0:
            self.dropped_bytes += len(line)
            return
        line = harmless(line[:MAX_LINE])
        self._left -= len(line) + 1
        self._emit(line)
