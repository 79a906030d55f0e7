"""Who asks: a token, a person who is signed in, whoever sits at this machine, or nobody in particular."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from groundspeed.service.errors import Forbidden, Unauthorized

ROLES = ("viewer", "triager", "operator", "admin")
"""Each may do what those before it may. ``worker`` stands apart: it speaks for one node and reads nothing."""

SCOPES = {"read": "viewer", "triage": "triager", "results": "operator", "work": "operator", "admin": "admin"}
"""What a token may be narrowed to, each with the least role that it is of use to. All but ``results`` may read, too."""

_SCOPE_OF_ROLE = {"viewer": "read", "triager": "triage", "operator": "work", "admin": "admin"}


def rank(role: str) -> int:
    """Place among the roles; -1 for none of them."""
    return ROLES.index(role) if role in ROLES else -1


@dataclass(frozen=True, slots=True)
class Principal:
    """``node``: the only node a worker's token speaks for; None: any. ``projects`` and ``scopes`` empty: all."""

    name: str
    role: str
    node: str | None = None
    projects: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    kind: Literal["token", "account", "local", "anonymous"] = "token"
    account: int | None = None
    """The person, or the person whose token it is."""

    def require(self, role: str, scope: str = "") -> None:
        """Raises :class:`Forbidden` when this one may not do what ``role`` may, or not this kind of thing (``scope``;
        the role's own by default); :class:`Unauthorized` when nobody has said who they are.
        """
        if role == "worker":
            if self.role not in {"worker", "admin"} or self.scopes:
                raise Forbidden(
                    "This token is not a worker's.", "Make one: groundspeed token create NAME --role worker --node NODE"
                )
            return
        if rank(self.role) < rank(role):
            if self.kind == "anonymous":
                raise Unauthorized(f"This needs the role {role}.", "Sign in, or send a token.")
            raise Forbidden(f"This needs the role {role}, and {self.name} has {self.role}.", "Ask an admin for it.")
        needed = scope or _SCOPE_OF_ROLE[role]
        enough = {"read", "triage", "work", "admin"} if needed == "read" else {needed}
        if self.scopes and enough.isdisjoint(self.scopes):
            raise Forbidden(
                f"This token is for {', '.join(self.scopes)} alone; this needs {needed}.", "Make a token with it."
            )

    def may(self, role: str) -> bool:
        """Whether :meth:`require` lets it through."""
        try:
            self.require(role)
        except (Forbidden, Unauthorized):
            return False
        return True

    def require_node(self, node: str) -> None:
        """Raises :class:`Forbidden` when this worker's token is for another node."""
        if self.node is not None and self.node != node:
            raise Forbidden(
                f"This token is for node {self.node!r}, not {node!r}.",
                "Give each node a token of its own, or this one its name with GROUNDSPEED_WORKER_NODE.",
            )

    def require_project(self, slug: str) -> None:
        if self.projects and slug not in self.projects:
            raise Forbidden(f"This token does not reach project {slug!r}.", f"It reaches {', '.join(self.projects)}.")


LOCAL = Principal("local", "admin", kind="local")
"""Whoever sits at this machine, where the service can be reached from nowhere else."""

ANONYMOUS = Principal("anonymous", "viewer", kind="anonymous")
"""Whoever reaches a service that anybody may read."""
