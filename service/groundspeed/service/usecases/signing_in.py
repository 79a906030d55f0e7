"""A sign-in under way: begun by a browser, remembered until it comes back, used once. And how often one may begin."""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlmodel import col

from groundspeed.service.db.account_tables import SignInStart, SignInTry
from groundspeed.service.db.engine import Database
from groundspeed.service.errors import Forbidden, TooMany
from groundspeed.service.usecases.tokens import digest

GOOD_FOR = timedelta(minutes=10)
_WINDOW = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Start:
    """What a sign-in was begun with: ``browser`` is the secret of its cookie, ``next`` the page to go to."""

    provider: str
    state: str
    browser: str
    nonce: str
    verifier: str
    next: str


def count(db: Database, source: str, now: datetime, limit: int) -> None:
    """Note one more try from this address; raises :class:`TooMany` beyond ``limit`` in a minute.

    The counts stand in the database, so that all processes of a service share them. IPv6 counts by its /64.
    """
    source = _network(source)
    with db.transaction() as session:
        session.execute(delete(SignInTry).where(col(SignInTry.at) <= now - GOOD_FOR))
        recent = select(func.count()).where(col(SignInTry.source) == source, col(SignInTry.at) > now - _WINDOW)
        if (session.scalar(recent) or 0) >= limit:
            raise TooMany("Too many sign-ins from this address.", "Wait a minute, then try again.", retry_s=60)
        session.add(SignInTry(source=source, at=now))


def _network(source: str) -> str:
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return source[:64]
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else str(address)


def begin(db: Database, start: Start, now: datetime) -> None:
    """Remember a sign-in until its browser comes back."""
    with db.transaction() as session:
        session.execute(delete(SignInStart).where(col(SignInStart.created_at) <= now - GOOD_FOR))
        session.add(
            SignInStart(
                sha256=digest(start.state),
                provider=start.provider,
                browser=digest(start.browser),
                nonce=start.nonce,
                verifier=start.verifier,
                next=start.next,
                created_at=now,
            )
        )


def come_back(db: Database, provider: str, state: str, browser: str, now: datetime) -> Start:
    """What was begun, which thereby is used up; raises :class:`Forbidden` for a state that is unknown, used, too old,
    another provider's or another browser's.
    """
    with db.transaction() as session:
        gone = delete(SignInStart).where(col(SignInStart.sha256) == digest(state)).returning(SignInStart)
        found = session.scalars(gone).one_or_none()
    good = (
        found is not None
        and found.created_at > now - GOOD_FOR
        and found.provider == provider
        and hmac.compare_digest(found.browser, digest(browser))
    )
    if found is None or not good:
        raise Forbidden("This sign-in was not begun here, or too long ago.", "Begin it again.")
    return Start(provider, state, browser, found.nonce, found.verifier, found.next)
