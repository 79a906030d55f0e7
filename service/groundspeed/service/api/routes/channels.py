"""Channels for programs: who is told of what."""

from __future__ import annotations

from datetime import datetime

from fastapi import APIRouter

from groundspeed.service.api.access import Admin, Id, Now
from groundspeed.service.api.routes.loaders import Db
from groundspeed.service.db.engine import Database
from groundspeed.service.notify import render
from groundspeed.service.usecases.notifications import channels
from groundspeed.service.wire import v1
from groundspeed.service.wire import views as v

router = APIRouter(prefix="/api/v1", tags=["notifications"])


@router.post("/channels", status_code=201, summary="Have somebody told: e-mail, Slack-compatible or any webhook.")
def post_channel(message: v.NewChannel, db: Db, who: Admin, now: Now) -> v.MadeChannel:
    return v.MadeChannel(id=add(db, message, now, who.name))


def add(db: Database, message: v.NewChannel, now: datetime, actor: str) -> int:
    render.check(message.template)
    return channels.add(db, channels.New(**message.model_dump()), now, actor)


@router.post("/channels/{channel_id}", summary="Pause, resume, delete or test a channel.")
def act_on_channel(channel_id: Id, message: v.ChannelAction, db: Db, who: Admin, now: Now) -> v1.Ack:
    act(db, channel_id, message.action, now, who.name)
    return v1.Ack()


def act(db: Database, channel_id: int, action: str, now: datetime, actor: str) -> None:
    if action == "test":
        channels.ask_test(db, channel_id, now, actor)
    else:
        channels.change(db, channel_id, action, now, actor)
