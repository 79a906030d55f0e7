"""Log lines for people or for machines, each with what it is about: request, task, job, attempt."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Literal, TextIO

_about: ContextVar[dict[str, str]] = ContextVar("groundspeed_log_about", default={})  # noqa: B039 - never changed in place


@contextmanager
def about(**facts: str) -> Iterator[None]:
    """Every line logged inside carries these facts."""
    token = _about.set({**_about.get(), **facts})
    try:
        yield
    finally:
        _about.reset(token)


class JsonLines(logging.Formatter):
    """One JSON object a line: at, level, logger, message, error with its traceback, and what the line is about."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_about.get(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


class TextLines(logging.Formatter):
    """The same for people."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class's name
        facts = {**_about.get(), **getattr(record, "facts", {})}
        text = super().formatMessage(record)
        return f"{text} [{' '.join(f'{k}={v}' for k, v in facts.items())}]" if facts else text


class StandardError(logging.StreamHandler[TextIO]):
    """To whatever standard error is at that moment: it may have been replaced, or closed, since logging was set up."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)  # the base class would bind a stream for good

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None and not getattr(sys.stderr, "closed", False):
            super().emit(record)

    def flush(self) -> None:
        if sys.stderr is not None and not getattr(sys.stderr, "closed", False):
            super().flush()


def configure(level: str, form: Literal["text", "json"]) -> None:
    """Send all logging of this process to standard error in that form."""
    handler = StandardError()
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "alembic.runtime", "celery.beat"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))
