"""Loaders of the pages about pull requests."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from groundspeed.service.api.access import PartsDep
from groundspeed.service.api.routes.loaders import Db
from groundspeed.service.forge.manifest import web_url
from groundspeed.service.usecases.pulls import view
from groundspeed.service.wire import pulls as p

Number = Annotated[int, Path(ge=-(2**31), lt=2**31)]


def load_pulls(db: Db, parts: PartsDep, slug: str) -> p.PullList:
    return view.pulls(db, slug, web_url(parts.settings.github_api_url))


def load_pull(db: Db, parts: PartsDep, slug: str, number: Number) -> p.PullPage:
    return view.pull(db, slug, number, web_url(parts.settings.github_api_url))
