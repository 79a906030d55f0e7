"""JSON lines from a file or standard input, with every bad line refused by its number and the good ones used."""

from __future__ import annotations

import codecs
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from groundspeed.cli.edge import complain

Made = TypeVar("Made")


class BadLineError(ValueError):
    """What is wrong with one line, in words; its number is added where it is read."""


def read(path: Path | None, make: Callable[[dict[str, Any]], Made]) -> Iterator[tuple[int, Made | None]]:
    """Yield (line number, what ``make`` made of it), None for a line that was refused; empty lines are passed over.

    Lines are UTF-8, with or without a byte-order mark, ended by a line feed (and a carriage return before it).
    """
    stream = sys.stdin.buffer if path is None or str(path) == "-" else path.open("rb")
    with stream:
        for number, line in enumerate(stream, 1):
            text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            if text.strip():
                yield number, _made(number, text, make)


def _made(number: int, line: bytes, make: Callable[[dict[str, Any]], Made]) -> Made | None:
    try:
        return make(_object(json.loads(line.decode("utf-8"))))
    except UnicodeDecodeError:
        complain(f"line {number} is not UTF-8 text. It was passed over; write the file in UTF-8.")
    except json.JSONDecodeError as error:
        complain(f"line {number} is not JSON: {error.msg} at column {error.colno}. It was passed over; correct it.")
    except RecursionError:
        complain(f"line {number} is nested too deeply to read. It was passed over; correct it.")
    except BadLineError as error:
        complain(f"line {number} {error}. It was passed over; correct it.")
    except ValueError:  # an integer of more digits than Python reads
        complain(f"line {number} holds a number of too many digits. It was passed over; correct it.")
    return None


def _object(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise BadLineError(f"holds {_named(row)} where an object is expected")
    return row


def field(row: dict[str, Any], name: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
    """A field of the right type; ``default`` where it is absent (and none was given: an error)."""
    value = row.get(name, default)
    if value is ...:
        raise BadLineError(f"has no {name!r}")
    if value is default:
        return value
    if not isinstance(value, kind) or (isinstance(value, bool) and bool not in _kinds(kind)):
        raise BadLineError(f"has {_named(value)} for {name!r}")
    return value


def name_of(row: dict[str, Any], key: str) -> str:
    """A text to call the line by, without what a terminal or a file could not show."""
    text: str = field(row, key, str, "")
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def direction_of(row: dict[str, Any]) -> Any:
    """``direction``: -1 lower is better (and the default), 1 higher is, 0 neither."""
    value = field(row, "direction", (int, float), -1)
    if value not in {-1, 0, 1}:
        raise BadLineError(f"has {value} for 'direction'; it is -1, 0 or 1")
    return int(value)


def number(value: Any, where: str) -> float:
    """A JSON number as a float; null and non-finite ones as NaN."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadLineError(f"has {_named(value)} in {where}, where numbers are expected")
    try:
        return float(value)
    except OverflowError:
        raise BadLineError(f"has a number in {where} that is too large") from None


def plain(value: float, digits: int = 8) -> float | None:
    """A number for JSON: ``digits`` significant figures, null where it is none."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _kinds(kind: type | tuple[type, ...]) -> tuple[type, ...]:
    return kind if isinstance(kind, tuple) else (kind,)


def _named(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
