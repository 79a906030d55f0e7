"""From the text of a ``groundspeed.toml`` to a checked :class:`ProjectConfig`, or one error with every mistake."""

from __future__ import annotations

import re
import tomllib
import typing
from typing import Any

from pydantic import BaseModel, ValidationError

from groundspeed.service.config.checks import Mistake, mistakes, near
from groundspeed.service.config.locate import Place, locate
from groundspeed.service.config.model import ProjectConfig
from groundspeed.service.errors import ConfigError

FILE_NAME = "groundspeed.toml"
MAX_BYTES = 1_000_000
_ADVICE = "Correct it; docs/configuration.md lists every key, and `groundspeed config check` reads it again."


def load(text: str, origin: str = FILE_NAME) -> ProjectConfig:
    """Read a configuration; ``origin`` names the text in messages (a path, or commit:path).

    Raises :class:`ConfigError` with the line and column of the first mistake, and a title that lists them all.
    """
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise ConfigError(f"{origin} is larger than {MAX_BYTES} bytes: it is no Groundspeed configuration.", _ADVICE)
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _syntax_error(text, origin, str(error)) from None
    try:
        config = ProjectConfig.model_validate(raw)
    except ValidationError as error:
        raise combined(text, origin, _from_pydantic(raw, error)) from None
    found = mistakes(config)
    if found:
        raise combined(text, origin, found)
    return config


def _syntax_error(text: str, origin: str, message: str) -> ConfigError:
    position = re.search(r"\(at line (\d+), column (\d+)\)", message)
    if position:
        line, column = int(position[1]), int(position[2])
    else:  # "at end of document"
        lines = text.splitlines() or [""]
        line, column = len(lines), len(lines[-1]) + 1
    what = re.sub(r"\s*\(at .*\)$", "", message)
    return ConfigError(f"{origin}:{line}:{column}: not valid TOML: {what}.", _ADVICE, line=line, column=column)


def combined(text: str, origin: str, found: list[Mistake]) -> ConfigError:
    """One error for all mistakes, in the order of the file."""
    placed = sorted(((locate(text, m.path), m) for m in found), key=lambda pair: _order(pair[0]))
    parts = [f"{_where(origin, place)}: {m.message.rstrip('.?')}{_stop(m.message)}" for place, m in placed]
    title = parts[0] if len(parts) == 1 else f"{origin} has {len(parts)} mistakes. " + " ".join(parts)
    first = placed[0][0]
    line, column = (first.line, first.column) if first else (None, None)
    return ConfigError(title, _ADVICE, line=line, column=column, parts=tuple(parts))


def _order(place: Place | None) -> tuple[int, int]:
    return (place.line, place.column) if place else (0, 0)


def _where(origin: str, place: Place | None) -> str:
    return f"{origin}:{place.line}:{place.column}" if place else origin


def _stop(message: str) -> str:
    return "?" if message.endswith("?") else "."


def _from_pydantic(raw: dict[str, Any], error: ValidationError) -> list[Mistake]:
    found: dict[tuple[str | int, ...], Mistake] = {}
    for item in error.errors(include_url=False):
        path = _path_in_file(raw, item["loc"], item["type"])
        if item["type"] == "too_short" and item.get("input"):
            continue  # pydantic counts valid items only: the invalid one is reported by itself
        # A union reports one line for each of its members: the first says enough.
        found.setdefault(path, Mistake(path, _words(path, dict(item))))
    return list(found.values())


def _path_in_file(raw: Any, loc: tuple[int | str, ...], kind: str) -> tuple[str | int, ...]:
    """Pydantic's location without the names of union members, which stand in no file."""
    path: list[str | int] = []
    step: Any
    for step in loc:
        if (isinstance(step, int) and isinstance(raw, list)) or (isinstance(raw, dict) and step in raw):
            raw = raw[step]
            path.append(step)
        elif kind == "missing":
            path.append(step)
        else:
            break
    return tuple(path)


def _words(path: tuple[str | int, ...], item: dict[str, Any]) -> str:
    name = dotted(path)
    if item["type"] == "extra_forbidden":
        known = sorted(_model_at(path[:-1]).model_fields)
        return f"unknown key {name!r}. {near(str(path[-1]), known)}"
    if item["type"] == "missing":
        return f"{name!r} is missing"
    if path and path[-1] == "suite" and item["type"] == "too_short":
        return "there is no [[suite]]: nothing would be measured"
    if item["type"] == "string_pattern_mismatch":
        form = '"package.module:factory"' if path[-1] == "target" else "letters, digits, . - and _, no more than 100"
        return f"{name!r}: {item.get('input')!r} has not the form of {form}"
    message = str(item["msg"])
    shown = "" if isinstance(item.get("input"), dict | list) else f", not {item.get('input')!r}"
    return f"{name!r}: {message[:1].lower()}{message[1:]}{shown}"


def dotted(path: tuple[str | int, ...]) -> str:
    """``("suite", 0, "name")`` as people write it: ``suite[1].name``, counted from 1."""
    out = ""
    for step in path:
        out += f"[{step + 1}]" if isinstance(step, int) else f".{step}" if out else step
    return out


def _model_at(path: tuple[str | int, ...]) -> type[BaseModel]:
    """The section class that a path leads to, through lists."""
    model: type[BaseModel] = ProjectConfig
    for step in path:
        if isinstance(step, str):
            found = _section(model.model_fields[step].annotation)
            if found is None:
                break
            model = found
    return model


def _section(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in typing.get_args(annotation):
        found = _section(part)
        if found is not None:
            return found
    return None
