"""A campaign whose nodes answer with what was measured: the processes of two_environments.py, dealt out among nodes.

One machine is one node, and a verdict needs three: each node here stands for a disjoint part of the same machine's
rounds, taken in turns over the whole time. The spread between such nodes is that between processes of one device; what
separate machines add to it is not there, and the page that is written says so.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.gpu.children import ROOT

sys.path.insert(0, str(ROOT / "tests"))
FORMS = {"text": "txt", "json": "json", "csv": "csv", "html": "html"}
REPLICATES, MOST_NODES, FEWEST = 2, 8, 3
Key = tuple[int, str, str]


@dataclass(frozen=True)
class Recording:
    """``rounds``: for each whole round its report by (suite, side)."""

    about: dict[str, Any]
    rounds: list[dict[tuple[str, str], dict[str, Any]]]
    processes: int

    @property
    def variable(self) -> tuple[str, str]:
        name, _, value = self.about["variable"].partition("=")
        return name, value


def load(folder: Path) -> Recording:
    """Raises SystemExit when there is too little for a campaign, and for a process that did not end well."""
    for name in ("environments.json", "samples.jsonl"):
        if not (folder / name).is_file():
            raise SystemExit(f"{folder} has no {name}: give the folder that `compare` has filled")
    about = json.loads((folder / "environments.json").read_text())
    found: dict[int, dict[tuple[str, str], dict[str, Any]]] = defaultdict(dict)
    lines = [json.loads(text) for text in (folder / "samples.jsonl").read_text().splitlines()]
    for line in lines:
        for metric, states in zip(line["metrics"], line.get("sample_states", ()), strict=False):
            metric["states"] = states
    for line in lines:
        if line["outcome"] == "ok":
            found[line["round"]][line["suite"], line["side"]] = line
    suites = {line["suite"] for line in lines}
    whole = [found[number] for number in sorted(found) if len(found[number]) == 2 * len(suites)]
    if len(whole) < FEWEST * REPLICATES:
        failed = next((line for line in lines if line["outcome"] != "ok"), None)
        why = f"; {failed['suite']}: {failed['outcome']}: {failed['evidence'].get('message', '')}" if failed else ""
        raise SystemExit(f"{folder}: {len(whole)} whole rounds, and {FEWEST * REPLICATES} are needed{why}")
    return Recording(about, whole, len(lines))


def config(recording: Recording) -> str:
    """groundspeed.toml with the suites as they were measured."""
    parts = ['[project]\nname = "environments"\n']
    for (suite, side), report in recording.rounds[0].items():
        if side == "before":
            request = report["request"]
            params = ", ".join(f"{name} = {json.dumps(value)}" for name, value in request["params"].items())
            parts.append(f'[[suite]]\nname = "{suite}"\nplugin = "{request["plugin"]}"\nparams = {{ {params} }}\n')
    return "\n".join(parts)


class Nodes:
    """The nodes of the campaign; ``after`` names those whose environment has been changed."""

    def __init__(self, recording: Recording, fleet: Any) -> None:
        count = min(len(recording.rounds) // REPLICATES, MOST_NODES)
        self.recording, self.fleet = recording, fleet
        self.names = [f"part-{i + 1}" for i in range(count)]
        self.replicates = len(recording.rounds) // count
        self.after: set[str] = set()

    def register(self, name: str) -> None:
        from fleet import registration
        from groundspeed.service.usecases import nodes
        from groundspeed.service.wire import v1

        about, fields = self.recording.about, v1.DeviceSpec.model_fields
        devices = [
            {key: value for key, value in {**device, "uuid": f"{device['uuid']}/{name}"}.items() if key in fields}
            for device in about["devices"]
        ]
        message = registration(name, hardware=about["hardware"], devices=devices, environment=about[self.side(name)])
        reply = nodes.register(self.fleet.db, message, self.fleet.now, 10.0)
        if not reply.accepted:
            raise SystemExit(f"{name} was not registered: {reply.reason}")

    def side(self, name: str) -> str:
        return "after" if name in self.after else "before"

    def work(self) -> int:
        """Every node answers what it is asked, with its own part of the rounds."""
        from groundspeed.service.usecases.ingest import ingest_runs
        from groundspeed.service.wire import v1

        count = 0
        for index, name in enumerate(self.names):
            while True:
                claim = self.fleet.next(name)
                if claim.attempt_id is None or claim.job is None:
                    break
                rounds = self.recording.rounds[index :: len(self.names)][: self.replicates]
                runs = [
                    self._run(name, claim.job.suite, benchmark, number, rounds)
                    for benchmark in claim.job.benchmarks
                    for number in range(min(benchmark.replicates, len(rounds)))
                ]
                ack = ingest_runs(self.fleet.db, claim.attempt_id, v1.RunBatch(runs=tuple(runs)), self.fleet.now)
                if ack.refused:
                    raise SystemExit(f"refused: {ack.refused}")
                self.fleet.finish(claim.attempt_id)
                count += len(runs)
        return count

    def _run(self, name: str, suite: str, benchmark: Any, number: int, rounds: list[Any]) -> Any:
        from groundspeed.service.wire import v1

        report = rounds[number][suite, self.side(name)]
        return v1.RunReport.model_validate(
            {
                "key": {"side": 0, "benchmark": benchmark.key, "replicate": number},
                "plugin": benchmark.plugin, "plugin_version": report["plugin_version"], "params": benchmark.params,
                "outcome": report["outcome"], "started_at": self.fleet.now.timestamp(),
                "duration_s": report["wall_s"],
                "samples": [{key: m[key] for key in v1.Samples.model_fields if key in m} for m in report["metrics"]],
                "conditions": report["conditions"], "facts": report["facts"], "phases_s": report["phases_s"],
                "device_uuid": benchmark.devices[0] if benchmark.devices else None,
                "environment": self.recording.about[self.side(name)],
            }
        )  # fmt: skip


def replay(results: Path, out: Path) -> None:
    """Run the campaign and leave its reports, and README.md with machine, difference and verdict, in ``out``."""
    recording = load(results)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gs-replay-") as place:
        nodes = run(recording, Path(place))
        for form, ending in FORMS.items():
            (out / f"report.{ending}").write_text(reported(Path(place), form))
    (out / "environments.json").write_text(json.dumps(recording.about, indent=1) + "\n")
    (out / "README.md").write_text(page(recording, nodes, (out / "report.txt").read_text()))
    sys.stdout.write((out / "report.txt").read_text())


def reported(folder: Path, form: str) -> str:
    """What ``groundspeed campaign report change --format FORM --data FOLDER`` prints."""
    from groundspeed.cli import campaign

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        campaign.report("change", campaign.Format(form), False, folder)
    return said.getvalue()


def run(recording: Recording, folder: Path) -> Nodes:
    """The campaign through the service's own use cases, in the data folder."""
    from fleet import fleet
    from groundspeed.cli import context
    from groundspeed.service.usecases.campaigns import create, step, view

    name, value = recording.variable
    with context.database(context.settings_for(folder)) as db:
        project = fleet(db, folder, 1, config(recording), slug="environments")
        nodes = Nodes(recording, project)
        for node in nodes.names:
            nodes.register(node)
        project.add()
        new = create.New(
            "change", "environments", {f"env.{name}": value}, canary=FEWEST, waves=(1.0,), replicates=nodes.replicates,
        )  # fmt: skip
        create.create(db, project.mirrors, new, project.now, actor="ada", hooks={})
        for _ in range(60):
            project.later(1.0)
            moved = step.tick(db, project.now, 300.0) + nodes.work()
            for node in view.campaign(db, "change").nodes:
                if node.state == "upgrading":
                    nodes.after.add(node.name)
                    nodes.register(node.name)
                    moved += 1
            if not moved and view.campaign(db, "change").state != "running":
                break
    return nodes


