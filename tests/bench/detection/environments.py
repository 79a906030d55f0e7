"""An environment for each peer, made once: their requirements exclude one another."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PEERS = {
    "asv": ("asv==0.6.6", "numpy"),
    "otava": ("apache-otava==0.8.0",),
    "ruptures": ("ruptures==1.1.10",),
    "mongodb": ("signal-processing-algorithms",),
}
NEEDS_311 = {"mongodb"}


def python_of(peer: str, folder: Path) -> Path | None:
    """The Python that has the peer; None, with words on standard error, when its environment can't be made."""
    if peer not in PEERS:
        return Path(sys.executable)
    home = folder / peer
    python, done = home / "bin" / "python", home / "done"
    if done.exists() and done.read_text() == " ".join(PEERS[peer]):
        return python
    base = sys.executable if peer not in NEEDS_311 or sys.version_info[:2] == (3, 11) else shutil.which("python3.11")
    if base is None:
        sys.stderr.write(f"{peer} is left out: it needs Python 3.11\n")
        return None
    try:
        subprocess.run([base, "-m", "venv", "--clear", str(home)], check=True, capture_output=True, text=True)
        install = [str(python), "-m", "pip", "install", "-q", *PEERS[peer]]
        subprocess.run(install, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{peer} is left out: {error.stderr[-500:]}\n")
        return None
    done.write_text(" ".join(PEERS[peer]))
    return python
