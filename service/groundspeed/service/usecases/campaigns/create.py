"""A new campaign: what is to change, on which nodes, measured with what, in which waves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import select as select_rows
from sqlmodel import Session, col

from groundspeed.service.config.checks import near
from groundspeed.service.db.campaign_tables import Campaign, CampaignNode
from groundspeed.service.db.engine import Database
from groundspeed.service.db.tables import AuditEntry, Node, Project
from groundspeed.service.domain.campaigns import waves
from groundspeed.service.errors import Conflict, Invalid
from groundspeed.service.repo import Mirrors
from groundspeed.service.usecases import configuration, requests, revisions, specs
from groundspeed.service.usecases.campaigns import select, state
from groundspeed.service.usecases.locking import held

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
_MOST_NODES = 5000
_LONGEST_S = 90 * 86_400.0
_OPEN = ("running", "held")


LEAST_NODES = 3
"""Fewer give no interval."""
_MAY_BE_NEW = ("env.", "package.")
"""Facets that a change may bring that were not there before."""


@dataclass(frozen=True, slots=True)
class New:
    """``wanted``: facet → value ("gpu.driver": "580"). ``where``: labels; ``nodes``: names; both: both must hold.

    ``waves``: shares of what the canary leaves. ``margin`` (and ``margins`` by metric or kind): the largest worsening
    that is acceptable, relative. ``hook``: the name of a hook in the service's settings; none: the operator's own
    tooling does the change, and the service waits to see it. ``price``: a node's, per hour, in ``currency``.
    """

    name: str
    project: str
    wanted: Mapping[str, str]
    where: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    scopes: Mapping[str, str] = field(default_factory=dict)
    revision: str = ""
    canary: int = 1
    waves: tuple[float, ...] = (0.1, 0.4, 1.0)
    replicates: int = 3
    margin: float = 0.01
    margins: Mapping[str, float] = field(default_factory=dict)
    hold: Literal["auto", "manual"] = "auto"
    max_lost: int = 1
    stop_on_no_go: bool = True
    return_s: float = 3600.0
    measure_s: float = 6 * 3600.0
    fresh_s: float = 24 * 3600.0
    hook: str = ""
    price: float | None = None
    currency: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Created:
    id: int
    name: str
    waves: tuple[tuple[str, ...], ...]
    """Node names: canaries first, then wave after wave."""
    notes: tuple[str, ...] = ()
    """What whoever asked should know before anything is changed."""


def create(
    database: Database, mirrors: Mirrors, new: New, now: datetime, *, actor: str, hooks: Mapping[str, str]
) -> Created:
    """Write a campaign down; the control worker's next tick begins with the baselines.

    Raises :class:`Invalid` for what cannot be right, :class:`Conflict` when the name is taken or a node is in another
    campaign that is under way.
    """
    _check(new, hooks)
    with database.read() as session:
        project = requests.by_slug(session, new.project)
    repo = mirrors.open(project.repo_url, project.credential)
    tip = repo.branch_tip(project.branch)
    config = configuration.at(repo, tip)
    commit = repo.commit(repo.resolve(new.revision or config.project.reference or tip))
    with database.transaction() as session:
        project = session.scalars(held(select_rows(Project).where(col(Project.id) == project.id))).one()
        nodes = select.chosen(session, new.where, new.nodes)
        _refuse(session, new, nodes)
        suites = _suites(session, project, config, new, tip)
        revision = revisions.store(session, project, [commit])[commit.sha]
        plan = {**_plain(new), "suites": suites, "config": config.model_dump(mode="json"), "sha": commit.sha}
        row = Campaign(
            name=new.name, project_id=project.id or 0, revision_id=revision, wanted=dict(new.wanted), plan=plan,
            actor=actor, created_at=now, updated_at=now,
        )  # fmt: skip
        session.add(row)
        session.flush()
        assigned = waves.assign(select.candidates(nodes), new.canary, new.waves)
        session.add_all(
            CampaignNode(campaign_id=row.id or 0, node_id=node.id or 0, wave=assigned[node.name], state_at=now)
            for node in nodes
        )
        session.add(
            AuditEntry(actor=actor, action="campaign.create", subject_type="campaign", subject_id=new.name,
                       data={"wanted": dict(new.wanted), "nodes": len(nodes)}, at=now)
        )  # fmt: skip
        by_wave = [tuple(n for n, w in assigned.items() if w == wave) for wave in range(1, max(assigned.values()) + 1)]
        return Created(row.id or 0, new.name, tuple(by_wave), _notes(session, new, nodes))


def _notes(session: Session, new: New, nodes: list[Node]) -> tuple[str, ...]:
    said = []
    if len(nodes) < LEAST_NODES:
        said.append(
            f"A verdict needs {LEAST_NODES} nodes at least: of {len(nodes)} it can only be not enough evidence."
        )
    known = {f.name for facets in state.facets_of(session, [n.environment_id for n in nodes]).values() for f in facets}
    said += [
        f"None of these nodes tells a facet {name!r} so far. {near(name, sorted(known))}"
        for name in new.wanted
        if known and name not in known and not name.startswith(_MAY_BE_NEW)
    ]
    return tuple(said)


def _check(new: New, hooks: Mapping[str, str]) -> None:
    if not _NAME.match(new.name):
        raise Invalid(f"{new.name!r} is no name of a campaign.", "Use letters, digits, dots, dashes; at most 100.")
    if not new.wanted:
        raise Invalid("The campaign changes nothing.", "Say what is to change, as gpu.driver=580.")
    _check_numbers(new)
    for suite, scope in new.scopes.items():
        if scope not in select.SCOPES:
            raise Invalid(f"Suite {suite!r} has the scope {scope!r}.", f"Use one of {', '.join(select.SCOPES)}.")
    if new.hook and new.hook not in hooks:
        known = ", ".join(sorted(hooks)) or "none"
        raise Invalid(
            f"There is no hook {new.hook!r}.",
            f"GROUNDSPEED_CAMPAIGN_HOOKS names them; there are: {known}. The command line must have it set "
            "as the service has.",
        )


def _check_numbers(new: New) -> None:
    if not new.waves or any(not 0 < share <= 1 for share in new.waves):
        raise Invalid(f"waves {list(new.waves)} cannot be used.", "Give shares above 0 and up to 1, as 0.1,0.4,1.")
    bounds: tuple[tuple[str, float, float, float], ...] = (
        ("canary", 1, _MOST_NODES, new.canary),
        ("replicates", 2, 50, new.replicates),
        ("max_lost", 0, _MOST_NODES, new.max_lost),
        ("return_s", 1, _LONGEST_S, new.return_s),
        ("measure_s", 1, _LONGEST_S, new.measure_s),
        ("fresh_s", 0, _LONGEST_S, new.fresh_s),
        ("price", 0, 1e9, new.price or 0.0),
        *((f"margin of {name!r}", 1e-6, 1, margin) for name, margin in {"all": new.margin, **new.margins}.items()),
    )
    for name, low, high, value in bounds:
        if not low <= value <= high:
            raise Invalid(f"{name}: {value:g} cannot be used.", f"Give {low:g} to {high:g}.")


def _refuse(session: Session, new: New, nodes: list[Node]) -> None:
    taken = select_rows(col(Campaign.id)).where(col(Campaign.name) == new.name)
    if session.execute(taken).first() is not None:
        raise Conflict(f"There is a campaign {new.name!r} already.", "Give this one another name.")
    if len(nodes) > _MOST_NODES:
        raise Invalid(f"{len(nodes)} nodes are more than {_MOST_NODES}.", "Choose fewer by labels.")
    query = (
        select_rows(col(Node.name), col(Campaign.name))
        .join(CampaignNode, col(CampaignNode.node_id) == col(Node.id))
        .join(Campaign, col(Campaign.id) == col(CampaignNode.campaign_id))
        .where(col(Campaign.state).in_(_OPEN), col(Node.id).in_([node.id for node in nodes]))
    )
    if found := session.execute(query).tuples().first():
        raise Conflict(
            f"Node {found[0]} is in the campaign {found[1]!r}, which is under way.",
            "Let that one end, abort it, or leave the node out.",
        )


def _suites(session: Session, project: Project, config: Any, new: New, tip: str) -> list[dict[str, Any]]:
    """Each suite's job without its node: specification, requirements, and how it is spread over devices."""
    checked = configuration.check(session, config, new.suites)
    if unknown := set(new.scopes) - {suite.suite.name for suite in checked}:
        raise Invalid(f"There is no suite {min(unknown)!r} to give a scope.", "Name one that is measured.")
    found = []
    for suite in checked:
        spec = specs.job_spec(project, config, suite, tip)
        for benchmark in spec["benchmarks"]:
            benchmark["replicates"] = new.replicates
        scope = select.scope_of(suite.plugin.name, suite.plugin.needs.devices, new.scopes.get(suite.suite.name, ""))
        found.append(
            {"name": suite.suite.name, "spec": spec, "requirements": specs.requirements(suite), "scope": scope}
        )
    return found


def _plain(new: New) -> dict[str, Any]:
    values = asdict(new)
    for name in ("name", "project", "wanted", "suites"):
        del values[name]
    return values | {"nodes": list(new.nodes), "waves": list(new.waves)}