def page(recording: Recording, nodes: Nodes, report: str) -> str:
    """Machine, difference and verdict for the documentation."""
    from groundspeed.service.domain.environments import Facet, collapse, difference

    about, (name, value) = recording.about, recording.variable
    before, after = ([Facet(**row) for row in about[side]] for side in ("before", "after"))
    hardware = about["hardware"]
    model = f"{hardware['gpu_count']} × {hardware['gpu_model']}" if hardware["gpu_count"] else hardware["cpu_model"]
    lines = "\n".join(line for line in collapse(difference(before, after)) if "not comparable" not in line)
    rows = "\n".join(
        f"| {facet.layer} | `{facet.name}` | {facet.value if facet.value is not None else '*unknown:* ' + facet.reason} "
        f"| {'yes' if facet.tracked else 'no'} |".replace("\n", " ")
        for facet in before
    )
    return PAGE.format(
        name=name, value=value, model=model, nodes=len(nodes.names), replicates=nodes.replicates,
        rounds=len(recording.rounds), processes=recording.processes, used=len(nodes.names) * nodes.replicates,
        difference=lines, report=report.rstrip(), facets=rows,
    )  # fmt: skip


PAGE = """# A setting, as a campaign judged it: `{name}={value}`

Measured on {model}: {processes} fresh processes of the product's own suites on one device, in {rounds} whole rounds
that ran every suite in both environments, the order turned in every other round. The rounds were dealt out in turns
among {nodes} nodes of {replicates} processes a side and suite ({used} rounds used), and a campaign asked these nodes.
**The nodes are parts of one machine**: the spread between them is that between processes, and what separate machines
would add to it is not in the intervals.

## What differs

```
{difference}
```

## The report

```
{report}
```

The same as [JSON](report.json), [CSV](report.csv) and [a page to print](report.html).

## The environment before, facet by facet

| layer | facet | value | counts |
|---|---|---|---|
{facets}
"""
