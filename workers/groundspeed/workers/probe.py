"""What a Python interpreter has installed, as JSON on standard output; run by path in that interpreter.

Standard library alone; nothing that is found is imported.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import platform
import sys
import sysconfig
from pathlib import Path
from typing import Any


def _recorded(distribution: importlib.metadata.Distribution) -> set[tuple[str, ...]]:
    """The first two parts of every file's path; from the text itself, because torch alone has 15,000 files."""
    record = distribution.read_text("RECORD")
    if record is None:
        return {file.parts[:2] for file in distribution.files or ()}
    paths = (line.rpartition(",")[0].rpartition(",")[0].strip('"') for line in record.splitlines())
    return {tuple(path.split("/", 2)[:2]) for path in paths if path and not path.startswith(("/", ".."))}


def _tops(recorded: set[tuple[str, ...]], root: Path) -> list[str]:
    """Names in ``root`` that belong to the distribution: packages, modules, data folders, its own metadata."""
    found = {parts[0] for parts in recorded} - {"..", "__pycache__"}
    return sorted(name for name in found if not name.endswith(".pth") and (root / name).exists())


def _pairs(recorded: set[tuple[str, ...]], root: Path, tops: list[str]) -> list[str]:
    """The second level ("nvidia/cublas") of what several distributions share."""
    pairs = {"/".join(parts) for parts in recorded if len(parts) > 1 and parts[0] in tops}
    return sorted(pair for pair in pairs if not pair.endswith("/__pycache__") and (root / pair).exists())


def _elsewhere(name: str) -> dict[str, str]:
    """Where the packages of an editable or unrecorded installation lie, by name."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return {}
    if spec.submodule_search_locations:
        return {name: str(Path(next(iter(spec.submodule_search_locations))))}
    return {Path(spec.origin).name: spec.origin} if spec.origin else {}


def _describe(distribution: importlib.metadata.Distribution) -> dict[str, Any] | None:
    name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    path = getattr(distribution, "_path", None)
    if not name or not version or path is None:
        return None
    root = Path(path).parent
    recorded = _recorded(distribution)
    tops = _tops(recorded, root)
    modules = [top for top in tops if not top.endswith((".dist-info", ".egg-info"))]
    elsewhere: dict[str, str] = {}
    if not [top for top in modules if not top.startswith("__editable__")]:
        guesses = (distribution.read_text("top_level.txt") or name.replace("-", "_").lower()).split()
        for guess in guesses:
            elsewhere |= _elsewhere(guess)
    return {
        "name": name,
        "version": version,
        "requires": distribution.requires or [],
        "root": str(root),
        "info": Path(path).name,
        "tops": tops,
        "pairs": _pairs(recorded, root, tops),
        "elsewhere": elsewhere,
    }


def main() -> None:
    seen: dict[str, dict[str, Any]] = {}
    for distribution in importlib.metadata.distributions():
        described = _describe(distribution)
        if described is not None:
            seen.setdefault(described["name"].lower(), described)
    document = {
        "executable": sys.executable,
        "base_prefix": sys.base_prefix,
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": sysconfig.get_platform(),
        "distributions": list(seen.values()),
    }
    sys.stdout.write(json.dumps(document))


if __name__ == "__main__":
    main()
