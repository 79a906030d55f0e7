"""What this node can run: read in a process of its own, so that no plugin's imports reach the worker."""

from __future__ import annotations

import os
import subprocess
import sys

from pydantic import ValidationError

from groundspeed.service.wire import v1
from groundspeed.workers.asking import ask
from groundspeed.workers.logs import logger
from groundspeed.workers.variables import base_variables


def read_catalogue() -> tuple[v1.PluginSpec, ...]:
    """All plugins installed beside the worker; broken ones with their error. Empty when not even that works."""
    try:
        argv = [sys.executable, "-P", "-m", "groundspeed.plugins.registry", "--dump"]
        plugins = ask(argv, base_variables(os.environ, ("PYTHONPATH",)))["plugins"]
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
        logger.error("the catalogue of plugins cannot be read: %s %s", error, getattr(error, "stderr", ""))
        return ()
    found = []
    for plugin in plugins:
        try:
            found.append(v1.PluginSpec.model_validate(plugin))
        except ValidationError as error:
            words = f"its declaration cannot be sent to the service: {error}"
            found.append(v1.PluginSpec(name=str(plugin.get("name", "?")), version="0", error=words[:2000]))
    return tuple(found)
