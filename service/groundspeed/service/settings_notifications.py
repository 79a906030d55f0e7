"""Settings of how people are told. They are part of :class:`groundspeed.service.settings.Settings`."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings


class NotificationSettings(BaseSettings):
    """The mail server, and how old a commit may be for people to be told of it."""

    smtp_url: SecretStr = Field(
        SecretStr(""),
        description="Mail server, smtp://user:password@host:587 (STARTTLS when it offers that) or smtps://host:465.",
    )
    mail_from: str = Field("Groundspeed <groundspeed@localhost>", description="Sender of e-mail.")
    notify_max_age_days: Annotated[float, Field(gt=0)] = Field(
        14.0, description="A regression whose commit is older (an imported history) is shown, and nobody is told of it."
    )

    @field_validator("smtp_url")
    @classmethod
    def _server(cls, value: SecretStr) -> SecretStr:
        url = urlsplit(value.get_secret_value())
        if value.get_secret_value() and (url.scheme not in {"smtp", "smtps"} or not url.hostname):
            raise ValueError("give smtp://host:port or smtps://host:port")
        return value
