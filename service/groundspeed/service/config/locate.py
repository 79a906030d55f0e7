"""Where in a TOML text does a key stand? The parsers keep no positions, so the text is asked again.

The statement that brings a key into being ends on the first line up to which the text parses and holds that key. Only
lines that could end it are tried, so it costs some parses of a short file, and only when there is a mistake to report.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Path = Sequence[str | int]


@dataclass(frozen=True, slots=True)
class Place:
    """Line and column, both from 1."""

    line: int
    column: int


def locate(text: str, path: Path) -> Place | None:
    """The place of the key at ``path``, else of its nearest parent that is there; None for the root."""
    for length in range(len(path), 0, -1):
        place = _locate_exactly(text, path[:length])
        if place is not None:
            return place
    return None


def _locate_exactly(text: str, path: Path) -> Place | None:
    lines = text.splitlines()
    start = 0
    for end in range(1, len(lines) + 1):
        if not lines[end - 1].strip():
            continue
        try:
            document = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue
        if _holds(document, path):
            return _within(lines[start:end], start, path)
        start = end
    return None


def _holds(document: Any, path: Path) -> bool:
    for step in path:
        if isinstance(step, int):
            if not isinstance(document, list) or step >= len(document):
                return False
        elif not isinstance(document, dict) or step not in document:
            return False
        document = document[step]
    return True


def _within(statement: list[str], offset: int, path: Path) -> Place:
    """Find the last named key in the lines of the statement; its first character otherwise."""
    names = [step for step in path if isinstance(step, str)]
    pattern = re.compile(rf"""(?<![\w-])["']?(?P<key>{re.escape(names[-1])})["']?\s*[=.\]]""")
    for number, line in enumerate(statement):
        found = pattern.search(line)
        if found and not line.lstrip().startswith("#"):
            return Place(offset + number + 1, found.start("key") + 1)
    for number, line in enumerate(statement):
        if line.strip() and not line.lstrip().startswith("#"):
            return Place(offset + number + 1, len(line) - len(line.lstrip()) + 1)
    return Place(offset + 1, 1)
