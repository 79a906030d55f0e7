"""Where the templates and the bundled scripts are: in ``web/`` of a checkout, or inside the installed package."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
from functools import lru_cache
from pathlib import Path

from markupsafe import Markup

_HERE = Path(__file__).resolve()
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".map": "application/json"}
_log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def web_root() -> Path:
    """The folder with ``templates`` and ``dist``. Raises FileNotFoundError when the installation lacks it."""
    installed = _HERE.parents[2] / "web"
    checkout = _HERE.parents[4] / "web"
    for root in (installed, checkout):
        if (root / "templates" / "base.html").is_file():
            return root
    raise FileNotFoundError(f"no page templates at {installed} or {checkout}: install groundspeed again")


class Assets:
    """The built files by their logical names; empty, with a line in the log, while nothing has been built."""

    def __init__(self, dist: Path) -> None:
        self._dist = dist
        self._stamp = -1
        self._names: dict[str, str] = {}
        self._style, self._style_source = Markup(), ""

    def url(self, name: str) -> str:
        """Address of ``main.js`` or ``main.css``; empty when it is not built: pages then read as plain HTML."""
        self._refresh()
        found = self._names.get(name)
        return f"/assets/{found}" if found else ""

    def style(self) -> Markup:
        """The styles as the content of a ``style`` element: a page that has them is painted without asking again."""
        self._refresh()
        return self._style

    def style_source(self) -> str:
        """What a page's policy says of :meth:`style`: that these styles are ours, and no others in the page."""
        self._refresh()
        return self._style_source

    def shared(self) -> list[str]:
        """Addresses of what several scripts import: a browser is to know of them before it has read the first."""
        self._refresh()
        return [f"/assets/{name}" for key, name in self._names.items() if key.startswith("chunk-")]

    def read(self, name: str, *, gzip: bool) -> tuple[bytes, str, bool] | None:
        """(content, media type, whether it is gzipped) of a built file, None when there is no such."""
        self._refresh()
        if name not in self._names.values():
            return None
        path = self._dist / name
        packed = self._dist / f"{name}.gz"
        media = _TYPES.get(path.suffix, "application/octet-stream")
        if gzip and packed.is_file():
            return packed.read_bytes(), media, True
        return (path.read_bytes(), media, False) if path.is_file() else None

    def _refresh(self) -> None:
        """A rebuild while the service runs is seen at the next page."""
        manifest = self._dist / "manifest.json"
        try:
            stamp = manifest.stat().st_mtime_ns
        except FileNotFoundError:
            if self._stamp != 0:
                _log.warning("the scripts of the pages are not built (make web builds them)")
            self._stamp, self._names = 0, {}
            self._style, self._style_source = Markup(), ""
            return
        if stamp != self._stamp:
            self._stamp, self._names = stamp, json.loads(manifest.read_text(encoding="utf-8"))
            self._styled(self._dist / self._names.get("main.css", "main.css"))

    def _styled(self, path: Path) -> None:
        text = path.read_text(encoding="utf-8").strip() if path.is_file() else ""
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        self._style = Markup(text)  # noqa: S704 - built from sources of ours
        self._style_source = f" 'sha256-{digest}'" if text else ""
