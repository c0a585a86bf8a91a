"""The authenticated caller of a request.

The channel (portal, REST, MCP, command line) builds the Caller from the credentials of the connection, not from
arguments of the request. Only a service with the right ACT_FOR_USERS may name the user for whom it calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from django.utils.translation import gettext

from foundation.operations.errors import Forbidden

# Rights of callers
CURATE = "curate"  # review the proposals of others; granted by Django's permission knowledge.curate
ACT_FOR_USERS = "act_for_users"  # for a service's token: act for the service's end users
WIPE = "wipe"  # for a user's token: wipe the user's data without a confirmation in the browser
ADMINISTER = "administer"  # for an admin's or operator's token: manage accounts, tokens and the index over REST
OPERATE = "operate"  # run the installation, without access to memories; granted by memory_project.operate


@dataclass(frozen=True)
class Limit:
    """Rate limits of one token, or of one person under one persona. None means no limit."""

    key: str
    calls_per_minute: int | None
    writes_per_day: int | None


@dataclass(frozen=True, kw_only=True)
class Caller:
    """One person (or service) on one connection."""

    email: str
    persona: str  # the active persona: new memories belong to it, and its tool patterns apply
    personas: frozenset[str]  # all personas that the person holds; their shared memories are readable
    rights: frozenset[str] = frozenset()
    is_admin: bool = False
    channel: str = "python"
    session: str = ""
    connection: str = ""  # identifies the client: a token, or one process on stdio
    wants_context: bool = True  # whether to attach memories to tool responses; a setting of the active persona
    tools_allow: tuple[str, ...] = field(default=("*",), repr=False)
    tools_deny: tuple[str, ...] = field(default=(), repr=False)
    toolsets: tuple[str, ...] = ()  # offered to connections that choose none; () means the server's default
    limits: tuple[Limit, ...] = field(default=(), repr=False)
    has_rest_token: bool = False  # whether a REST request has a token, which is made for a program
    graph: str = ""  # persona whose knowledge graph this connection uses; "" means the person's own graph

    @property
    def may_administer(self) -> bool:
        """Return whether the connection may do what is left to admins. Their tokens need a right for it."""
        return not self.has_rest_token or ADMINISTER in self.rights

    def may_use(self, tool: str, choice: str = "") -> bool:
        """Return whether the persona and the connection allow the tool, or one choice of it, such as a command.

        A pattern matches a tool with all of its choices, or one choice as `memory_manage.erase`.
        """
        names = (tool, f"{tool}.{choice}") if choice else (tool,)
        if any(fnmatchcase(name, pattern) for name in names for pattern in self.tools_deny):  # a denial always wins
            return False
        if any(fnmatchcase(name, pattern) for name in names for pattern in self.tools_allow):
            return True
        return not choice and any(fnmatchcase(tool, pattern.partition(".")[0]) for pattern in self.tools_allow)

    @property
    def is_curator(self) -> bool:
        return self.is_admin or CURATE in self.rights

    @property
    def is_operator(self) -> bool:
        return self.is_admin or OPERATE in self.rights

    def can_review_for(self, persona: str) -> bool:
        return self.is_admin or (self.is_curator and persona in self.personas)

    def can_edit_for(self, owner: str) -> bool:
        return self.is_admin or (bool(self.email) and self.email == owner)


def require_user(caller: Caller) -> None:
    """Raise Forbidden if the connection has no user, because every memory needs an owner."""
    if not caller.email:
        raise Forbidden(gettext("not authenticated: this connection is not tied to a user"))


def system_caller() -> Caller:
    """Return the caller for management commands and tasks.

    It is an admin, because whoever starts commands and workers controls the machine.
    """
    return Caller(email="operator", persona="", personas=frozenset(), is_admin=True, channel="command")
