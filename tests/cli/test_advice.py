"""What messages, pages and documentation tell people to type is there: commands, options, variables, keys, extras."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer

from groundspeed.cli import main
from groundspeed.service.config.model import ProjectConfig, Section
from groundspeed.service.domain.pulls.commands import VERBS

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = {
    "--add", "--benchmark-csv", "--benchmark-json", "--benchmark-save", "--dump", "--export-csv", "--export-json",
    "--exporters", "--format", "--global", "--gpu-reset", "--gpus", "--groundspeed", "--hash", "--ignore-failure",
    "--ipc", "--label", "--local-env-vars", "--message-format", "--shm-size", "--tag-output", "--ulimit", "--unshallow",
}  # fmt: skip
"""Options of other programs that messages and documentation name."""
OUTSIDE = {
    f"GROUNDSPEED_{name}"
    for name in ("ACTION", "CAMPAIGN", "FILES", "FORMAT", "MAP", "NODE", "PROJECT", "TOKEN", "TRACEBACK", "URL", "WAVE",
                 "WORKER_IMAGE")
}  # fmt: skip
"""Variables that are no settings: what ``report`` and its snippets read, what hooks are given, what images say."""
READ_FILES = ("import", "report", "compare")


def nodes(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group of commands by its words."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from nodes(child, (*path, name))


def options_of(command: Any) -> set[str]:
    return {o for p in command.params for o in (*p.opts, *p.secondary_opts) if o.startswith("-")} | {"--help"}


@pytest.fixture(scope="module")
def tree() -> dict[tuple[str, ...], Any]:
    if not any(entry.name == "init" for entry in main.app.registered_commands):
        main._register()
    return dict(nodes(typer.main.get_command(main.app)))


def sources() -> dict[str, str]:
    """Path → text of each source file, with strings that go on in the next line joined."""
    paths = [p for folder in ("service", "plugins", "workers") for p in (ROOT / folder / "groundspeed").rglob("*.py")]
    return {str(p.relative_to(ROOT)): re.sub(r'"\s*\n\s*f?"', "", p.read_text(encoding="utf-8")) for p in paths}


def written() -> dict[str, str]:
    """Path → text of the documentation, and of what else people read or copy."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("web/templates/*"), *ROOT.glob("examples/ci/*")]
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in found}


def code(text: str) -> Iterator[str]:
    """What stands in code spans, and lines of code after their prompt or as a step."""
    yield from (a or b for a, b in re.findall(r"`([^`\n]+)`|<code>([^<]+)</code>", text))
    yield from re.findall(r"^ *(?:- |\$ |replies=\$\()(groundspeed [^\n]*)", text, re.MULTILINE)


def wrong(call: str, tree: dict[tuple[str, ...], Any]) -> str:
    """What is not there of ``groundspeed …``; empty when all is."""
    if several := re.search(r"\b[a-z-]+(?:\|[a-z-]+)+", call):
        each = [call.replace(several[0], one) for one in several[0].split("|")]
        return " ".join(filter(None, (wrong(one, tree) for one in each)))
    words = call.partition(" | ")[0].split()[1:]
    at: tuple[str, ...] = ()
    while len(at) < len(words) and (*at, words[len(at)].strip(".,;:")) in tree:
        at = (*at, words[len(at)].strip(".,;:"))
    rest = words[len(at) :]
    if hasattr(tree[at], "commands") and rest and re.match(r"[a-z]", rest[0]):
        return f"no command {rest[0]}"
    named = {w.partition("=")[0].strip(".,;:)…") for w in rest if re.match(r"-{1,2}[a-z]", w)}
    return " ".join(sorted(named - options_of(tree[at]))) if at else ""


def test_commands_that_are_named_are_there(tree: dict[tuple[str, ...], Any]) -> None:
    """With their options, in messages as in documentation and on pages."""
    calls = [
        (path, call)
        for path, text in sources().items()
        for call in re.findall(r"(?:`|: )(groundspeed [a-z][^`\"\n]*)", text)
    ]
    messages = len(calls)
    calls += [(p, call) for p, text in written().items() for call in code(text) if call.startswith("groundspeed ")]
    assert messages > 40
    assert len(calls) > messages + 40
    assert [f"{path}: {call}: {why}" for path, call in calls if (why := wrong(call, tree))] == []


def test_options_that_messages_name_are_there(tree: dict[tuple[str, ...], Any]) -> None:
    """A module of commands names options of its own; what several commands share, options that all of them have."""
    of_module: dict[str, set[str]] = {}
    for command in tree.values():
        if command.callback is not None:
            of_module.setdefault(command.callback.__module__, set()).update(options_of(command))
    everything = set().union(*of_module.values()) | FOREIGN
    shared = set.intersection(*(options_of(tree[name,]) for name in READ_FILES))
    unknown = []
    for path, text in sources().items():
        module = re.sub(r"^\w+/|\.py$", "", path).replace("/", ".")
        here = of_module.get(module, everything) | FOREIGN
        if "/service/formats/" in path:
            here = shared | FOREIGN
        for message in re.findall(r'"([^"\n]* [^"\n]*)"', text):
            alone = re.sub(r"(?:`|: )groundspeed [^`]*", "", message)
            options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", alone))
            unknown += [f"{path}: {option}: {message}" for option in options - here]
    assert unknown == []


def test_variables_and_extras_that_are_named_are_there() -> None:
    """Settings by docs/configuration.md, which is made from them; extras by pyproject.toml."""
    known = set(re.findall(r"GROUNDSPEED_[A-Z0-9_]+", (ROOT / "docs/configuration.md").read_text())) | OUTSIDE
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    everything = sources() | written()
    unknown = [
        f"{path}: {name}"
        for path, text in everything.items()
        for message in re.findall(r'"([^"\n]* [^"\n]*)"|`([^`\n]+)`', text)
        for name in re.findall(r"\bGROUNDSPEED_[A-Z0-9_]*[A-Z0-9]\b(?!_?[<{…])", " ".join(message))
        if name.removesuffix("_FILE") not in known
    ]
    unknown += [
        f"{path}: {extra}"
        for path, text in everything.items()
        for several in re.findall(r"groundspeed\[([a-z,-]+)\]", text)
        for extra in several.split(",")
        if extra not in {*extras, "bot"}  # the last is how GitHub writes the App's name
    ]
    assert unknown == []


def test_commands_of_comments_and_keys_of_the_configuration_that_are_named_are_there() -> None:
    everything = sources() | written()
    verbs = {verb for text in everything.values() for verb in re.findall(r"`/groundspeed ([a-z]+)", text)}
    assert verbs == set(VERBS)
    keys = {
        (section, key)
        for text in everything.values()
        for section, key in re.findall(r"\[\[?([a-z_]+)\]\]? ([a-z_]+)\b(?= =|\))", text)
    }
    assert len(keys) > 3
    assert [f"[{section}] {key}" for section, key in keys if key not in keys_of(section)] == []


def keys_of(section: str) -> set[str]:
    found = ProjectConfig.model_fields[section].annotation
    (model,) = [one for one in (found, *get_args(found)) if isinstance(one, type) and issubclass(one, Section)]
    return set(model.model_fields)


def test_configurations_in_the_documentation_can_be_used() -> None:
    """Each block with the sections that it does not show."""
    blocks = [
        (path, tomllib.loads(block))
        for path, text in written().items()
        for block in re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    ]
    sections = set(ProjectConfig.model_fields)
    shown = [(path, block) for path, block in blocks if set(block) <= sections and "entry-points" not in str(block)]
    assert len(shown) > 15
    for path, block in shown:
        whole = {"project": {"name": "x"}, "suite": [{"name": "x", "plugin": "command"}], **block}
        assert ProjectConfig.model_validate(whole), path
