"""The JSON Schema of ``groundspeed.toml``, for editors and other tools; published as docs/groundspeed.schema.json."""

from __future__ import annotations

from typing import Any

from groundspeed.service.config.model import ProjectConfig


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) as plain data."""
    schema = ProjectConfig.model_json_schema()
    schema.pop("description", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "groundspeed.toml",
        "description": "What Groundspeed measures in a repository.",
        **{key: value for key, value in schema.items() if key != "title"},
    }
