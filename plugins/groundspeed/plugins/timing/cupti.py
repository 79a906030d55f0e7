"""NVIDIA's tracer (CUPTI's activity interface) through ctypes.

torch.profiler reads the same records, but its start takes 3 to 5 s in every fresh process on an H200, and the device
cools meanwhile; CUPTI itself starts in 0.02 s. Only kernels, copies and fills are asked for. The start of the records'
layout (kind, start, end, and a kernel's name) has been the same from CUDA 11 to 13 (cupti_activity.h:
CUpti_ActivityKernel4 to 10, Memcpy3 to 6, Memset2 to 4); other versions are refused and torch.profiler is used.
"""

from __future__ import annotations

import ctypes
import glob
import sys
from ctypes import POINTER, byref, c_char_p, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from groundspeed.plugins.timing.kernels import Interval

KIND_MEMCPY, KIND_MEMSET, KIND_CONCURRENT_KERNEL = 1, 2, 10
KINDS = (KIND_CONCURRENT_KERNEL, KIND_MEMCPY, KIND_MEMSET)
BUFFER_BYTES = 4 << 20
MOST_BYTES = 6 << 20
"""Some thirty thousand kernels, which take some 0.3 s to read."""
OFFSET_START, OFFSET_END, OFFSET_KERNEL_NAME = 16, 24, 104
KNOWN_API_VERSIONS = range(14, 40)
"""CUPTI_API_VERSION: 14 is CUDA 11.0; CUDA 13.0 says 130000 (since CUDA 12.8 it is the toolkit's own number)."""
KNOWN_TOOLKITS = range(120_000, 140_000)

_Requested = ctypes.CFUNCTYPE(None, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_size_t))
_Completed = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p, c_size_t, c_size_t)


class CuptiUnavailable(Exception):
    """Not there, of an unknown version, or in use by another tool; says which."""


class CuptiTracer:
    """``start``, steps, ``stop``; then ``intervals``. ``now_ns`` is the clock of the intervals."""

    def __init__(self, library: Any = None) -> None:
        """Raises CuptiUnavailable."""
        self._lib = library if library is not None else _load()
        version = c_uint32()
        self._check(self._lib.cuptiGetVersion(byref(version)), "cuptiGetVersion")
        if version.value not in KNOWN_API_VERSIONS and version.value not in KNOWN_TOOLKITS:
            raise CuptiUnavailable(f"CUPTI version {version.value} has records of a layout that is not known here")
        self._buffers: dict[int, Any] = {}
        self._filled: list[tuple[int, int]] = []
        # Kept: the library calls them until the process ends.
        self._callbacks = (_Requested(self._requested), _Completed(self._completed))

    def _check(self, code: int, what: str) -> None:
        if code != 0:
            text = c_char_p()
            self._lib.cuptiGetResultString(code, byref(text))
            raise CuptiUnavailable(f"{what}: {text.value.decode() if text.value else code}")

    def _requested(self, buffer: Any, size: Any, most_records: Any) -> None:
        memory = (c_uint8 * (BUFFER_BYTES + 8))()
        address = (ctypes.addressof(memory) + 7) & ~7
        self._buffers[address] = memory
        buffer[0], size[0], most_records[0] = address, BUFFER_BYTES, 0

    def _completed(self, _context: Any, _stream: int, buffer: int, _size: int, valid: int) -> None:
        self._filled.append((buffer, valid))

    def now_ns(self) -> int:
        """The tracer's clock on the host."""
        value = c_uint64()
        self._lib.cuptiGetTimestamp(byref(value))
        return int(value.value)

    def start(self) -> None:
        """Raises CuptiUnavailable when another tool holds the tracer."""
        self._check(self._lib.cuptiActivityRegisterCallbacks(*self._callbacks), "cuptiActivityRegisterCallbacks")
        for kind in KINDS:
            self._check(self._lib.cuptiActivityEnable(c_uint32(kind)), "cuptiActivityEnable")

    def room(self, steps: int) -> int:
        """How many more steps may be traced when so many have been: their records must be read afterwards.

        The device must have been waited for.
        """
        self._lib.cuptiActivityFlushAll(c_uint32(0))
        recorded = sum(valid for _, valid in self._filled)
        return max(0, MOST_BYTES * steps // recorded - steps) if recorded else 0

    def stop(self) -> None:
        """Hands over everything that has finished; the device must have been waited for."""
        self._lib.cuptiActivityFlushAll(c_uint32(1))
        for kind in KINDS:
            self._lib.cuptiActivityDisable(c_uint32(kind))

    def intervals(self) -> list[Interval]:
        """All activities recorded, in order of start."""
        found: list[Interval] = []
        names: dict[int, str] = {}
        for address, valid in self._filled:
            found += self._read(address, valid, names)
        self._filled.clear()
        self._buffers.clear()
        return sorted(found, key=lambda one: one.start_ns)

    def _read(self, address: int, valid: int, names: dict[int, str]) -> list[Interval]:
        found = []
        record = c_void_p(None)
        step = self._lib.cuptiActivityGetNextRecord
        buffer, size = c_void_p(address), c_size_t(valid)
        while step(buffer, size, byref(record)) == 0 and record.value:
            base = record.value
            kind = c_uint32.from_address(base).value
            start, end = (
                c_uint64.from_address(base + OFFSET_START).value,
                c_uint64.from_address(base + OFFSET_END).value,
            )
            if kind in KINDS and 0 < start < end:
                found.append(Interval(self._name(kind, base, names), start, end - start))
        return found

    def _name(self, kind: int, base: int, names: dict[int, str]) -> str:
        if kind != KIND_CONCURRENT_KERNEL:
            return "Memcpy" if kind == KIND_MEMCPY else "Memset"
        pointer = c_uint64.from_address(base + OFFSET_KERNEL_NAME).value
        if pointer not in names:
            raw = ctypes.string_at(pointer).decode(errors="replace") if pointer else "unknown kernel"
            names[pointer] = demangle(raw)
        return names[pointer]


def demangle(name: str) -> str:
    """As the C++ runtime does it; the name itself where there is none."""
    if not name.startswith("_Z"):
        return name
    try:
        runtime = ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return name
    demangler = getattr(runtime, "__cxa_demangle")
    demangler.restype = c_void_p
    status = ctypes.c_int()
    text = demangler(name.encode(), None, None, byref(status))
    if status.value != 0 or not text:
        return name
    plain = ctypes.string_at(text).decode(errors="replace")
    libc = ctypes.CDLL(None)
    libc.free.argtypes = [c_void_p]
    libc.free(text)
    return plain


def _load() -> Any:
    """The CUPTI that torch has loaded, or the one that its wheels brought."""
    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise CuptiUnavailable(str(error)) from error
    paths = [line.split()[-1] for line in mapped.splitlines() if "libcupti.so" in line]
    paths += [found for folder in sys.path for found in glob.glob(f"{folder}/nvidia/*/lib/libcupti.so.*")]  # noqa: PTH207
    for path in dict.fromkeys(paths):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise CuptiUnavailable("no libcupti is loaded or beside torch")
