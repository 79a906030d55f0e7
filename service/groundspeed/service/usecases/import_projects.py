"""One import is of one project: sources that name the projects of their results are held to it.

A database of codespeed, a list of Conbench's or records of the HUD can hold several, with other commits each.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from groundspeed.service.formats import codespeed, conbench, csv_table, detect, pytorch_hud
from groundspeed.service.formats.csv_table import ColumnMap
from groundspeed.service.formats.records import Item, Record, Refused, Skipped
from groundspeed.service.formats.source import Document

ALL = "*"
_NAMING = frozenset({codespeed.NAME, conbench.NAME, pytorch_hud.NAME})
"""Formats whose results say of which project they are, each for itself."""
_SHOWN = 12


class OneProject:
    """Lets through what is of one project. ``wanted`` is its name in the sources; empty: the only one that they name.

    Names are compared without case; of a repository's address its end (``owner/name`` or ``name``) will do.
    """

    def __init__(self, wanted: str = "") -> None:
        self._wanted = wanted
        self._found = ""

    def only(self, document: Document, form: str = "", mapping: ColumnMap | None = None) -> Iterator[Item]:
        """The items of a document; they are read twice where they may be of several projects. ``mapping`` is for tables
        among them.

        Raises :class:`Refused` when they are of several, or of another than those of the documents before.
        """
        if detect.is_table(document, mapping, form):
            yield from csv_table.parse(document, mapping)
            return
        name = form or detect.detect(document).name
        if name not in _NAMING or self._wanted == ALL:
            yield from detect.parse(document, name)
            return
        held = Counter(
            _plain(i.origin.project) for i in detect.parse(document, name) if isinstance(i, Record) and i.origin.project
        )
        if not self._wanted:
            self._check(held, document)
            yield from detect.parse(document, name)
            return
        if held and not any(self._is_wanted(project) for project in held):
            raise Refused(
                f'holds nothing of the project "{self._wanted}", but of {_list(held)}.', document.where(), _ADVICE
            )
        for item in detect.parse(document, name):
            if held and isinstance(item, Record) and not self._is_wanted(_plain(item.origin.project)):
                yield Skipped("is not of the project that --project-from names", item.where)
            else:
                yield item

    def _check(self, held: Counter[str], document: Document) -> None:
        if len(held) > 1:
            raise Refused(f"holds results of {len(held)} projects: {_list(held)}.", document.where(), _ADVICE)
        for project in held:
            if self._found not in {"", project}:
                raise Refused(
                    f'is of the project "{project}", and what came before of "{self._found}".',
                    document.where(),
                    _ADVICE,
                )
            self._found = project

    def _is_wanted(self, project: str) -> bool:
        wanted = _plain(self._wanted)
        return project == wanted or project.endswith(f"/{wanted}")


_ADVICE = "`groundspeed import --project-from NAME` takes one of them, each into a project of its own; * takes all."


def _plain(project: str) -> str:
    """A name or a repository's address as they are compared."""
    text = re.sub(r"^(?:\w+://|git@)", "", project.strip().lower()).replace(":", "/")
    return text.rstrip("/").removesuffix(".git")


def _list(held: Counter[str]) -> str:
    shown = [f"{project} ({count})" for project, count in held.most_common(_SHOWN)]
    return ", ".join(shown) + (f" and {len(held) - _SHOWN} more" if len(held) > _SHOWN else "")
