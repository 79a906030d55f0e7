"""Writes docs/configuration.md from the models it describes; a test keeps the two equal.

python docs/make_configuration.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic_core import PydanticUndefined

from groundspeed.service.config import model
from groundspeed.service.settings import PREFIX, Settings
from groundspeed.service.settings_accounts import AccountSettings
from groundspeed.service.settings_github import GitHubSettings
from groundspeed.service.settings_notifications import NotificationSettings
from groundspeed.workers.settings import WorkerSettings

HEAD = """\
# Configuration

This page is written by `python docs/make_configuration.py` from the code that reads the settings.

## groundspeed.toml

Lives at the top of the repository under test and is read from the tip of the branch (of a pull request: from its base).
`groundspeed config check` names every mistake with line and column; [groundspeed.schema.json](groundspeed.schema.json)
is its JSON Schema.
"""
SECTIONS = (
    ("[project]", model.ProjectSection),
    ("[build]", model.BuildSection),
    ("[[suite]]", model.SuiteSection),
    ("[measure], also inside a suite as `measure`", model.MeasureSection),
    ("[[schedule]]", model.ScheduleSection),
    ("[[rename]]", model.RenameSection),
    ("[environment]", model.EnvironmentSection),
    ("[[owner]]", model.OwnerSection),
    ("[pull_request]", model.PullRequestSection),
    ("[github]", model.GitHubSection),
)


def page() -> str:
    parts = [HEAD]
    for title, section in SECTIONS:
        parts += [f"### {title}\n", _table(section, "")]
    parts += [
        "## Settings of the service\n",
        "Each can be a file: the same name with `_FILE`.\n",
        _table(Settings, PREFIX, inherited=False),
        "### Who may do what\n",
        "See [accounts.md](accounts.md).\n",
        _table(AccountSettings, PREFIX),
        "### How people are told\n",
        "See [notifications.md](notifications.md).\n",
        _table(NotificationSettings, PREFIX),
        "### GitHub\n",
        "See [github.md](github.md).\n",
        _table(GitHubSettings, PREFIX),
    ]
    parts += ["## Settings of a worker\n", _table(WorkerSettings, "GROUNDSPEED_WORKER_")]
    return "\n".join(parts)


def _table(section: type[BaseModel], prefix: str, *, inherited: bool = True) -> str:
    rows = ["| key | default | what it does |", "|---|---|---|"]
    for name, field in section.model_fields.items():
        if not inherited and name not in section.__annotations__:
            continue
        key = prefix + name.upper() if prefix else name
        rows.append(f"| `{key}` | {_default(field)} | {_plain(field.description or '')} |")
    return "\n".join(rows) + "\n"


def _default(field: Any) -> str:
    if field.default_factory is not None:
        return "made at start" if field.default_factory is not dict else "none"
    if field.default is PydanticUndefined:
        return "required"
    if isinstance(field.default, BaseModel | SecretStr):
        return "none"
    return f"`{field.default}`" if field.default not in (None, "", (), {}) else "none"


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    Path(__file__).with_name("configuration.md").write_text(page(), encoding="utf-8")
