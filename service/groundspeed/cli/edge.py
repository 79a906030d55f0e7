"""The edge of the command line: every failure leaves as one paragraph and an exit status, never as a traceback."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
import textwrap
from collections.abc import Callable

from groundspeed.cli.output import harmless
from groundspeed.service.errors import GroundspeedError

FAILED = 2
"""Exit status for anything that the user can put right; 1 is left to commands that answer no."""

_EXTRAS = {
    "service": (
        "alembic",
        "celery",
        "croniter",
        "fastapi",
        "jinja2",
        "numpy",
        "orjson",
        "scipy",
        "sqlalchemy",
        "sqlmodel",
        "uvicorn",
    ),
    "worker": ("httpx", "kombu", "psutil", "pydantic_settings", "tenacity", "groundspeed.workers"),
}


def guarded(program: Callable[[], None]) -> int:
    """Run the program; returns its exit status. GROUNDSPEED_TRACEBACK=1 lets errors through, for developers."""
    _open_what_is_closed()
    try:
        program()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0 if done.code is None else 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has gone; say nothing more, not even from the interpreter's own flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("GROUNDSPEED_TRACEBACK"):
            raise
        complain(explain(error))
        return FAILED
    return 0


def _open_what_is_closed() -> None:
    """Standard streams that the caller has closed lead nowhere: else the next file that is opened, as a database,
    would have their number, and what is printed would end in it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def explain(error: Exception) -> str:
    """One paragraph: what happened, and what to do."""
    if isinstance(error, GroundspeedError):
        return f"{error.title} {error.advice}".strip()
    if isinstance(error, ModuleNotFoundError) and (extra := missing_extra(error.name or "")):
        return (
            f"This command needs the {extra} part of Groundspeed, which is not installed here "
            f"(no module {error.name!r}). Install it with: pip install 'groundspeed[{extra}]'"
        )
    if type(error).__module__.startswith("groundspeed."):
        return str(error)
    return (
        _of_a_database(error)
        or _of_the_system(error)
        or (
            f"Something unforeseen went wrong: {type(error).__name__}: {error}. That is a fault of Groundspeed: please "
            "report it with the output of the same command under GROUNDSPEED_TRACEBACK=1."
        )
    )


def _of_the_system(error: Exception) -> str | None:
    if isinstance(error, UnicodeEncodeError) and (found := re.search("[\ud800-\udfff]", str(error.object))):
        return f"Something given holds the byte {ord(found[0]) & 0xFF:#x}, which is no UTF-8: give it in UTF-8."
    if isinstance(error, shutil.Error):  # several files: the first of (source, destination, why)
        return f"Files could not be copied: {error.args[0][0][2]}. Correct that and run the command again."
    if isinstance(error, OSError) and error.strerror:
        where = f" {error.filename}" if error.filename else ""
        return f"The operating system refused{where}: {error.strerror}. Correct that and run the command again."
    return None


def _of_a_database(error: Exception) -> str | None:
    """What a database that is full, gone, locked, not to be written or damaged said; None for any other error."""
    if not isinstance(error, sqlite3.Error) and not type(error).__module__.startswith(("sqlalchemy.", "psycopg.")):
        return None
    told = getattr(error, "orig", None) or error
    if isinstance(told, (sqlite3.ProgrammingError, sqlite3.IntegrityError, sqlite3.InterfaceError)):
        return None
    if type(told).__name__ in {
        "OperationalError",
        "DatabaseError",
        "DiskFull",
        "AdminShutdown",
        "ReadOnlySqlTransaction",
    }:
        return (
            f"The database cannot be used: {str(told).strip()}. Is there room on its disk, may this user write to it, "
            "does its server run? What was not finished is undone; put that right and run the command again."
        )
    return None


def missing_extra(module: str) -> str | None:
    """The extra that brings a module; None for a module that no extra brings."""
    for extra, modules in _EXTRAS.items():
        if any(module == name or module.startswith(name + ".") for name in modules):
            return extra
    return None


def complain(paragraph: str) -> None:
    """To standard error, wrapped to the terminal's width; as one line when piped."""
    text = harmless(" ".join(paragraph.split()))
    if sys.stderr.isatty():
        text = textwrap.fill(text, width=min(100, _columns()), break_long_words=False, break_on_hyphens=False)
    sys.stderr.write(f"groundspeed: {text}\n")


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return 80
