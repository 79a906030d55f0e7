"""compose.yaml against the compose specification, and against itself. No Docker engine is needed."""

from __future__ import annotations

import json
import re
import shlex
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, Any]:
    loaded = yaml.safe_load((root / "compose.yaml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_the_file_keeps_to_the_compose_specification(compose: dict[str, Any]) -> None:
    schema = json.loads((files("check_jsonschema") / "builtin_schemas/vendor/compose-spec.json").read_text())
    errors = [
        f"{'/'.join(map(str, e.absolute_path))}: {e.message}" for e in Draft7Validator(schema).iter_errors(compose)
    ]
    assert errors == []


def test_every_image_is_pinned_to_a_version(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        tag = service["image"].rpartition(":")[2]
        assert re.match(r"v?\d+\.\d+", tag), f"{name} runs {service['image']}"


def test_every_service_but_one_shots_has_a_health_check_or_waits_for_one(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        waits = any(d["condition"] != "service_started" for d in service.get("depends_on", {}).values())
        assert "healthcheck" in service or waits, name


def test_service_processes_wait_for_the_migration(compose: dict[str, Any]) -> None:
    for name in ("api", "control", "beat"):
        assert compose["services"][name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_redis_keeps_an_append_only_file(compose: dict[str, Any]) -> None:
    assert shlex.join(compose["services"]["redis"]["command"]).startswith("redis-server --appendonly yes")


def test_the_worker_reserves_gpus_through_the_nvidia_runtime(compose: dict[str, Any]) -> None:
    (device,) = compose["services"]["worker"]["deploy"]["resources"]["reservations"]["devices"]
    assert device["driver"] == "nvidia"
    assert device["capabilities"] == ["gpu"]


def test_each_variable_without_a_default_stands_in_the_example(root: Path) -> None:
    text = (root / "compose.yaml").read_text()
    example = (root / ".env.example").read_text()
    named = set(re.findall(r"\$\{([A-Z_]+)", text))
    assert named
    assert named <= set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE))


def test_mounted_files_exist(compose: dict[str, Any], root: Path) -> None:
    for service in compose["services"].values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (root / source).exists(), source
