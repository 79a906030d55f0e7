"""How far work that goes on by itself has come, from one tick to the next."""

from __future__ import annotations

from sqlmodel import Session

from groundspeed.service.db.tables import Bookmark


def bookmark(session: Session, name: str) -> Bookmark:
    """The bookmark of that name; a new one is at place 0."""
    found = session.get(Bookmark, name)
    if found is None:
        found = Bookmark(name=name, place=0)
        session.add(found)
        session.flush()
    return found
