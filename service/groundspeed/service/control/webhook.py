"""Posting JSON to an address that the operator has named in the settings."""

from __future__ import annotations

import json
from typing import Any

from groundspeed.service import posting


def post(address: str, body: dict[str, Any], *, limit_s: float) -> str:
    """Why it failed; empty: the other side said yes (2xx). Redirects are not followed."""
    try:
        reply = posting.post(address, json.dumps(body).encode(), {"Content-Type": "application/json"}, limit_s)
    except posting.NoAnswerError as error:
        return f"no answer: {error}"
    return "" if reply.yes else f"it answered {reply.status}: {reply.text[:200]}"
