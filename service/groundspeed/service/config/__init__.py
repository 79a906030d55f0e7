"""``groundspeed.toml``: reading it, checking it, and its published schema."""

from groundspeed.service.config.loader import FILE_NAME, load
from groundspeed.service.config.model import ProjectConfig
from groundspeed.service.config.schema import json_schema

__all__ = ["FILE_NAME", "ProjectConfig", "json_schema", "load"]
