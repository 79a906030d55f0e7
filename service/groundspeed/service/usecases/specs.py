"""What a job says to a worker, and what it requires of one. Pure."""

from __future__ import annotations

from typing import Any

from groundspeed.service.config.model import BuildSection, ProjectConfig
from groundspeed.service.db.tables import Project
from groundspeed.service.usecases.configuration import CheckedSuite
from groundspeed.service.wire import v1


def job_spec(
    project: Project, config: ProjectConfig, checked: CheckedSuite, tip_sha: str, trust: v1.Trust = "trusted"
) -> dict[str, Any]:
    """A wire JobSpec without sides, done and job_id, as it is stored with a job."""
    build = _build(config.build)
    return {
        "project": project.slug,
        "repo_url": project.repo_url,
        "credential": project.credential,
        "tip_sha": tip_sha,
        "suite": checked.suite.name,
        "build": build.model_dump(mode="json"),
        "benchmarks": [b.model_dump(mode="json") for b in checked.benchmarks],
        "trust": trust,
        "stack": str(checked.suite.requires.get("stack", "")),
        "devices": checked.plugin.needs.devices,
        "track": list(config.environment.track),
        "info": list(config.environment.info),
    }


def requirements(checked: CheckedSuite, trust: v1.Trust = "trusted") -> dict[str, Any]:
    """What a node must have: the plugin's needs, sharpened by the suite's ``requires``."""
    needs = checked.plugin.needs
    found: dict[str, Any] = {"plugins": [checked.plugin.name]}
    if needs.devices:
        found["devices"] = needs.devices
    if needs.memory_bytes:
        found["memory_bytes"] = needs.memory_bytes
    if trust == "untrusted":
        found["sandbox"] = True
    return found | {name: value for name, value in checked.suite.requires.items() if name != "stack"}


def identity(benchmarks: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What makes two jobs of one suite measure the same: everything but how often and how long."""
    return sorted((b["key"], b["plugin"], b.get("target") or "", sorted(b["params"].items())) for b in benchmarks)


def _build(section: BuildSection) -> v1.BuildSpec:
    values = section.model_dump()
    values["timeout_s"] = values.pop("timeout_minutes") * 60
    return v1.BuildSpec.model_validate(values)
