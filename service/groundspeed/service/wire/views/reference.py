"""The API as a page."""

from __future__ import annotations

from groundspeed.service.wire.views.parts import View


class ApiParameter(View):
    name: str
    place: str
    """path, query or header."""
    required: bool
    text: str


class ApiOperation(View):
    method: str
    path: str
    tag: str
    summary: str
    parameters: tuple[ApiParameter, ...]
    example: str
    """A body, as JSON; "" for none."""


class ApiPage(View):
    operations: tuple[ApiOperation, ...]
