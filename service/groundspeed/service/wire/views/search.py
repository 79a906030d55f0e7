"""What a search finds."""

from __future__ import annotations

from typing import Literal

from groundspeed.service.wire.views.parts import View


class Hit(View):
    kind: Literal["project", "series", "revision", "request", "regression", "node", "pull request"]
    title: str
    detail: str
    url: str


class SearchResults(View):
    query: str
    hits: tuple[Hit, ...]
