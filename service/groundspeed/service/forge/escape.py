"""A stranger's text, made harmless in Markdown that a forge renders."""

from __future__ import annotations

import re
import unicodedata

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~@&:])")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


def visible(text: str, limit: int = 120) -> str:
    """One line without control characters, terminal sequences, bidirectional overrides or excess length."""
    head = _ANSI.sub("", text[: limit * 20])
    clean = "".join(" " if c in "\r\n\t" else c for c in head if c in "\r\n\t" or not _hidden(c))
    line = " ".join(clean.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn"}


def markdown(text: str, limit: int = 120) -> str:
    """Text that renders as itself: no link, mention, image, HTML, heading, table cell or emoji code comes of it.

    Special characters are written as HTML character references: unlike a backslash they also hold inside table cells
    and before an ``@`` (which a backslash does not stop from mentioning somebody).
    """
    return _SPECIAL.sub(lambda m: f"&#{ord(m.group(1))};", visible(text, limit))


def code(text: str, limit: int = 200) -> str:
    """Inline code that cannot be broken out of; a table's bar is written so that it ends no cell."""
    line = visible(text, limit).replace("|", "¦")
    ticks = max((len(run) for run in re.findall(r"`+", line)), default=0) + 1
    pad = " " if "`" in line else ""
    return f"{'`' * ticks}{pad}{line}{pad}{'`' * ticks}" if line else ""
