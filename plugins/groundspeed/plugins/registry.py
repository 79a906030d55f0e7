"""Which plugins there are: the built-in ones and those of any installed distribution.

Entry points of the group ``groundspeed.benchmarks`` are read wherever ``importlib.metadata`` sees them. The built-in
plugins stand in a table besides, so that they are found in a folder that holds only ``groundspeed/plugins``.
A plugin that does not load stays in the catalogue, marked with why. ``python -m groundspeed.plugins.registry --dump``
prints the catalogue as JSON; none of the built-in plugins imports torch for it.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import importlib.metadata
import json
import sys
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from groundspeed.plugins.errors import BrokenPlugin, DuplicatePlugin, UnknownPlugin
from groundspeed.plugins.spi import ENTRY_POINT_GROUP, Metric, Needs, Param, Plugin
from groundspeed.plugins.validate import problems

OWN_DISTRIBUTION = "groundspeed"
BUILT_IN: Mapping[str, str] = {
    "training": "groundspeed.plugins.training:PLUGIN",
    "inference": "groundspeed.plugins.inference:PLUGIN",
    "collectives": "groundspeed.plugins.collectives:PLUGIN",
    "memory": "groundspeed.plugins.memory:PLUGIN",
    "distributed-training": "groundspeed.plugins.distributed_training:PLUGIN",
    "gemm": "groundspeed.plugins.gemm:PLUGIN",
    "serving": "groundspeed.plugins.serving:PLUGIN",
    "generation": "groundspeed.plugins.generation:PLUGIN",
    "memory-bandwidth": "groundspeed.plugins.memory_bandwidth:PLUGIN",
    "attention": "groundspeed.plugins.attention:PLUGIN",
    "kernel": "groundspeed.plugins.kernel:PLUGIN",
    "dataloader": "groundspeed.plugins.dataloader:PLUGIN",
    "command": "groundspeed.plugins.command:PLUGIN",
    "asv": "groundspeed.plugins.asv:PLUGIN",
}


@dataclass(frozen=True, slots=True)
class Offer:
    """One place that offers a plugin under a name."""

    name: str
    value: str
    """"package.module:attribute"."""
    distribution: str


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """What a worker tells the service about one plugin; field by field the wire's PluginSpec.

    ``error`` is set for a plugin that cannot be used and says why; the rest is then empty.
    """

    name: str
    version: str
    distribution: str
    description: str = ""
    timing: str = "stepped"
    params: tuple[Param, ...] = ()
    metrics: tuple[Metric, ...] = ()
    needs: Needs = dataclasses.field(default_factory=Needs)
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON types; enumerations by value."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain


def offers() -> dict[str, list[Offer]]:
    """All offers by name. The same offer seen twice (two copies of one distribution on the path) counts once."""
    found: dict[str, list[Offer]] = {name: [Offer(name, value, OWN_DISTRIBUTION)] for name, value in BUILT_IN.items()}
    for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        distribution = point.dist.name if point.dist is not None else "an unnamed distribution"
        offer = Offer(point.name, point.value, distribution)
        known = found.setdefault(point.name, [])
        if offer not in known:
            known.append(offer)
    return found


def load(name: str) -> Plugin:
    """The plugin of that name, checked against the contract.

    Raises UnknownPlugin, DuplicatePlugin or BrokenPlugin, whose text says what to do.
    """
    everything = offers()
    if name not in everything:
        listed = ", ".join(sorted(everything))
        raise UnknownPlugin(f"no installed distribution offers the plugin {name!r}; there are: {listed}")
    return _load(_single(everything[name]))[0]


def load_catalogue() -> tuple[CatalogueEntry, ...]:
    """All plugins in order of name; broken and doubly offered ones with their error."""
    return tuple(_entry(name, found) for name, found in sorted(offers().items()))


def _single(found: list[Offer]) -> Offer:
    if len(found) > 1:
        who = " and ".join(f"{offer.distribution} ({offer.value})" for offer in found)
        raise DuplicatePlugin(
            f"the plugin name {found[0].name!r} is offered by {who}: uninstall one of them or rename its entry point"
        )
    return found[0]


def _load(offer: Offer) -> tuple[Plugin, str]:
    where = f"plugin {offer.name!r} of {offer.distribution} ({offer.value})"
    module_name, _, attribute = offer.value.partition(":")
    try:
        found = importlib.import_module(module_name)
        plugin: Any = found
        for part in attribute.split(".") if attribute else ():
            plugin = getattr(plugin, part)
        if isinstance(plugin, type):
            plugin = plugin()
    except Exception as error:  # third-party code runs here: whatever it raises is its own fault and is shown
        last = traceback.format_exception_only(error)[-1].strip()
        raise BrokenPlugin(f"{where} does not load: {last}") from error
    wrong = problems(plugin, offer.name)
    if wrong:
        raise BrokenPlugin(f"{where} does not keep the plugin contract: " + "; ".join(wrong))
    return plugin, offer.distribution


def _entry(name: str, found: list[Offer]) -> CatalogueEntry:
    distribution = " and ".join(offer.distribution for offer in found)
    try:
        plugin, _ = _load(_single(found))
    except (BrokenPlugin, DuplicatePlugin) as error:
        return CatalogueEntry(name=name, version="0", distribution=distribution, error=str(error))
    return describe(plugin, distribution)


def describe(plugin: Plugin, distribution: str) -> CatalogueEntry:
    """The catalogue's entry of a plugin that keeps the contract."""
    return CatalogueEntry(
        name=plugin.name,
        version=plugin.version,
        distribution=distribution,
        description=plugin.description,
        timing=plugin.timing,
        params=tuple(plugin.params),
        metrics=tuple(plugin.metrics()),
        needs=plugin.needs,
    )


def dump(entries: Iterable[CatalogueEntry]) -> str:
    """The catalogue as JSON text with a version, stable in order so that a file of it can be compared."""
    document = {"version": 1, "plugins": [entry.as_dict() for entry in entries]}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m groundspeed.plugins.registry", description=__doc__)
    parser.add_argument("--dump", action="store_true", help="print the catalogue as JSON")
    parser.add_argument("--built-in", action="store_true", help="only what this distribution itself offers")
    options = parser.parse_args(arguments)
    entries = load_catalogue()
    if options.built_in:
        entries = tuple(entry for entry in entries if entry.name in BUILT_IN and entry.distribution == OWN_DISTRIBUTION)
    if options.dump:
        sys.stdout.write(dump(entries))
    else:
        for entry in entries:
            sys.stdout.write(
                f"{entry.name} {entry.version} ({entry.distribution}) {entry.error or entry.description}\n"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
