"""Names of messages that several use cases send."""

from __future__ import annotations

ANALYSE = "groundspeed.control.analyse"
"""Series have news: look at them."""
