"""People: who a provider says they are, which role that gives, and the browsers that they are signed in with."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete, func, select
from sqlmodel import Session, col

from groundspeed.service.db.account_tables import Account, SignedIn
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry
from groundspeed.service.errors import Conflict, Forbidden, Invalid, NotFound
from groundspeed.service.usecases.locking import held
from groundspeed.service.usecases.principals import ROLES, Principal, rank
from groundspeed.service.usecases.tokens import digest

RESERVED = frozenset({"local", "groundspeed", "settings", "anonymous", "admin"})
"""Names that history uses for others."""
_NOT_IN_HANDLES = re.compile(r"[^\w.@+-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a provider vouches for. ``email`` only when it has been verified; ``subject`` never changes."""

    provider: str
    subject: str
    login: str
    name: str = ""
    email: str = ""
    groups: tuple[str, ...] = ()


def role_by(rules: Mapping[str, str], who: Identity) -> str:
    """The highest role whose rule fits; "none" when none does. Names of people and domains in any case."""
    keys = {"*", *(f"group:{group}" for group in who.groups)}
    if who.provider == "github":
        keys |= {f"github:{who.login.lower()}", f"github-id:{who.subject}"}
    elif who.email:
        keys.add(f"oidc:{who.email.lower()}")
    if "@" in who.email:
        keys.add("@" + who.email.rpartition("@")[2].lower())
    fits = [role for key, role in rules.items() if (key if key.startswith("group:") else key.lower()) in keys]
    return max(fits, key=rank, default="none")


def sign_in(db: Database, who: Identity, rules: Mapping[str, str], now: datetime, lasts: timedelta) -> str:
    """Let a person in, known or new; returns the secret for their browser's cookie.

    The role follows the rules at each sign-in, unless an admin gave one by hand. Raises :class:`Forbidden` for an
    account that an admin has closed.
    """
    secret = secrets.token_urlsafe(32)
    with db.transaction() as session:
        query = select(Account).where(col(Account.provider) == who.provider, col(Account.subject) == who.subject)
        account = session.scalars(held(query)).one_or_none() or _new(session, who, now)
        if account.disabled:
            raise Forbidden(f"The account {account.handle} is closed.", "Ask an admin to open it again.")
        role = role_by(rules, who) if account.role_from == "rules" else account.role
        if role != account.role:
            _note(session, account, "account.role", "settings", now, {"from": account.role, "to": role})
        account.role, account.signed_in_at = role, now
        account.login, account.name, account.email = who.login[:200], who.name[:200], who.email[:320]
        session.add(account)
        session.execute(delete(SignedIn).where(col(SignedIn.expires_at) <= now))
        session.add(SignedIn(sha256=digest(secret), account_id=account.id or 0, created_at=now, expires_at=now + lasts))
        _note(session, account, "account.sign-in", account.handle, now)
    return secret


def _new(session: Session, who: Identity, now: datetime) -> Account:
    account = Account(
        provider=who.provider, subject=who.subject, handle=_handle(session, who), created_at=now, signed_in_at=now
    )
    session.add(account)
    session.flush()
    return account


def _handle(session: Session, who: Identity) -> str:
    """The login, or with a number behind it when somebody else has that name."""
    wished = _NOT_IN_HANDLES.sub("-", who.login or who.email or who.subject).strip("-")[:100] or "someone"
    taken = set(session.scalars(select(func.lower(col(Account.handle))))) | RESERVED
    return next(
        name for name in (wished, *(f"{wished}-{n}" for n in range(2, len(taken) + 3))) if name.lower() not in taken
    )


def signed_in(db: Database, secret: str, now: datetime) -> Principal | None:
    """Who a browser's cookie is; None for one that is unknown, over, or whose account is closed."""
    query = (
        select(Account)
        .join(SignedIn, col(SignedIn.account_id) == col(Account.id))
        .where(col(SignedIn.sha256) == digest(secret), col(SignedIn.expires_at) > now, col(Account.disabled).is_(False))
    )
    with db.read() as session:
        account = session.scalars(query).one_or_none()
    return Principal(account.handle, account.role, kind="account", account=account.id) if account is not None else None


def sign_out(db: Database, secret: str, now: datetime, *, everywhere: bool = False) -> None:
    """End this browser's sign-in, or all of its account's; nothing happens when it has ended already."""
    with db.transaction() as session:
        found = session.get(SignedIn, digest(secret))
        if found is None:
            return
        mine = col(SignedIn.account_id) == found.account_id
        session.execute(delete(SignedIn).where(mine if everywhere else col(SignedIn.sha256) == found.sha256))
        if (account := session.get(Account, found.account_id)) is not None:
            _note(session, account, "account.sign-out", account.handle, now, {"everywhere": everywhere})


def change(
    db: Database, account_id: int, now: datetime, actor: str, *, role: str | None = None, disabled: bool | None = None
) -> None:
    """Give a role by hand ("rules" goes back to the rules at the next sign-in), close or open an account.

    Closing ends its sign-ins at once. Raises :class:`NotFound`, :class:`Invalid`, :class:`Conflict` when no admin would
    be left.
    """
    if role is not None and role not in {*ROLES, "none", "rules"}:
        raise Invalid(f"{role!r} is no role.", f"Use one of {', '.join(ROLES)}, none or rules.")
    with db.transaction() as session:
        account = session.scalars(held(select(Account).where(col(Account.id) == account_id))).one_or_none()
        if account is None:
            raise NotFound(f"There is no account {account_id}.", "The list of accounts has them all.")
        before = {"role": account.role, "role_from": account.role_from, "disabled": account.disabled}
        if role is not None:
            account.role_from = "rules" if role == "rules" else "hand"
            account.role = account.role if role == "rules" else role
        account.disabled = account.disabled if disabled is None else disabled
        after = {"role": account.role, "role_from": account.role_from, "disabled": account.disabled}
        if after == before:
            return
        session.add(account)
        session.flush()
        _keep_an_admin(session, before["role"] == "admin")
        if account.disabled:
            session.execute(delete(SignedIn).where(col(SignedIn.account_id) == account_id))
        changed = {name: value for name, value in after.items() if before[name] != value}
        _note(session, account, "account.change", actor, now, changed)


def _keep_an_admin(session: Session, was_admin: bool) -> None:
    left = select(func.count()).where(col(Account.role) == "admin", col(Account.disabled).is_(False))
    if was_admin and not session.scalar(left):
        raise Conflict("No account with the role admin would be left.", "Give it to somebody else first.")


def by_handle(db: Database, handle: str) -> int:
    """The account of that name; raises :class:`NotFound`."""
    with db.read() as session:
        found = session.scalar(select(col(Account.id)).where(func.lower(col(Account.handle)) == handle.lower()))
    if found is None:
        raise NotFound(f"There is no account {handle!r}.", "See: groundspeed account list")
    return found


def _note(
    session: Session, account: Account, action: str, actor: str, now: datetime, data: Mapping[str, object] | None = None
) -> None:
    session.add(
        AuditEntry(
            actor=actor,
            action=action,
            subject_type="account",
            subject_id=account.handle,
            data=dict(data or {}),
            at=now,
        )
    )
