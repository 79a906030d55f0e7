"""The versions of NCCL, cuDNN, cuBLAS and the CUDA runtime that a process has really loaded.

What a package says of itself is the version that was linked against; LD_PRELOAD, a module file or a build's own wheel
can put another in its place. Standard library alone: the worker also runs this file by itself, with a stack's Python.
"""

from __future__ import annotations

import ctypes
import json
import re
import sys
from collections.abc import Callable
from ctypes import byref, c_int
from pathlib import Path
from typing import Any

MAPS = Path("/proc/self/maps")
Found = tuple[str | None, str]
"""A version, or None and why it could not be read."""


def loaded(maps: Path = MAPS, load: Callable[[str], Any] = ctypes.CDLL) -> dict[str, Found]:
    """By name: nccl, cudnn, cublas, cuda_runtime. Only what this process has loaded; never loads anything itself."""
    found: dict[str, Found] = {}
    paths = _paths(maps)
    for name, (pattern, ask) in _LIBRARIES.items():
        path = next((path for path in paths if re.search(pattern, path)), None)
        if path is not None:
            found[name] = _asked(ask, load, path)
    if "nccl" not in found and (built_in := _torch_nccl()):
        found["nccl"] = (built_in, "")
    return found


def _paths(maps: Path) -> list[str]:
    try:
        text = maps.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return sorted(
        {line.split(None, 5)[5] for line in text.splitlines() if "/" in line and len(line.split(None, 5)) > 5}
    )


def _asked(ask: Callable[[Any], str], load: Callable[[str], Any], path: str) -> Found:
    try:
        return ask(load(path)), ""
    except (OSError, AttributeError, ValueError) as error:
        return None, f"{Path(path).name} was loaded and does not say its version: {error}"


def _torch_nccl() -> str:
    """Of an NCCL that is part of torch's own library."""
    ask = getattr(getattr(sys.modules.get("torch"), "_C", None), "_nccl_version", None)
    if ask is None:
        return ""
    raw = int(ask())
    return f"{raw >> 32}.{(raw >> 16) & 0xFFFF}.{raw & 0xFFFF}"


def _nccl(library: Any) -> str:
    version = c_int()
    _went_well(library.ncclGetVersion(byref(version)))
    thousands = 10_000 if version.value >= 10_000 else 1_000  # up to 2.8: 2804
    return f"{version.value // thousands}.{version.value % thousands // 100}.{version.value % 100}"


def _cudnn(library: Any) -> str:
    library.cudnnGetVersion.restype = ctypes.c_size_t
    version = int(library.cudnnGetVersion())
    thousands = 10_000 if version >= 90_000 else 1_000  # up to 8: 8907
    return f"{version // thousands}.{version % thousands // 100}.{version % 100}"


def _cublas(library: Any) -> str:
    numbers = []
    for part in range(3):
        value = c_int()
        _went_well(library.cublasGetProperty(c_int(part), byref(value)))
        numbers.append(str(value.value))
    return ".".join(numbers)


def _cuda_runtime(library: Any) -> str:
    version = c_int()
    _went_well(library.cudaRuntimeGetVersion(byref(version)))
    return f"{version.value // 1000}.{version.value % 1000 // 10}"


def _went_well(code: int) -> None:
    if code:
        raise ValueError(f"status {code}")


_LIBRARIES: dict[str, tuple[str, Callable[[Any], str]]] = {
    "nccl": (r"/libnccl\.so", _nccl),
    "cudnn": (r"/libcudnn\.so", _cudnn),
    "cublas": (r"/libcublas\.so", _cublas),
    "cuda_runtime": (r"/libcudart[.-]", _cuda_runtime),
}


def as_conditions(found: dict[str, Found]) -> dict[str, Any]:
    """As it stands in the conditions of a run."""
    return {name: version if version is not None else {"unavailable": why} for name, (version, why) in found.items()}


def main() -> int:
    """What is loaded once torch is imported, as JSON."""
    import torch  # noqa: F401 - it loads them

    sys.stdout.write(json.dumps(loaded()) + "\n")
    return 0


if __name__ == "__main__":
    # This file's folder would come before the standard library's own modules.
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parent]
    sys.exit(main())
