"""Finds the example's generator, in a checkout or in the installed package, and makes the example once."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

from groundspeed.service.errors import Conflict, Invalid, NotFound

COMMITS = 20
ABOUT = "example.json"


def prepare(folder: Path, *, seed: int | None, quiet: bool, commits: int) -> Path:
    """The example's repository below ``folder``, made when it is not there yet.

    Raises Conflict when another variant of it was made there before: its results would be mixed up.
    """
    wanted = {"seed": seed, "quiet": quiet, "commits": commits}
    about = folder / ABOUT
    if about.exists():
        found = json.loads(about.read_text(encoding="utf-8"))
        if found["arguments"] != wanted:
            raise Conflict(
                f"{folder} holds another variant of the example ({_words(found['arguments'])}).",
                "Give this one a folder of its own with --data.",
            )
        return folder / "tinygpt"
    shutil.rmtree(folder, ignore_errors=True)  # a part of one, from a start that was cut off
    folder.mkdir(parents=True)
    try:
        planted = _generator().make(folder / "tinygpt", seed=seed, quiet=quiet, commits=commits)
    except ValueError as error:
        raise Invalid(f"The example cannot be made: {error}.", "Choose another length with --commits.") from None
    text = json.dumps({"arguments": wanted, "planted": planted}, indent=2)
    temporary = about.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(about)
    return folder / "tinygpt"


def _generator() -> Any:
    here = Path(__file__).resolve()
    places = (here.parents[3] / "examples", here.parents[1] / "examples")
    for place in places:
        file = place / "make_example.py"
        spec = importlib.util.spec_from_file_location("groundspeed_make_example", file) if file.exists() else None
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    raise NotFound("The example's generator is not installed here.", "Name a repository of yours with --repo.")


def _words(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in arguments.items())
