"""Which libraries a stack really loads, beside the packages that it was linked against; asked of its own Python."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from groundspeed.plugins.device import libraries, present
from groundspeed.plugins.device.base import Facet
from groundspeed.workers.asking import ask
from groundspeed.workers.stack import Stack
from groundspeed.workers.variables import base_variables

_STEER = ("LD_PRELOAD", "LD_LIBRARY_PATH")


def facets(stack: Stack) -> tuple[Facet, ...]:
    """``loaded.nccl`` and its like, of a stack with torch on a machine with an accelerator; read once a process.

    What could not be read is unknown with the reason, and told for information.
    """
    if stack.torch is None or not present.accelerator_possible():
        return ()
    return _ask(str(stack.executable), tuple(os.environ.get(name, "") for name in _STEER))


@cache
def _ask(python: str, _steered: tuple[str, ...]) -> tuple[Facet, ...]:
    try:
        found: dict[str, tuple[str | None, str]] = ask([python, libraries.__file__], base_variables(os.environ))
    except subprocess.CalledProcessError as error:
        return (_unknown(f"torch could not be imported: {(error.stderr.strip().splitlines() or ['no word'])[-1]}"),)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return (_unknown(f"the stack's Python could not be asked: {error}"),)
    read = tuple(
        Facet("stack", f"loaded.{name}", version, why, tracked=version is not None)
        for name, (version, why) in sorted(found.items())
    )
    return read if "nccl" in found else (*read, _unknown("this torch loads no NCCL"))


def _unknown(why: str) -> Facet:
    return Facet("stack", "loaded.nccl", None, why[:300], tracked=False)


def otherwise(conditions: Mapping[str, Any], known: Iterable[Any]) -> tuple[Facet, ...]:
    """What a benchmark's process has loaded in another version than the stack: that is the build's doing."""
    stack = {facet.name: facet.value for facet in known if facet.name.startswith("loaded.")}
    found = conditions.get("libraries")
    return tuple(
        Facet("build", name, version[:100])
        for library, version in (sorted(found.items()) if isinstance(found, Mapping) else ())
        if isinstance(version, str) and (name := f"loaded.{str(library)[:40]}") in stack and stack[name] != version
    )
