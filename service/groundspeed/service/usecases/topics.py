"""Names of the messages that use cases leave for the control worker: the tasks that take them."""

from __future__ import annotations

ANALYSE = "groundspeed.control.analyse"
"""Series have news: look at them."""
PLAN = "groundspeed.control.plan"
"""A request waits for its jobs."""
FOLLOW_UP = "groundspeed.control.followup"
"""A project may want commits measured that nobody asked for."""
ANSWERED = "groundspeed.control.answered"
"""The last job of a request has ended."""
WATCH = "groundspeed.control.watch"
"""A repository may have new commits."""
NOTIFY = "groundspeed.control.tell"
"""Something happened that people may want to know."""
CAMPAIGN_HOOK = "groundspeed.control.campaign_hook"
"""A node of a campaign is to be changed."""
