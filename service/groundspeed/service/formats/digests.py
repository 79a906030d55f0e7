"""Names of contents."""

from __future__ import annotations

import hashlib


def digest(content: bytes | memoryview, *more: str) -> str:
    """Ten hexadecimal digits that name a content."""
    state = hashlib.blake2b(content, digest_size=5)
    if more:
        state.update(("\0".join(more) + "\0").encode("utf-8", "replace"))
    return state.hexdigest()
