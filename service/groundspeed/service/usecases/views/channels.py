"""Channels as they are shown."""

from __future__ import annotations

from sqlalchemy import select
from sqlmodel import col

from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Project
from groundspeed.service.usecases.notifications import channels
from groundspeed.service.wire import views as v


def channel_list(db: Database, *, mail: bool) -> v.ChannelList:
    with db.read() as session:
        slugs = session.scalars(select(col(Project.slug)).order_by(col(Project.slug))).all()
        rows = channels.listed(session)
    return v.ChannelList(
        rows=tuple(
            v.ChannelRow(
                id=one.id or 0,
                name=one.name,
                kind=one.kind,
                where=channels.shown(one.kind, one.target),
                project=slug or "",
                events=tuple(one.events),
                digest=one.digest,
                own_template=bool(one.template),
                signed=bool(one.secret),
                enabled=one.enabled,
                last=last,
                error=error,
                created_at=one.created_at,
            )
            for one, slug, last, error in rows
        ),
        kinds=channels.KINDS,
        events=tuple(channels.EVENTS.items()),
        digests=channels.DIGESTS,
        projects=tuple(slugs),
        mail=mail,
    )
