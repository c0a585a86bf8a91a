"""Who is asking. A Caller is made once, at the door, from the connection and never from an argument."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

from memories.contract.errors import Forbidden
from memories.identity.permissions import UserAccess, load_user_access
from memories.models import Persona

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
    from django.http import HttpRequest


CURATE = "curate"  # the right of curators; Django's permission knowledge.curate gives it
ACT_FOR_USERS = "act_for_users"  # the right of a token of a service that serves many end users
WIPE = "wipe"  # the right of a token that may wipe its user's data without a confirmation in the browser
OPERATE = "operate"  # the right of operators; memory_project.operate gives it


PERMISSIONS = (f"knowledge.{CURATE}", f"memory_project.{OPERATE}")  # what gives a person a right


class Person(Protocol):
    """What the caller is made from: the user model of the project, seen from here."""

    pk: int


class Token(Protocol):
    """An API token, as far as a caller depends on it."""

    persona: str
    rights: list[str]


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


def build_caller(
    person: Person,
    *,
    channel: str,
    persona: str = "",
    rights: frozenset[str] = frozenset(),
    session: str = "",
    connection: str = "",
    limits: tuple[Limit, ...] = (),
    graph: str = "",
) -> Caller:
    """The caller that this person is at this door, with `persona` active, or the person's default one. Who they are and
    what they may is read afresh, whatever the object says.

    Raises Forbidden if the person is inactive or gone, or does not hold the persona.
    """
    standing = load_user_access(person.pk, PERMISSIONS)
    if standing is None or not standing.is_active:
        raise Forbidden("this account is switched off" if standing else "this account is not there any more")
    active = standing.personas.get(persona or standing.default_persona) or _persona_not_held(standing, persona)
    return Caller(
        email=standing.email,
        persona=active.name,
        personas=frozenset(standing.personas),
        rights=rights | ({CURATE} if standing.is_superuser else standing.rights),
        is_admin=standing.is_superuser,
        channel=channel,
        session=session,
        connection=connection,
        wants_context=active.memory_context,
        tools_allow=tuple(active.tools_allow),
        tools_deny=tuple(active.tools_deny),
        limits=(*limits, Limit(f"persona {active.name} {person.pk}", active.calls_per_minute, active.writes_per_day)),
        graph=graph,
    )


def _persona_not_held(standing: UserAccess, name: str) -> Persona:
    """An admin may act with any persona; raises Forbidden for others, and where there is none of the name."""
    if not standing.is_superuser:
        raise Forbidden(f"you do not hold the persona {name!r}", allowed=", ".join(sorted(standing.personas)))
    try:
        return Persona.objects.get(name=name)
    except Persona.DoesNotExist:
        raise Forbidden(f"there is no persona {name!r}") from None


def caller_from_request(request: HttpRequest, *, channel: str) -> Caller:
    """The caller behind a signed-in browser request or an authenticated REST request; made once a request."""
    user: AbstractBaseUser | AnonymousUser = request.user
    if not user.is_authenticated:
        raise Forbidden("sign in first")
    entry: tuple[int, Caller] | None = getattr(request, "_caller", None)
    if entry and entry[0] == user.pk:
        return replace(entry[1], channel=channel)
    token: Token | None = getattr(request, "auth", None)
    caller = build_caller(
        user,
        channel=channel,
        persona=token.persona if token else "",
        rights=frozenset(token.rights) if token else frozenset(),
    )
    request._caller = (user.pk, caller)  # type: ignore[attr-defined]
    return caller


def system_caller() -> Caller:
    """Whoever may run commands on this machine may do all that an admin may."""
    return Caller(email="operator", persona="", personas=frozenset(), is_admin=True, channel="command")
