"""GitHub's published OpenAPI description (npm package ``@octokit/openapi``), and whether a request keeps to it.

It is fetched once into the machine's folder for temporary files, because it is 28 MB; where the registry cannot be
reached the reason is kept, and tests say that they did without it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from jsonschema import Draft4Validator, validators
from referencing import Registry
from referencing.jsonschema import DRAFT4

VERSION = "23.0.2"
MEMBER = "package/generated/api.github.com.json"
_URI = "urn:github"


class Missing(Exception):
    """The description cannot be had; the text says why."""


def description() -> Description:
    """The description; raises :class:`Missing`. The first call in a process may take as long as a download."""
    found = _found()
    if isinstance(found, str):
        raise Missing(found)
    return found


@cache
def _found() -> Description | str:
    """The description, or why there is none: that is asked once."""
    try:
        return Description(json.loads(_file().read_text(encoding="utf-8")))
    except Missing as missing:
        return str(missing)


def _file() -> Path:
    folder = Path(tempfile.gettempdir()) / f"groundspeed-github-openapi-{VERSION}-{os.getuid()}"
    path = folder / "api.github.com.json"
    if path.exists():
        return path
    folder.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        _fetch(Path(work)).replace(path)
    return path


def _fetch(work: Path) -> Path:
    sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "web"))
    from build import npm

    try:
        command = [*npm(), "pack", f"@octokit/openapi@{VERSION}", "--silent"]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=120, check=False)
    except (SystemExit, OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"npm cannot be run: {error}") from None
    finally:
        sys.path.pop(0)
    archives = list(work.glob("*.tgz"))
    if done.returncode or not archives:
        raise Missing(f"npm pack @octokit/openapi@{VERSION} did not work: {done.stderr.strip()[-300:]}")
    with tarfile.open(archives[0]) as archive:
        source = archive.extractfile(MEMBER)
        assert source is not None
        (work / "found.json").write_bytes(source.read())
    return work / "found.json"


def _type(validator: Any, types: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    """OpenAPI 3.0's ``nullable`` beside JSON Schema's ``type``."""
    if instance is None and schema.get("nullable"):
        return
    yield from Draft4Validator.VALIDATORS["type"](validator, types, instance, schema)


_Validator = validators.extend(Draft4Validator, {"type": _type})


@dataclass(frozen=True)
class Operation:
    """One path and method of the description. ``pointer`` leads to it."""

    pointer: str
    template: str
    parameters: tuple[Mapping[str, Any], ...]
    body: bool


class Description:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._registry = Registry().with_resource(_URI, DRAFT4.create_resource(document))
        self._paths = sorted(
            ((self._pattern(template), template) for template in document["paths"]),
            key=lambda pair: pair[1].count("{"),  # a literal path goes before one with a parameter in its place
        )

    @staticmethod
    def _pattern(template: str) -> re.Pattern[str]:
        parts = re.split(r"\{[^}]+\}", template)
        return re.compile("([^/]+)".join(re.escape(part) for part in parts))

    def operation(self, method: str, path: str) -> Operation | None:
        for pattern, template in self._paths:
            if pattern.fullmatch(path) and method.lower() in self._document["paths"][template]:
                found = self._document["paths"][template][method.lower()]
                escaped = template.replace("~", "~0").replace("/", "~1")
                parameters = tuple(self._resolved(one) for one in found.get("parameters", ()))
                pointer = f"/paths/{escaped}/{method.lower()}"
                return Operation(pointer, template, parameters, "requestBody" in found)
        return None

    def _resolved(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in node:
            target: Any = self._document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part.replace("~1", "/").replace("~0", "~")]
            node = target
        return node

    def violations(self, method: str, path: str, query: Mapping[str, str], body: Any) -> list[str]:
        """What a request has that the description does not allow, in words."""
        operation = self.operation(method, path)
        if operation is None:
            return [f"{method} {path} is no operation of GitHub's"]
        where = f"{method} {operation.template}"
        found = [f"{where}: {words}" for words in self._query(operation, query)]
        if body is None:
            return found
        if not operation.body:
            return [*found, f"{where} takes no body"]
        return found + [f"{where}: {words}" for words in self._body(operation, body)]

    def _query(self, operation: Operation, query: Mapping[str, str]) -> Iterator[str]:
        known = {one["name"]: one for one in operation.parameters if one["in"] == "query"}
        for name, text in query.items():
            if name not in known:
                yield f"unknown query parameter {name!r}"
                continue
            schema = self._resolved(known[name]["schema"])
            value: Any = int(text) if schema.get("type") == "integer" and text.isdigit() else unquote(text)
            yield from (f"{name}: {error.message}" for error in _Validator(schema).iter_errors(value))

    def _body(self, operation: Operation, body: Any) -> Iterator[str]:
        pointer = f"{operation.pointer}/requestBody/content/application~1json/schema"
        # The pointer goes into a URI, whose braces and percent signs must be written as such.
        uri = f"{_URI}#{pointer.replace('%', '%25').replace('{', '%7B').replace('}', '%7D')}"
        for error in _Validator({"$ref": uri}, registry=self._registry).iter_errors(body):
            yield f"{'.'.join(map(str, error.absolute_path))}: {error.message[:300]}"
        target: Any = self._document
        for part in pointer.removeprefix("/").split("/"):
            target = target[part.replace("~1", "/").replace("~0", "~")]
        names = set(self._properties(target))
        if names and isinstance(body, dict):
            yield from (f"unknown property {name!r}" for name in sorted(set(body) - names))

    def _properties(self, schema: Mapping[str, Any]) -> Iterator[str]:
        schema = self._resolved(schema)
        yield from schema.get("properties", ())
        for branch in ("oneOf", "anyOf", "allOf"):
            for one in schema.get(branch, ()):
                yield from self._properties(one)
