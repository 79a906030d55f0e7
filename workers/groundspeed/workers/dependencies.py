"""What an install command depends on, and whether the node's torch satisfies what a project asks for."""

from __future__ import annotations

import hashlib
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from groundspeed.workers.stack import Stack, is_gpu_name, requirements

_EXPANDED = re.compile(r"[$`*?{}\n]")
_OPERATOR = re.compile(r"^[();<>|&]+$")
_FILE_OPTIONS = {"-r", "--requirement", "-c", "--constraint"}
_VALUE_OPTIONS = {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-binary", "--only-binary"}


def dependency_key(commands: Iterable[str], source: Path) -> str | None:
    """Content that the commands read besides themselves, hashed; None when that may be the whole tree.

    Only plain ``pip install`` of named packages and of requirement files that name packages is understood: then the
    environment is the same for every revision with the same files. Anything else is built anew for each tree.
    """
    digest = hashlib.sha256()
    for command in commands:
        digest.update(f"$ {command}\n".encode())
        files = _files_read(command, source)
        if files is None:
            return None
        for path in files:
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError):
                return None
            if not _names_packages_only(text):
                return None
            digest.update(f"{path.relative_to(source)}\n{text}\n".encode())
    return digest.hexdigest()[:20]


def _files_read(command: str, source: Path) -> list[Path] | None:
    arguments = _pip_install(_words(command))
    if arguments is None:
        return None
    files: list[Path] = []
    waiting = iter(arguments)
    for word in waiting:
        option, equals, value = word.partition("=")
        if option in _FILE_OPTIONS:
            files.append(source / (value if equals else next(waiting, "")))
        elif option in _VALUE_OPTIONS:
            if not equals:
                next(waiting, "")
        elif word.startswith("-"):
            if word in {"-e", "--editable", "-t", "--target"}:
                return None
        elif "/" in word or word.startswith(".") or (source / word).exists():
            return None
    inside = all(path.resolve().is_relative_to(source.resolve()) for path in files)
    return files if inside else None


def _words(command: str) -> list[str]:
    """The words of a simple shell command; none for one that the shell would do more with."""
    if _EXPANDED.search(command):
        return []
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return []
    return [] if any(_OPERATOR.match(word) for word in words) else words


def _pip_install(words: list[str]) -> list[str] | None:
    """The arguments of a pip (or uv pip) install command, None for any other command."""
    for start in (
        ["pip", "install"],
        ["pip3", "install"],
        ["uv", "pip", "install"],
        ["python", "-m", "pip", "install"],
    ):
        if words[: len(start)] == start:
            return words[len(start) :]
    return None


def _names_packages_only(text: str) -> bool:
    for line in text.splitlines():
        line = line.split(" #")[0].strip()  # noqa: PLW2901 - the comment is no part of it
        if line and not line.startswith("#") and not re.match(r"^[A-Za-z0-9]|^--hash|^--(extra-)?index-url", line):
            return False
        if "://" in line and "@" in line and "file:" in line:
            return False
    return True


def unmet(stack: Stack, source: Path, commands: Iterable[str]) -> str:
    """What the project asks of torch and its family and the node does not offer, naming both versions; or empty."""
    for where, requirement in _declared(source, commands):
        words = unmet_requirement(stack, where, requirement)
        if words:
            return words
    return ""


def unmet_requirement(stack: Stack, where: str, requirement: Requirement) -> str:
    """Why the node's stack does not do, in words; empty where it does, and for what is not of torch's family."""
    name = canonicalize_name(requirement.name)
    if not is_gpu_name(name):
        return ""
    offered = stack.shared.get(name)
    if offered is None:
        return (
            f"{where} requires {requirement}, and this node's stack has no {requirement.name}: install it for "
            f"{stack.executable}, choose a node that has it, or set allow_torch = true under [build]."
        )
    if requirement.specifier.contains(offered.version, prereleases=True):
        return ""
    return (
        f"{where} requires {requirement}, and this node offers {offered.name} {offered.version}: choose a node whose "
        "stack has it, or set allow_torch = true under [build] to let the build bring its own."
    )


def _declared(source: Path, commands: Iterable[str]) -> Iterator[tuple[str, Requirement]]:
    """Requirements of pyproject.toml and of the packages and requirement files that the commands name."""
    for line in _project_dependencies(source / "pyproject.toml"):
        yield from ((f"pyproject.toml of this revision ({source.name})", r) for r in requirements([line]))
    for command in commands:
        arguments = _pip_install(_words(command)) or []
        for previous, word in zip(["", *arguments], arguments, strict=False):
            if previous in {"-r", "--requirement"}:
                yield from _from_file(source / word)
            elif re.match(r"^[A-Za-z0-9]", word) and not (source / word).exists() and previous not in _VALUE_OPTIONS:
                yield from ((f"the command {command!r}", r) for r in _readable(word))


def _from_file(path: Path) -> Iterator[tuple[str, Requirement]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        if re.match(r"^[A-Za-z0-9]", line):
            yield from ((path.name, r) for r in _readable(line.split(" #")[0].split(" --hash")[0].strip()))


def _readable(text: str) -> list[Requirement]:
    try:
        Requirement(text)
    except InvalidRequirement:
        return []
    return requirements([text])


def _project_dependencies(path: Path) -> list[str]:
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
        return [line for line in project.get("dependencies", []) if isinstance(line, str)]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError, TypeError):
        return []
