"""Who is asking. A Caller is made once, at the door, from the connection and never from an argument."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol

from memories.contract.errors import Forbidden
from memories.models import Persona, PersonaMembership

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
    from django.http import HttpRequest


CURATE = "curate"  # the right of curators; Django's permission knowledge.curate gives it
ACT_FOR_USERS = "act_for_users"  # the right of a token of a service that serves many end users
WIPE = "wipe"  # the right of a token that may wipe its user's data without a confirmation in the browser
OPERATE = "operate"  # the right of operators; memory_project.operate gives it


class Person(Protocol):
    """What the caller is made from: the user model of the project, seen from here."""

    pk: int
    email: str
    is_active: bool
    is_superuser: bool

    @property
    def rights(self) -> frozenset[str]: ...


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
    door: str = "python"
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
    def curates(self) -> bool:
        """Whether the caller reviews what others propose."""
        return self.is_admin or CURATE in self.rights

    @property
    def operates(self) -> bool:
        """Whether the caller sees to how the installation works; it opens nobody's memories."""
        return self.is_admin or OPERATE in self.rights

    def curates_for(self, persona: str) -> bool:
        """A persona's memories are decided by those curators who hold it; admins decide all."""
        return self.is_admin or (self.curates and persona in self.personas)

    def acts_for(self, owner: str) -> bool:
        """Whether the caller may change what `owner` wrote."""
        return self.is_admin or (bool(self.email) and self.email == owner)


def caller_for(
    person: Person,
    *,
    door: str,
    persona: str = "",
    rights: frozenset[str] = frozenset(),
    session: str = "",
    connection: str = "",
    limits: tuple[Limit, ...] = (),
    graph: str = "",
) -> Caller:
    """The caller that this person is at this door, with `persona` active, or the person's default one.

    Raises Forbidden if the person is inactive or does not hold the persona.
    """
    if not person.is_active:
        raise Forbidden("this account is switched off")
    default, personas = _personas_of(person)
    active = personas.get(persona or default) or _persona_not_held(person, persona, personas)
    return Caller(
        email=person.email.lower(),
        persona=active.name,
        personas=frozenset(personas),
        rights=rights | person.rights,
        is_admin=person.is_superuser,
        door=door,
        session=session,
        connection=connection,
        wants_context=active.memory_context,
        tools_allow=tuple(active.tools_allow),
        tools_deny=tuple(active.tools_deny),
        limits=(*limits, _limit_of(active, person)),
        graph=graph,
    )


def _personas_of(person: Person) -> tuple[str, dict[str, Persona]]:
    """The name of the person's default persona, and those they hold by name, first by the alphabet."""
    memberships = (
        PersonaMembership.objects.filter(user_id=person.pk).select_related("persona").order_by("persona__name")
    )
    personas = {membership.persona.name: membership.persona for membership in memberships}
    if not personas:
        fallback = Persona.default()
        return fallback.name, {fallback.name: fallback}
    default = next((membership.persona.name for membership in memberships if membership.is_default), None)
    return default or next(iter(personas)), personas


def _persona_not_held(person: Person, name: str, personas: dict[str, Persona]) -> Persona:
    """An admin may act with any persona; raises Forbidden for others, and where there is none of the name."""
    if not person.is_superuser:
        raise Forbidden(f"you do not hold the persona {name!r}", allowed=", ".join(sorted(personas)))
    try:
        return Persona.objects.get(name=name)
    except Persona.DoesNotExist:
        raise Forbidden(f"there is no persona {name!r}") from None


def _limit_of(persona: Persona, person: Person) -> Limit:
    return Limit(f"persona {persona.name} {person.pk}", persona.calls_per_minute, persona.writes_per_day)


def caller_of(request: HttpRequest, *, door: str) -> Caller:
    """The caller behind a signed-in browser request or an authenticated REST request; made once a request."""
    user: AbstractBaseUser | AnonymousUser = request.user
    if not user.is_authenticated:
        raise Forbidden("sign in first")
    entry: tuple[int, Caller] | None = getattr(request, "_caller", None)
    if entry and entry[0] == user.pk:
        return replace(entry[1], door=door)
    token: Token | None = getattr(request, "auth", None)
    caller = caller_for(
        user,  # type: ignore[arg-type]  # the project's user model satisfies Person
        door=door,
        persona=token.persona if token else "",
        rights=frozenset(token.rights) if token else frozenset(),
    )
    request._caller = (user.pk, caller)  # type: ignore[attr-defined]
    return caller


def operator() -> Caller:
    """Whoever may run commands on this machine may do all that an admin may."""
    return Caller(email="operator", persona="", personas=frozenset(), is_admin=True, door="command")
