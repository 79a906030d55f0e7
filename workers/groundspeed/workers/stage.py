"""The staged folder: ``groundspeed/plugins`` and one plugin's own distribution, nothing else of the worker.

It is what the benchmark process sees of us. The copy stands under a name made from its content, so that an upgrade
of the worker never changes code under a benchmark that runs.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import groundspeed.plugins
from groundspeed.workers.caches import touch
from groundspeed.workers.errors import JobError

OWN_DISTRIBUTION = "groundspeed"


def stage(cache: Path, distribution: str) -> Path:
    """The folder for plugins of that distribution. Raises JobError when the distribution is not installed."""
    files = dict(_own_files())
    if distribution and distribution != OWN_DISTRIBUTION:
        files |= _distribution_files(distribution)
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        stat = path.stat()
        digest.update(f"{name}|{path}|{stat.st_size}|{stat.st_mtime_ns}\n".encode())
    folder = cache / "stages" / digest.hexdigest()[:16]
    if not folder.is_dir():
        _copy(folder, files)
    touch(folder)
    return folder


def _own_files() -> Iterator[tuple[str, Path]]:
    root = Path(next(iter(groundspeed.plugins.__path__)))
    for path in root.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            yield f"groundspeed/plugins/{path.relative_to(root)}", path


def _distribution_files(name: str) -> dict[str, Path]:
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise JobError(
            f"The plugin's distribution {name!r} is not installed beside this worker (any more): install it again."
        ) from None
    files: dict[str, Path] = {}
    for file in found.files or ():
        path = Path(str(found.locate_file(file)))
        if file.parts[0] in {"..", "__pycache__"} or file.is_absolute() or path.suffix == ".pyc" or not path.is_file():
            continue
        files[str(file)] = path
    return files | _editable_files(found)


def _editable_files(found: importlib.metadata.Distribution) -> dict[str, Path]:
    """The modules of an editable installation, which its own list of files does not name."""
    import importlib.util

    files: dict[str, Path] = {}
    for point in found.entry_points.select(group="groundspeed.benchmarks"):
        top = point.module.split(".")[0]
        spec = importlib.util.find_spec(top)
        if spec is None or top == "groundspeed":
            continue
        for location in spec.submodule_search_locations or ():
            root = Path(location)
            for path in root.rglob("*"):
                if path.is_file() and path.suffix != ".pyc" and "__pycache__" not in path.parts:
                    files[f"{top}/{path.relative_to(root)}"] = path
        if not spec.submodule_search_locations and spec.origin:
            files[Path(spec.origin).name] = Path(spec.origin)
    return files


def _copy(folder: Path, files: dict[str, Path]) -> None:
    fresh = folder.with_name(f".{folder.name}.{uuid.uuid4().hex}")
    for name, path in files.items():
        place = fresh / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    try:
        fresh.rename(folder)
    except OSError:  # another slot was faster
        shutil.rmtree(fresh, ignore_errors=True)
        if not folder.is_dir():
            raise
