"""The message that has it looked at what people are to be told."""

from __future__ import annotations

from sqlmodel import Session

from groundspeed.service.usecases import outbox, topics


def hint(session: Session) -> None:
    """Something happened that people may want to know: have it looked at soon after the commit."""
    outbox.enqueue(session, topics.NOTIFY, {})
