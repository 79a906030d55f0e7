"""The operator's own tooling, called for one node: a command of the service's machine, or a webhook.

Hooks are named in the service's settings and nowhere else: a campaign says which, never what. They may be called more
than once for a node and must do the same then. Their end says nothing about the node: that is what its fingerprint is
for.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.campaign_tables import Campaign, CampaignNode
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import Node
from groundspeed.service.usecases import outbox, topics
from groundspeed.service.usecases.locking import held

_KEPT = 500
_AGAIN_AFTER = timedelta(minutes=2)
Post = Callable[[str, dict[str, Any]], str]
"""Sends JSON to an address; returns why it failed, empty: it went well."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a hook is told. ``action``: "change" or "revert"."""

    campaign: str
    node: str
    action: str
    wave: int
    wanted: Mapping[str, str]
    labels: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        return {
            "campaign": self.campaign,
            "node": self.node,
            "action": self.action,
            "wave": self.wave,
            "wanted": dict(self.wanted),
            "labels": dict(self.labels),
        }


def run(database: Database, part_id: int, hooks: Mapping[str, str], post: Post, now: datetime, limit_s: float) -> None:
    """Call the hook that a node's part asks for; once it is under way a second message changes nothing."""
    claimed = _claim(database, part_id, now)
    if claimed is None:
        return
    name, call = claimed
    target = hooks.get(name)
    if target is None:
        why = f"there is no hook {name!r} in GROUNDSPEED_CAMPAIGN_HOOKS"
    elif target.startswith(("http://", "https://")):
        why = post(target, call.as_dict())
    else:
        why = _command(target, call, limit_s)
    with database.transaction() as session:
        part = _held(session, part_id)
        if part is not None and part.hook.get("state") == "running":
            part.hook = {**part.hook, "state": "failed" if why else "done", "why": why[:_KEPT]}
            session.add(part)


def forgotten(database: Database, now: datetime, limit_s: float) -> int:
    """Ask again for hooks whose message was lost, or whose process has been gone for longer than a hook may take."""
    with database.transaction() as session:
        query = select(CampaignNode).where(
            col(CampaignNode.state).in_(("upgrading", "reverting")), col(CampaignNode.state_at) < now - _AGAIN_AFTER
        )
        late = [part for part in session.scalars(held(query, skip=True)) if _is_late(part, now, limit_s)]
        for part in late:
            part.hook = {**part.hook, "state": "asked", "at": now.isoformat()}
            session.add(part)
            outbox.enqueue(session, topics.CAMPAIGN_HOOK, {"part_id": part.id})
        return len(late)


def _is_late(part: CampaignNode, now: datetime, limit_s: float) -> bool:
    state, at = part.hook.get("state"), part.hook.get("at")
    if state not in {"asked", "running"}:
        return False
    pause = _AGAIN_AFTER + timedelta(seconds=limit_s if state == "running" else 0.0)
    return at is None or datetime.fromisoformat(at) < now - pause


def _claim(database: Database, part_id: int, now: datetime) -> tuple[str, Call] | None:
    with database.transaction() as session:
        part = _held(session, part_id)
        if part is None or part.hook.get("state") != "asked":
            return None
        campaign, node = session.get_one(Campaign, part.campaign_id), session.get_one(Node, part.node_id)
        part.hook = {**part.hook, "state": "running", "at": now.isoformat()}
        session.add(part)
        call = Call(campaign.name, node.name, str(part.hook["action"]), part.wave, campaign.wanted, node.labels)
        return str(part.hook["name"]), call


def _held(session: Session, part_id: int) -> CampaignNode | None:
    found: CampaignNode | None = session.scalars(
        held(select(CampaignNode).where(col(CampaignNode.id) == part_id))
    ).one_or_none()
    return found


def _command(command: str, call: Call, limit_s: float) -> str:
    """Run by the shell, told by its environment and by JSON on standard input; returns why it failed."""
    told = {
        "GROUNDSPEED_CAMPAIGN": call.campaign,
        "GROUNDSPEED_NODE": call.node,
        "GROUNDSPEED_ACTION": call.action,
        "GROUNDSPEED_WAVE": str(call.wave),
    }
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command], input=json.dumps(call.as_dict()), env={**_plain_environment(), **told},
            capture_output=True, text=True, timeout=limit_s, check=False, errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"the command took longer than {limit_s:g} s"
    except OSError as error:
        return f"the command could not be started: {error}"
    last = (done.stderr or done.stdout).strip().splitlines()[-3:]
    return "" if done.returncode == 0 else f"the command ended with status {done.returncode}: {' | '.join(last)}"


def _plain_environment() -> dict[str, str]:
    """The service's own settings, secrets among them, are not the hook's."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GROUNDSPEED_")}
