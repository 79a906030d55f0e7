"""What an exception means as a result: outcome and evidence in words."""

from __future__ import annotations

import traceback
from typing import Any

from groundspeed.plugins.doctor import texts
from groundspeed.plugins.errors import PluginError
from groundspeed.plugins.spi import Outcome, Skip, TimedOut, Unsupported, WrongResult
from groundspeed.plugins.symptoms import as_dict

TRACEBACK_LIMIT = 20_000
# Texts by which torch, CUDA, HIP and cuBLAS say that memory has run out where they raise no class of its own.
_OOM_WORDS = (
    "out of memory",
    "cuda_error_out_of_memory",
    "hiperroroutofmemory",
    "cublas_status_alloc_failed",
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
)


def classify(error: BaseException) -> Outcome:
    """The outcome that an exception stands for."""
    if isinstance(error, Skip):
        return Outcome.SKIPPED
    if isinstance(error, Unsupported | PluginError):
        return Outcome.UNSUPPORTED
    if isinstance(error, WrongResult):
        return Outcome.WRONG
    if isinstance(error, TimedOut):
        return Outcome.TIMEOUT
    if is_out_of_memory(error):
        return Outcome.OOM
    return Outcome.FAILED


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, on the host or on a device; looks through the chain of causes."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, MemoryError) or type(current).__name__ == "OutOfMemoryError":
            return True
        if isinstance(current, RuntimeError | OSError) and any(word in str(current).lower() for word in _OOM_WORDS):
            return True
        current = current.__cause__ or current.__context__
    return False


def evidence(error: BaseException) -> dict[str, Any]:
    """What is kept with the result: one line, and for anything that is not a plain refusal the traceback."""
    text = str(error).strip()
    kept: dict[str, Any] = {"message": text.splitlines()[0] if text else type(error).__name__}
    if text.count("\n"):
        kept["detail"] = text[:TRACEBACK_LIMIT]
    kept["error_type"] = f"{type(error).__module__}.{type(error).__qualname__}"
    if not isinstance(error, Skip | Unsupported | PluginError):
        kept["traceback"] = "".join(traceback.format_exception(error))[-TRACEBACK_LIMIT:]
    if not isinstance(error, Skip | WrongResult | PluginError):
        chain = kept.get("traceback", text)
        hints = [as_dict(code) for code in texts.codes(f"{chain}\n{text}")]
        kept |= {"hints": hints} if hints else {}
    more = getattr(error, "evidence", None)
    return {**kept, **more} if isinstance(more, dict) else kept
