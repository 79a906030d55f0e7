"""The house keeps its own rules."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = ("service", "plugins", "workers")
HARD_LIMIT = 500
LONGER = {
    "migrations/versions/0001_the_first_tables.py": "frozen: a migration is never edited",
}
"""Files over the limit, each with its reason; anything new is to be split."""


def files(root: Path) -> list[Path]:
    return [path for source in SOURCES for path in (root / source / "groundspeed").rglob("*.py")]


def test_the_namespace_has_no_package_file(root: Path) -> None:
    """A groundspeed/__init__.py would hide the other two folders."""
    assert [source for source in SOURCES if (root / source / "groundspeed" / "__init__.py").exists()] == []


def test_no_file_is_longer_than_the_hard_limit(root: Path) -> None:
    long = [str(path) for path in files(root) if len(path.read_text().splitlines()) > HARD_LIMIT]
    assert [path for path in long if not path.endswith(tuple(LONGER))] == []


def test_nobody_prints_outside_the_edges(root: Path) -> None:
    assert [str(path) for path in files(root) if "\n    print(" in path.read_text()] == []


def test_imports_keep_their_directions(root: Path) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_configuration_page_is_current(root: Path) -> None:
    spec = importlib.util.spec_from_file_location("make_configuration", root / "docs" / "make_configuration.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (root / "docs" / "configuration.md").read_text()
    assert written == module.page(), "run: python docs/make_configuration.py"


def test_every_setting_says_what_it_does(root: Path) -> None:
    empty = [line for line in (root / "docs" / "configuration.md").read_text().splitlines() if line.endswith("|  |")]
    assert empty == []


def test_links_in_the_documentation_lead_somewhere(root: Path) -> None:
    broken = []
    for page in [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.name}: {target}")
    assert broken == []


WORKER_ALONE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"sqlalchemy", "sqlmodel", "fastapi", "alembic", "numpy", "scipy", "torch"}:
            raise ModuleNotFoundError(f"the worker imported {name}", name=name)
sys.meta_path.insert(0, Refuse())
import groundspeed.workers.tasks, groundspeed.workers.main, groundspeed.plugins.registry
"""


def test_a_worker_imports_neither_the_database_nor_torch() -> None:
    done = subprocess.run([sys.executable, "-c", WORKER_ALONE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_a_venv_with_only_the_worker_part_runs_its_commands(root: Path, tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run([str(venv / "bin" / "pip"), "install", "-q", f"{root}[worker]"], check=True, capture_output=True)
    python = str(venv / "bin" / "python")
    assert subprocess.run([python, "-c", "import sqlalchemy"], capture_output=True, check=False).returncode != 0
    assert subprocess.run([python, "-c", "import groundspeed.workers.tasks"], check=False).returncode == 0
    done = subprocess.run([str(venv / "bin" / "groundspeed"), "status"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "groundspeed[service]" in done.stderr
