"""Tables of who is told what: channels, and each thing that a channel is to be told."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, UniqueConstraint
from sqlmodel import Field, SQLModel

from groundspeed.service.db.columns import big_id, json_column, time_column, time_or_none


class Channel(SQLModel, table=True):
    """Somewhere that people are told: e-mail addresses, a Slack-compatible webhook, a webhook for programs."""

    id: int | None = Field(default=None, primary_key=True)
    project_id: int | None = Field(default=None, foreign_key="project.id", index=True)
    """None: every project."""
    name: str = Field(unique=True, max_length=100)
    kind: str = Field(max_length=20)  # email, slack, webhook
    target: str
    """Addresses separated by commas, or an address to post to."""
    secret: str = ""
    """Signs what is posted to a webhook."""
    events: list[str] = json_column(list)
    digest: str = "off"  # off, hourly, daily, weekly
    template: str = ""
    """Text for people in place of the built-in one; "" is that one."""
    enabled: bool = True
    created_at: datetime = time_column()


class Notification(SQLModel, table=True):
    """One thing that one channel is to be told; the key makes saying it twice a no-op."""

    __table_args__ = (
        UniqueConstraint("channel_id", "key"),
        Index("ix_notification_due", "state", "not_before"),
    )
    id: int | None = big_id()
    channel_id: int = Field(foreign_key="channel.id", index=True)
    regression_id: int | None = Field(default=None, foreign_key="regression.id", index=True)
    key: str = Field(max_length=200)
    event: str = Field(max_length=40)
    facts: dict[str, Any] = json_column()
    """What there was to say when it happened."""
    state: str = "pending"  # pending, sent, failed
    batch: str = Field(default="", max_length=60, index=True)
    """Those that went, or are to go, out together; the receiver can tell a repeat by it."""
    tries: int = 0
    error: str = ""
    not_before: datetime = time_column()
    created_at: datetime = time_column()
    sent_at: datetime | None = time_or_none()
