"""The installed package has the pages with it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

SERVE = """
import sys, tempfile, json
from pathlib import Path
import anyio, httpx
from sqlmodel import SQLModel
from groundspeed.service.api.app import create_app
from groundspeed.service.control.wiring import make
from groundspeed.service.db import tables
from groundspeed.service.pages.assets import web_root
from groundspeed.service.settings import Settings

assert str(web_root()).startswith(sys.argv[1]), web_root()
with tempfile.TemporaryDirectory() as folder:
    parts = make(Settings.load(data_dir=Path(folder)))
    SQLModel.metadata.create_all(parts.database.engine)
    async def ask():
        transport = httpx.ASGITransport(app=create_app(parts))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            page = await client.get("/")
            assert page.status_code == 200, page.text
            assert "body{" in page.text.partition("<style>")[2].partition("</style>")[0]
            for part in page.text.split('"'):
                if part.startswith("/assets/"):
                    asset = await client.get(part)
                    assert asset.status_code == 200, part
                    print(part, len(asset.content))
    anyio.run(ask)
    parts.database.close()
"""


@pytest.mark.long
def test_a_wheel_built_from_the_sdist_serves_a_page_with_its_assets(root: Path, tmp_path: Path) -> None:
    """Scripts and styles travel through the sdist into the wheel, and the service finds them there."""
    if not (root / "web/dist/manifest.json").is_file():
        subprocess.run([sys.executable, str(root / "web/build.py")], check=True)
    copy = tmp_path / "checkout"
    skip = shutil.ignore_patterns(
        ".git", ".venv", "node_modules", "__pycache__", ".*_cache", "tests", ".groundspeed", ".build-*"
    )
    shutil.copytree(root, copy, ignore=skip)
    built = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "out"), str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    if (
        built.returncode
        and "hatchling" in built.stdout + built.stderr
        and "missing" in (built.stdout + built.stderr).lower()
    ):
        pytest.skip("hatchling is not installed, and the test may not fetch it")
    assert built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:]
    wheel = next((tmp_path / "out").glob("*.whl"))
    installed = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    assert (installed / "groundspeed/web/templates/base.html").is_file()
    assert not list(installed.glob("groundspeed/web/node_modules"))
    done = subprocess.run(
        [sys.executable, "-c", SERVE, str(installed)], env={"PYTHONPATH": str(installed), "PATH": "/usr/bin:/bin"}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    kinds = {line.split()[0].rsplit(".", 1)[1] for line in done.stdout.splitlines()}
    assert {"js", "svg"} <= kinds
