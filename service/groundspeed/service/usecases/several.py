"""One thing for several regressions at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from groundspeed.service.db.engine import Database
from groundspeed.service.errors import GroundspeedError, Invalid
from groundspeed.service.usecases import regressions
from groundspeed.service.usecases.triage import PEOPLE

ACTIONS = (*PEOPLE, "merge", "assign", "ignore")


def act(
    db: Database,
    ids: Sequence[int],
    action: str,
    now: datetime,
    *,
    actor: str,
    assignee: str = "",
    ignore_until: str = "",
) -> None:
    """A state for each, a merge into the oldest, an assignee, or ignore them until something comes.

    Those that it can be done with are done even when it cannot with others; then the first error is raised, saying so.
    """
    chosen = sorted(set(ids))
    if not chosen:
        raise Invalid("No regression is chosen.", "Tick the rows first.")
    if action not in ACTIONS:
        raise Invalid(f"{action!r} cannot be done with regressions.", f"Use one of: {', '.join(ACTIONS)}.")
    if action == "merge":
        regressions.merge(db, chosen[1:], chosen[0], now, actor=actor)
        return
    failed: list[GroundspeedError] = []
    for one in chosen:
        try:
            if action in PEOPLE:
                regressions.set_state(db, one, action, now, actor=actor)
            else:
                field = {"assign": {"assignee": assignee}, "ignore": {"ignore_until": ignore_until}}[action]
                regressions.edit(db, one, field, now, actor=actor)
        except GroundspeedError as error:
            failed.append(error)
    if failed:
        first = failed[0]
        raise type(first)(f"{len(chosen) - len(failed)} were changed, {len(failed)} not: {first.title}", first.advice)
