"""Taking apart what others give as an address: Python's own function raises for some, here nothing is found in them."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

NOWHERE = SplitResult("", "", "", "", "")


def apart(address: str) -> SplitResult:
    """The parts of an address; of one that cannot be (half a bracket, a port that is no number) all are empty."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return NOWHERE
    return parts


def named(host: str | None) -> bool:
    """Whether this can be looked up: each part of a name has 1 to 63 characters."""
    try:
        return bool(host) and bool((host or "").encode("idna"))
    except UnicodeError:
        return False
