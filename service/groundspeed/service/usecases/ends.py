"""The ends of attempts, many at once: those that went well in a handful of statements, the others one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Text, bindparam, exists, select, update
from sqlmodel import Session, col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.identities import core
from groundspeed.service.db.sets import among, one_of
from groundspeed.service.db.tables import RUNS, Attempt, JobSide
from groundspeed.service.errors import NotFound
from groundspeed.service.usecases import expiry, jobs
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.policy import Policy
from groundspeed.service.wire import v1

_HEAD = exists().where(col(JobSide.job_id) == col(Attempt.job_id), col(JobSide.role) == "head")
_OF = select(
    col(Attempt.id), col(Attempt.job_id), col(Attempt.state), col(Attempt.gang), _HEAD.correlate(Attempt)
).where(one_of(col(Attempt.id), among("ids", Text)))
_ROW = core(Attempt)
# Held in the order of their ids, as signs of life hold them.
_RUNNING = held(select(_ROW.c.id).where(one_of(_ROW.c.id, among("ids", Text)), RUNS).order_by(_ROW.c.id))
_SUCCEED = (
    update(_ROW)
    .where(_ROW.c.id.in_(_RUNNING))
    .values(state="succeeded", finished_at=bindparam("now"), error_kind="", error="")
    .returning(_ROW.c.id, _ROW.c.job_id)
)


@dataclass(frozen=True, slots=True)
class End:
    attempt_id: str
    message: v1.FinishRequest


@dataclass(frozen=True, slots=True)
class Ended:
    """``compares``: the job has a base and a head, so that verdicts follow."""

    ack: v1.Ack
    compares: bool = False


def answer(database: Database, ends: Sequence[End], now: datetime, policy: Policy) -> list[Ended | NotFound]:
    """End the attempts and move their jobs on; the answers stand in the order of ``ends``."""
    with database.transaction() as session:
        known = {row[0]: row for row in session.execute(_OF, {"ids": [end.attempt_id for end in ends]}).tuples()}
        plain = {
            end.attempt_id
            for end in ends
            if (row := known.get(end.attempt_id)) and row[2] == "running" and row[3] is None
            if end.message.state == "succeeded"
        }
        done = _succeed(session, {id_: known[id_][1] for id_ in plain}, now) if plain else set()
    answers: list[Ended | NotFound] = []
    for end in ends:
        found = known.get(end.attempt_id)
        if found is None:
            answers.append(NotFound(f"There is no attempt {end.attempt_id}.", "The job must be claimed first."))
        elif end.attempt_id in done and end.message.state == "succeeded":
            answers.append(Ended(v1.Ack(), found[4]))
        else:
            answers.append(Ended(_one(database, end, now, policy), found[4]))
    return answers


def _succeed(session: Session, attempts: dict[str, int], now: datetime) -> set[str]:
    """Jobs first, then attempts, then requests, as everywhere; returns the attempts that this ended."""
    jobs.hold(session, list(attempts.values()))
    ids = {"ids": sorted(attempts), "now": now}
    ended: dict[str, int] = dict(session.connection().execute(_SUCCEED, ids).tuples().all())
    if ended:
        jobs.succeed(session, list(ended.values()), now)
    return set(ended)


def _one(database: Database, end: End, now: datetime, policy: Policy) -> v1.Ack:
    """``ok`` False: the lease was lost before, and another attempt decides."""
    message = end.message
    with database.transaction() as session:
        attempt, job = expiry.attempt_and_job(session, end.attempt_id)
        if attempt.state != "running":
            same = attempt.state == message.state
            return v1.Ack(ok=same, reason=f"The attempt is already {attempt.state}.")
        expiry.end(session, attempt, message.state, now, message.error_kind, message.error)
        if attempt.rank and message.state == "succeeded":
            return v1.Ack(reason="Rank 0 ends the job.")
        expiry.follow(session, job, message, now, policy)
        return v1.Ack()
