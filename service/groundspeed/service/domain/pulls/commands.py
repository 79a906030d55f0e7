"""``/groundspeed …`` in a comment: what was asked, or in words why it was not understood. Pure."""

from __future__ import annotations

import difflib
import re
import shlex
from dataclasses import dataclass
from typing import Literal

Verb = Literal["run", "cancel", "approve", "accept", "bisect", "help"]
VERBS: tuple[Verb, ...] = ("run", "cancel", "approve", "accept", "bisect", "help")
PREFIX = "/groundspeed"
_MAX_LINE = 500
_SHA = re.compile(r"[0-9a-f]{7,64}")

HELP = """\
- `/groundspeed run [suite] [on pool] [against ref]`: measure this pull request again
- `/groundspeed cancel`: stop what is running or waiting for it
- `/groundspeed approve [commit]`: let this head commit of a stranger run (maintainers)
- `/groundspeed accept "reason"`: a regression is intended (maintainers)
- `/groundspeed bisect`: find the commit inside this pull request
- `/groundspeed help`: this list"""


@dataclass(frozen=True, slots=True)
class Command:
    verb: Verb
    suite: str | None = None
    pool: str | None = None
    against: str | None = None
    reason: str = ""
    sha: str = ""
    """The head that is approved, or how its name begins; empty: the one that approval was asked for."""


@dataclass(frozen=True, slots=True)
class Misunderstood:
    """``answer`` is said to the author, in words."""

    answer: str


def read_command(body: str) -> Command | Misunderstood | None:
    r"""The first command of a comment; None when there is none.

    A command is a line of its own that begins with ``/groundspeed``. Quoted lines and code blocks do not count, so
    that repeating somebody's comment does not repeat the command.

    >>> read_command("please\n/groundspeed run train on h200 against v1.2")
    Command(verb='run', suite='train', pool='h200', against='v1.2', reason='', sha='')
    """
    fenced = False
    for raw in body.splitlines():
        line = raw.strip()
        if line.startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced and (line == PREFIX or line.startswith((PREFIX + " ", PREFIX + "\t"))):
            return _parse(line[len(PREFIX) : _MAX_LINE].strip())
    return None


def _parse(text: str) -> Command | Misunderstood:
    try:
        words = shlex.split(text)
    except ValueError:
        return Misunderstood("There is a quotation mark without its partner.\n\n" + HELP)
    if not words:
        return Command("help")
    name, rest = words[0].lower(), words[1:]
    verb = next((v for v in VERBS if v == name), None)
    if verb is None:
        near = difflib.get_close_matches(name, VERBS, 1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        return Misunderstood(f"That command is not known.{hint}\n\n{HELP}")
    return _with_arguments(verb, rest)


def _with_arguments(verb: Verb, rest: list[str]) -> Command | Misunderstood:
    if verb == "run":
        return _run(rest)
    if verb == "accept":
        reason = " ".join(rest).strip()
        return Command("accept", reason=reason) if reason else Misunderstood(_WHY)
    if verb == "approve" and len(rest) == 1:
        sha = rest[0].lower()
        return Command("approve", sha=sha) if _SHA.fullmatch(sha) else Misunderstood(_COMMIT)
    if rest:
        return Misunderstood(f"`{verb}` takes nothing after it.\n\n{HELP}")
    return Command(verb)


_WHY = 'Say why it is intended: `/groundspeed accept "the new sampler does more work"`.'


_COMMIT = "A commit is named by 7 to 64 hexadecimal digits: `/groundspeed approve 1a2b3c4d5e6f`."


def _run(words: list[str]) -> Command | Misunderstood:
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name = {"on": "pool", "against": "against"}.get(word.lower(), "suite")
        if name != "suite":
            if not rest:
                return Misunderstood(f"`{word}` needs a name after it.\n\n{HELP}")
            word = rest.pop(0)
        if name in found:
            return Misunderstood(f"Two values are given for {name}; one is allowed.\n\n{HELP}")
        if not _plain(word):
            return Misunderstood("Names hold letters, digits, `.`, `_`, `/` and `-` only.")
        found[name] = word
    return Command("run", **found)


def _plain(word: str) -> bool:
    return len(word) <= 200 and not word.startswith("-") and all(c.isalnum() or c in "._/-" for c in word)
