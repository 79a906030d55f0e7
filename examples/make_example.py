"""Makes the example: a small PyTorch project with a real git history, in which three commits change a performance.

    python examples/make_example.py FOLDER [--seed N | --quiet] [--commits 20]

One commit slows training, one raises peak memory and one makes inference faster, each by about a fifth; ``--seed``
moves them and sets each between 15 and 30 %, ``--quiet`` leaves them out. The same arguments give the same commits.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

COMMITS = 20
START = 1_767_600_000  # a Monday morning
HOURS = 7
AUTHORS = ("Ada Marsh <ada@tinygpt.example>", "Jun Ito <jun@tinygpt.example>", "Rosa Weil <rosa@tinygpt.example>")


def make(folder: Path, *, seed: int | None = None, quiet: bool = False, commits: int = COMMITS) -> list[dict[str, Any]]:
    """Write the repository; returns what was planted: ``plant``, ``sha``, ``title``, ``size``.

    Raises FileExistsError when the folder holds something else.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is there and is not empty")
    history = _history()
    plan = None if quiet else history.default_plan(commits) if seed is None else history.seeded_plan(commits, seed)
    steps = history.build(commits, plan)
    folder.mkdir(parents=True, exist_ok=True)
    _git(folder, "init", "--quiet", "--initial-branch=main")
    _git(folder, "fast-import", "--quiet", "--date-format=raw", stdin=_stream(steps))
    _git(folder, "reset", "--quiet", "--hard", "main")
    shas = _git(folder, "rev-list", "--reverse", "main").split()
    return [
        {"plant": c.plant, "sha": sha, "title": c.title, "size": plan.sizes[c.plant]}
        for sha, (c, _) in zip(shas, steps, strict=True)
        if c.plant
    ]


def append(folder: Path, title: str, path: str, text: str) -> str:
    """One more commit, as someone who pushes would make it; returns its sha."""
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    _git(folder, "add", path)
    name, _, email = AUTHORS[0].partition(" <")
    _git(folder, "-c", f"user.name={name}", "-c", f"user.email={email.rstrip('>')}", "commit", "-qm", title)
    return _git(folder, "rev-parse", "HEAD").strip()


def _history() -> ModuleType:
    """history.py beside this file, wherever this file was called from."""
    name = "groundspeed_example_history"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("history.py"))
        if spec is None or spec.loader is None:
            raise FileNotFoundError("history.py should stand beside make_example.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def _stream(steps: list[tuple[Any, dict[str, str]]]) -> bytes:
    """The history in git fast-import's language."""
    out = bytearray()
    before: dict[str, str] = {}
    for index, (commit, files) in enumerate(steps):
        who = f"{AUTHORS[index % len(AUTHORS)]} {START + index * HOURS * 3600} +0000"
        message = commit.title + (f"\n\n{commit.body}" if commit.body else "") + "\n"
        out += f"commit refs/heads/main\nauthor {who}\ncommitter {who}\n".encode()
        out += _data(message)
        for path in sorted(set(before) - set(files)):
            out += f"D {path}\n".encode()
        for path, text in sorted(files.items()):
            if before.get(path) != text:
                out += f"M 100644 inline {path}\n".encode() + _data(text)
        out += b"\n"
        before = files
    return bytes(out)


def _data(text: str) -> bytes:
    raw = text.encode()
    return f"data {len(raw)}\n".encode() + raw + b"\n"


def _git(folder: Path, *arguments: str, stdin: bytes | None = None) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], input=stdin, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"git {arguments[0]} failed: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--quiet", action="store_true", help="plant nothing")
    parser.add_argument("--commits", type=int, default=COMMITS)
    options = parser.parse_args()
    try:
        planted = make(options.folder, seed=options.seed, quiet=options.quiet, commits=options.commits)
    except (FileExistsError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(2) from None
    sys.stdout.write(json.dumps(planted, indent=2) + "\n")


if __name__ == "__main__":
    main()
