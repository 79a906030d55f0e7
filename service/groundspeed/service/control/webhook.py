"""Posting JSON to an address that the operator has named in the settings."""

from __future__ import annotations

from typing import Any

import httpx


def post(address: str, body: dict[str, Any], *, limit_s: float) -> str:
    """Why it failed; empty: the other side said yes (2xx). Redirects are not followed."""
    try:
        reply = httpx.post(address, json=body, timeout=limit_s)
    except httpx.HTTPError as error:
        return f"{type(error).__name__}: {error}"
    return "" if reply.is_success else f"it answered {reply.status_code}: {reply.text[:200]}"
