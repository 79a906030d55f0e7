"""``groundspeed init``: writes a first groundspeed.toml by looking at the repository."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from groundspeed.cli import context
from groundspeed.cli.output import report_done
from groundspeed.service.errors import Conflict, Invalid

FACTORY = re.compile(r"^(make|build|create|benchmark)(_|$)")
GUESSES = (("infer", "inference"), ("predict", "inference"), ("memory", "memory"), ("train", "training"))
FIRST_TARGET = '''\
"""A first benchmark: put your own model and data here."""

import torch


def make(batch_size: int, device: str):
    """One model, one batch; Groundspeed makes the steps, the warm-up and the clocks."""
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).to(device)
    inputs = torch.randn(batch_size, 256, device=device)
    labels = torch.randint(10, (batch_size,), device=device)
    return {
        "model": model,
        "batch": (inputs, labels),
        "loss": lambda model, batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1]),
        "samples_per_step": batch_size,
    }
'''


@dataclass(frozen=True, slots=True)
class Target:
    """A factory that was found: ``module:function`` and what it seems to measure."""

    path: str
    plugin: str


def init(
    folder: Annotated[Path, typer.Argument(help="Top folder of the repository.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Write over a groundspeed.toml that is there.")] = False,
    json: context.JsonOption = False,
) -> None:
    """Write a groundspeed.toml by looking at the repository, and a first benchmark where it has none."""
    from groundspeed.service.config import FILE_NAME, load
    from groundspeed.service.repo.git import GitFailed, git

    try:
        top = Path(git("rev-parse", "--show-toplevel", cwd=folder.absolute()).strip())
        branch = git("branch", "--show-current", cwd=top).strip() or "main"
    except (GitFailed, OSError):
        raise Invalid(
            f"{folder.absolute()} is no git repository.", "Run `git init` there first, or name another folder."
        ) from None
    file = top / FILE_NAME
    if file.exists() and not force:
        raise Conflict(f"{file} is there already.", "Change it by hand, or write over it with --force.")
    found = targets(top)
    written = [] if found else _write_first(top)
    text = configuration(top, branch, found or [Target("benchmarks.first:make", "training")])
    load(text, FILE_NAME)  # what is written can be read
    file.write_text(text, encoding="utf-8")
    names = [str(path.relative_to(top)) for path in (file, *written)]
    said = "\n".join([*(f"wrote {name}" for name in names), f"Commit it, then: groundspeed demo --repo {top}"])
    report_done(said, json, repository=str(top), written=names, targets=[target.path for target in found])


def targets(top: Path) -> list[Target]:
    """Functions in benchmarks/ that look like factories, by reading and never by importing."""
    found = []
    for path in sorted((top / "benchmarks").glob("*.py")):
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError, OSError):
            continue
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and FACTORY.match(node.name):
                name = f"benchmarks.{path.stem}:{node.name}"
                found.append(Target(name, _plugin(name)))
    return found


def _plugin(name: str) -> str:
    return next((plugin for word, plugin in GUESSES if word in name.lower()), "training")


def _write_first(top: Path) -> list[Path]:
    folder = top / "benchmarks"
    folder.mkdir(exist_ok=True)
    written = []
    for path, text in ((folder / "__init__.py", ""), (folder / "first.py", FIRST_TARGET)):
        if not path.exists():
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def configuration(top: Path, branch: str, found: list[Target]) -> str:
    """The text of groundspeed.toml."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", top.name).strip("-.") or "project"
    installable = (top / "pyproject.toml").exists() or (top / "setup.py").exists()
    paths = '["src", "."]' if (top / "src").is_dir() else '["."]'
    lines = [
        "[project]",
        f'name = "{name}"',
        f'branch = "{branch}"',
        "",
        "[build]",
        "# Commands run in each checkout; the node's own torch is used and never installed again.",
        'install = ["pip install ."]' if installable else "install = []",
        f"paths = {paths}",
        'benchmarks = "benchmarks"',
        "",
    ]
    names: set[str] = set()
    for target in found:
        suite = target.path.partition(":")[0].rpartition(".")[2]
        while suite in names:
            suite += "-2"
        names.add(suite)
        lines += ["[[suite]]", f'name = "{suite}"', f'plugin = "{target.plugin}"', f'target = "{target.path}"', ""]
    return "\n".join(lines)
