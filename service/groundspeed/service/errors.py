"""The errors of the service, each with what happened and what to do.

GroundspeedError            (exit status 2; HTTP status on the class)
├── NotFound                404  no such project, job, series …
├── Conflict                409  the state does not allow it (already claimed, already running)
├── Invalid                 422  input that cannot be right, with the field and the allowed values
│   └── ConfigError              groundspeed.toml or settings, with line and column
├── Forbidden               403  a role or a token that does not reach
├── Unauthorized            401  no or a wrong token
├── TooLarge                413
├── TooMany                 429  asked too often; ``retry_s`` says when again
└── Unavailable             503  the database, broker or repository cannot be reached; try again
"""

from __future__ import annotations


class GroundspeedError(Exception):
    """``title`` says what happened in one sentence, ``advice`` what to do."""

    status = 500
    code = "error"

    def __init__(self, title: str, advice: str = "") -> None:
        super().__init__(f"{title} {advice}".strip())
        self.title = title
        self.advice = advice


class NotFound(GroundspeedError):
    status = 404
    code = "not-found"


class Conflict(GroundspeedError):
    status = 409
    code = "conflict"


class Invalid(GroundspeedError):
    status = 422
    code = "invalid"


class ConfigError(Invalid):
    """A configuration that cannot be used; ``line`` and ``column`` count from 1 if known; ``parts``: its mistakes."""

    code = "config"

    def __init__(
        self,
        title: str,
        advice: str = "",
        *,
        line: int | None = None,
        column: int | None = None,
        parts: tuple[str, ...] = (),
    ) -> None:
        super().__init__(title, advice)
        self.line = line
        self.column = column
        self.parts = parts


class Forbidden(GroundspeedError):
    status = 403
    code = "forbidden"


class Unauthorized(GroundspeedError):
    status = 401
    code = "unauthorized"


class TooLarge(GroundspeedError):
    status = 413
    code = "too-large"


class TooMany(GroundspeedError):
    """``retry_s``: seconds until it may be asked again."""

    status = 429
    code = "too-many"

    def __init__(self, title: str, advice: str = "", *, retry_s: int = 60) -> None:
        super().__init__(title, advice)
        self.retry_s = retry_s


class Unavailable(GroundspeedError):
    status = 503
    code = "unavailable"
