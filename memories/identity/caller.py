"""Who is asking. A Caller is made once, at the door, from the connection and never from an argument."""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

CURATE = "curate"  # the right of curators; Django's permission knowledge.curate gives it
ACT_FOR_USERS = "act_for_users"  # the right of a token of a service that serves many end users
WIPE = "wipe"  # the right of a token that may wipe its user's data without a confirmation in the browser
OPERATE = "operate"  # the right of operators; memory_project.operate gives it


@dataclass(frozen=True)
class Limit:
    """What may be called through one token, or by one person under one persona; None is without limit."""

    key: str
    calls_per_minute: int | None
    writes_per_day: int | None


@dataclass(frozen=True, kw_only=True)
class Caller:
    """One person (or service) on one connection.

    `persona` is the one active here: what is written carries it and its tool globs apply.
    `personas` are all that the person holds: what is read may belong to any of them.
    """

    email: str
    persona: str
    personas: frozenset[str]
    rights: frozenset[str] = frozenset()
    is_admin: bool = False
    channel: str = "python"
    session: str = ""
    connection: str = ""  # what a context is shared by: a token, or one process on stdio
    wants_context: bool = True  # whether memories come along unasked on the active persona's connections
    tools_allow: tuple[str, ...] = field(default=("*",), repr=False)
    tools_deny: tuple[str, ...] = field(default=(), repr=False)
    limits: tuple[Limit, ...] = field(default=(), repr=False)
    graph: str = ""  # the persona whose graph this connection has; "" is the person's own

    def may_use(self, tool: str) -> bool:
        """Deny first, then allow, otherwise denied."""
        if any(fnmatchcase(tool, pattern) for pattern in self.tools_deny):
            return False
        return any(fnmatchcase(tool, pattern) for pattern in self.tools_allow)

    @property
    def is_curator(self) -> bool:
        """Whether the caller reviews what others propose."""
        return self.is_admin or CURATE in self.rights

    @property
    def is_operator(self) -> bool:
        """Whether the caller sees to how the installation works; it opens nobody's memories."""
        return self.is_admin or OPERATE in self.rights

    def can_review_for(self, persona: str) -> bool:
        """A persona's memories are decided by those curators who hold it; admins decide all."""
        return self.is_admin or (self.is_curator and persona in self.personas)

    def can_edit_for(self, owner: str) -> bool:
        """Whether the caller may change what `owner` wrote."""
        return self.is_admin or (bool(self.email) and self.email == owner)


def system_caller() -> Caller:
    """Whoever may run commands on this machine may do all that an admin may."""
    return Caller(email="operator", persona="", personas=frozenset(), is_admin=True, channel="command")
