"""What can be measured: the plugins that nodes offer, and before any node has come those shipped with the service."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources

from sqlalchemy import select
from sqlmodel import Session, col

from groundspeed.service.db.tables import CatalogueEntry, Node
from groundspeed.service.wire import v1

FILE = "catalogue.json"


@cache
def shipped() -> Mapping[str, v1.PluginSpec]:
    """The built-in plugins of this release; made by ``python -m groundspeed.plugins.registry --dump``."""
    text = resources.files("groundspeed.service").joinpath(FILE).read_text(encoding="utf-8")
    found = (v1.PluginSpec.model_validate(entry) for entry in json.loads(text)["plugins"])
    return {spec.name: spec for spec in found}


def known(session: Session, names: Iterable[str]) -> dict[str, v1.PluginSpec]:
    """The named plugins as the node that registered last describes them, else as shipped; unknown ones are left out.

    A plugin that a node could not load counts only where nothing better is known of it.
    """
    wanted = set(names)
    found = {name: spec for name, spec in shipped().items() if name in wanted}
    query = (
        select(col(CatalogueEntry.spec))
        .join(Node, col(Node.id) == col(CatalogueEntry.node_id))
        .where(col(CatalogueEntry.plugin).in_(wanted), col(Node.state) != "quarantined")
        .order_by(col(Node.registered_at), col(Node.id))
    )
    for raw in session.scalars(query):
        spec = v1.PluginSpec.model_validate(raw)
        if spec.error is None or spec.name not in found:
            found[spec.name] = spec
    return found


def metric_in_words(session: Session, plugin: str, metric: str) -> str:
    """What a metric is, in the words of its plugin; empty where neither this release nor any node tells."""
    spec = shipped().get(plugin)
    if spec is None:
        query = select(col(CatalogueEntry.spec)).where(col(CatalogueEntry.plugin) == plugin)
        raw = session.scalars(query.order_by(col(CatalogueEntry.id).desc()).limit(1)).first()
        spec = v1.PluginSpec.model_validate(raw) if raw is not None else None
    return next((one.description for one in spec.metrics if one.name == metric), "") if spec is not None else ""


def names(session: Session) -> list[str]:
    """Every plugin that is known, shipped or offered."""
    return sorted(set(shipped()) | set(session.scalars(select(col(CatalogueEntry.plugin)).distinct())))
