"""Where people and programs are told, and of what."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field

from groundspeed.service.wire.views.parts import View


class ChannelRow(View):
    id: int
    name: str
    kind: str
    where: str
    """Addresses, or the host that is posted to: the rest of that address is a secret."""
    project: str
    """"": all of them."""
    events: tuple[str, ...]
    digest: str
    own_template: bool
    signed: bool
    enabled: bool
    last: str
    """What became of the newest thing told: pending, sent, failed; "" when there was none."""
    error: str
    created_at: datetime


class ChannelList(View):
    rows: tuple[ChannelRow, ...]
    kinds: tuple[str, ...]
    events: tuple[tuple[str, str], ...]
    """Name and meaning."""
    digests: tuple[str, ...]
    projects: tuple[str, ...]
    mail: bool
    """Whether a mail server is set."""


class NewChannel(View):
    """Somewhere to be told. What is told is described in docs/notifications.md."""

    name: Annotated[str, Field(min_length=1, max_length=100, examples=["team"])]
    kind: Annotated[str, Field(max_length=20, examples=["slack"])]
    target: Annotated[str, Field(max_length=2000, examples=["https://hooks.slack.com/services/T0/B0/x"])]
    project: Annotated[str, Field(max_length=100, examples=["tinygpt"])] = ""
    events: Annotated[tuple[str, ...], Field(max_length=20)] = ("regression", "recovered", "again", "over")
    digest: Annotated[str, Field(max_length=20, examples=["daily"])] = "off"
    template: Annotated[str, Field(max_length=10_000)] = ""
    secret: Annotated[str, Field(max_length=500)] = ""


class MadeChannel(View):
    id: int


class ChannelAction(View):
    action: Annotated[str, Field(max_length=20, examples=["pause", "resume", "delete", "test"])]
