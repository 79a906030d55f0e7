"""Reading error texts: what drivers, torch, NCCL and the kernel say when something is wrong. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from groundspeed.plugins.device.kernel_log import faults

MOST_CHARACTERS = 400_000
_PATTERNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("no-driver", (r"couldn't communicate with the NVIDIA driver", r"Driver Not Loaded",
                   r"libcuda\.so\.1: cannot open shared object", r"Found no NVIDIA driver on your system")),
    ("driver-library-mismatch", (r"Driver/library version mismatch", r"API mismatch: the client has the version")),
    ("nvml-missing", (r"libnvidia-ml\.so(\.1)?: cannot open shared object", r"NVML Shared Library Not Found")),
    ("no-device", (r"No devices were found", r"no CUDA-capable device", r"No CUDA GPUs are available",
                   r"No NVIDIA graphics adapter probed")),
    ("nouveau", (r"nouveau, rivafb, nvidiafb", r"obtained ownership of the NVIDIA device")),
    ("device-lost", (r"GPU is lost", r"Unable to determine the device handle", r"has fallen off the bus",
                     r"GPU requires reset", r"\[Unknown Error\]")),
    ("torch-newer-than-driver", (r"CUDA driver version is insufficient", r"The NVIDIA driver on your system is too old",
                                 r"forward compatibility was attempted on non supported HW")),
    ("torch-cpu-build", (r"Torch not compiled with CUDA enabled",)),
    ("torch-arch", (r"no kernel image is available for execution",
                    r"is not compatible with the current PyTorch installation")),
    ("torch-no-gpu", (r"CUDA unknown error", r"Can't initialize NVML")),
    ("nccl-shadowed", (r"undefined symbol: nccl", r"libnccl\S*: (version|undefined)", r"NCCL version mismatch")),
    ("nccl-missing", (r"libnccl\S*: cannot open shared object", r"Distributed package doesn't have NCCL")),
    ("low-shm", (r"(No space left on device|Bus error).{0,200}(shm|shared memory)",
                 r"(shm|shared memory).{0,200}(No space left|Bus error|insufficient)",
                 r"unable to (open|write to|allocate) shared memory", r"killed by signal: Bus error",
                 r"Error while creating shared memory segment")),
    ("nccl-error", (r"unhandled (system|cuda) error", r"NCCL WARN .{0,200}(fail|error)", r"Test NCCL failure",
                    r"Failed tests \(no bandwidth data\)",
                    r"nccl(Internal|System|Remote)Error", r"Watchdog caught collective operation timeout")),
    ("launch-failed", (r"Couldn't allocate a port for PMI", r"CXI alloc failed", r"launch failed on \S+:",
                       r"ORTE has lost communication", r"could not (bind|find) .{0,40}rendezvous")),
    ("collective-wrong", (r"Out of bounds values\s*:\s*[1-9]\d*", r"values wrong; \S+ ≠")),
    ("low-files", (r"Too many open files", r"received 0 items of ancdata")),
    ("out-of-memory", (r"out of memory", r"CUDA_ERROR_OUT_OF_MEMORY", r"OutOfMemoryError",
                       r"CUBLAS_STATUS_ALLOC_FAILED", r"can(not|'t) allocate memory", r"std::bad_alloc")),
    ("device-assert", (r"device-side assert triggered", r"an illegal memory access", r"misaligned address",
                       r"CUDA_ERROR_ILLEGAL_ADDRESS")),
)  # fmt: skip
_COMPILED = tuple((re.compile("|".join(patterns), re.IGNORECASE), code) for code, patterns in _PATTERNS)


@dataclass(frozen=True, slots=True)
class Match:
    """One symptom seen in a text, and the line that shows it."""

    code: str
    line: str


def read(text: str) -> Iterator[Match]:
    """Each symptom once, in the order of the table; Xids of the kernel log by their kind.

    Only the last MOST_CHARACTERS are read: what went wrong last stands last.
    """
    text = text[-MOST_CHARACTERS:]
    for pattern, code in _COMPILED:
        if match := pattern.search(text):
            yield Match(code, _line_of(text, match.start()))
    seen: set[str] = set()
    for fault in faults(text):
        code = "fabric" if fault.source == "switch" else "xid-application" if fault.of_application else "xid"
        if code not in seen:
            seen.add(code)
            yield Match(code, str(fault))


def codes(text: str) -> list[str]:
    return [match.code for match in read(text)]


def _line_of(text: str, at: int) -> str:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[start : end if end >= 0 else len(text)].strip()[:400]
