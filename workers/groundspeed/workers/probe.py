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


def _tops(distribution: importlib.metadata.Distribution, root: Path) -> list[str]:
    """Names in ``root`` that belong to the distribution: packages, modules, data folders, its own metadata."""
    found: set[str] = set()
    for file in distribution.files or ():
        top = file.parts[0]
        if top not in {"..", "__pycache__"} and not top.endswith(".pth") and not file.is_absolute():
            found.add(top)
    return sorted(name for name in found if (root / name).exists())


def _pairs(distribution: importlib.metadata.Distribution, root: Path, tops: list[str]) -> list[str]:
    """The second level ("nvidia/cublas") of what several distributions share."""
    pairs = {"/".join(file.parts[:2]) for file in distribution.files or () if len(file.parts) > 1}
    return sorted(pair for pair in pairs if pair.split("/")[0] in tops and (root / pair).exists())


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
    tops = _tops(distribution, root)
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
        "pairs": _pairs(distribution, root, tops),
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
