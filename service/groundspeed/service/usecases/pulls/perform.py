"""One action towards the forge, from taking it to noting how it went."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

from groundspeed.service.domain.pulls.forge import ForgeRefused, ForgeUnavailable
from groundspeed.service.errors import GroundspeedError
from groundspeed.service.usecases.pulls import answer, bisect, commands, issues, outgoing
from groundspeed.service.usecases.pulls.outgoing import Claim, Desk

log = logging.getLogger(__name__)
_BISECT_EVERY = timedelta(seconds=3)


def perform(desk: Desk, action_id: int, now: datetime) -> bool:
    """Do an action whose time has come; False when there was nothing to do, or it is not finished."""
    claimed = outgoing.claim(desk.database, action_id, now)
    if claimed is None:
        return False
    try:
        desk.forge.know(claimed.repository, outgoing.installation(desk.database, claimed.repository_id))
        finished = _act(desk, claimed, now)
    except (ForgeUnavailable, ForgeRefused, GroundspeedError) as error:
        log.warning("%s for %s: %s", claimed.kind, claimed.repository, error)
        outgoing.failed(desk.database, claimed, error, datetime.now(UTC), desk.patience)
        return False
    except Exception as error:
        log.exception("%s for %s", claimed.kind, claimed.repository)
        outgoing.failed(desk.database, claimed, error, datetime.now(UTC), desk.patience)
        return False
    if finished:
        outgoing.done(desk.database, claimed, datetime.now(UTC))
    else:
        outgoing.later(desk.database, claimed, datetime.now(UTC) + _BISECT_EVERY)
    return finished


def _act(desk: Desk, claimed: Claim, now: datetime) -> bool:
    """Whether the action is finished."""
    if claimed.kind == "bisect":
        return bisect.step(desk, claimed, now)
    if claimed.kind == "answer":
        answer.give(desk, claimed, now)
    elif claimed.kind == "command":
        commands.carry_out(desk, claimed, now)
    elif claimed.kind == "issue":
        issues.tell(desk, claimed)
    return True
