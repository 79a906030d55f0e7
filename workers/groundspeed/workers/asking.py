"""What the worker has another Python find out and say as JSON, so that its imports stay out of this process."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

LIMIT_S = 120.0
"""Importing torch over a network's file system takes a minute; what takes longer does not come."""


def ask(argv: Sequence[str], env: Mapping[str, str] | None = None) -> Any:
    """The JSON that the command writes to its output; ``env`` replaces this process's variables.

    Raises OSError when it cannot be started, subprocess.SubprocessError when it fails or takes longer than ``LIMIT_S``
    seconds, ValueError when what it writes is not JSON.
    """
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=True, env=env)
    return json.loads(done.stdout)
