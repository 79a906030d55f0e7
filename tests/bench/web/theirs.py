"""asv over the same history: ``asv publish``, its pages from a plain file server, its libraries beside them."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from history import History, name_of
from measured import Command, command

ROOT = Path(__file__).resolve().parents[3]
LIBRARIES = {
    "jquery-3.3.1.min.js": ("jquery@3.3.1", "jquery/dist/jquery.min.js"),
    "jquery.flot.min.js": ("flot@0.8.3", "flot/jquery.flot.js"),
    "jquery.flot.time.min.js": ("flot@0.8.3", "flot/jquery.flot.time.js"),
    "jquery.flot.selection.min.js": ("flot@0.8.3", "flot/jquery.flot.selection.js"),
    "jquery.flot.categories.min.js": ("flot@0.8.3", "flot/jquery.flot.categories.js"),
    "jquery.flot.orderBars.js": ("flot-orderbars@1.0.0", "flot-orderbars/js/jquery.flot.orderBars.js"),
    "md5.min.js": ("blueimp-md5@2.19.0", "blueimp-md5/js/md5.min.js"),
    "bootstrap.min.js": ("bootstrap@3.1.1", "bootstrap/dist/js/bootstrap.min.js"),
    "bootstrap.min.css": ("bootstrap@3.1.1", "bootstrap/dist/css/bootstrap.min.css"),
}
TABLES = "jQuery.fn.stupidtable = function () { return this; };"
"""In place of the one library that npm does not have: it sorts tables, and none of the pages measured here has one."""


def publish(history: History) -> Command:
    conf = {
        "version": 1, "project": "history", "repo": str(history.repo), "branches": ["main"], "results_dir": "results",
        "html_dir": "html",
    }  # fmt: skip
    (history.folder / "asv.conf.json").write_text(json.dumps(conf))
    return command([sys.executable, "-m", "asv", "publish", "--no-pull"], history.folder)


def with_new_results(history: History) -> None:
    """The new results lie where ``asv run`` would have put them."""
    path = history.tree / "machine0" / name_of(history.newest)
    files = [json.loads(one.read_text()) for one in ([path] if path.is_file() else []) + list(history.new.values())]
    files[0]["results"] = {name: row for file in files for name, row in file["results"].items()}
    path.write_text(json.dumps(files[0]))


def libraries(folder: Path) -> Path | None:
    """asv's pages load their libraries from the network; here they lie beside the pages. None: npm cannot be reached."""
    folder.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(ROOT / "web"))
    import build

    wanted = sorted({package for package, _ in LIBRARIES.values()})
    words = [
        *build.npm(),
        "install",
        "--no-save",
        "--no-audit",
        "--no-fund",
        "--ignore-scripts",
        "--prefix",
        ".",
        *wanted,
    ]
    done = subprocess.run(words, cwd=folder, env=build.environment(), capture_output=True, text=True, check=False)
    return folder / "node_modules" if done.returncode == 0 else None


def vendored(html: Path, modules: Path) -> None:
    """Rewrites the page so that it finds its libraries beside it."""
    (html / "vendor").mkdir(exist_ok=True)
    for name, (_, path) in LIBRARIES.items():
        shutil.copy(modules / path, html / "vendor" / name)
    (html / "vendor" / "stupidtable.min.js").write_text(TABLES)
    page = html / "index.html"
    text = re.sub(r'(src|href)="https://[^"]*/([^"/]+)"', r'\1="vendor/\2"', page.read_text())
    page.write_text(re.sub(r' (integrity|crossorigin|referrerpolicy)="[^"]*"', "", text))


@contextlib.contextmanager
def served(html: Path) -> Iterator[str]:
    """The address of a file server over a folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that is overridden
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(html)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
