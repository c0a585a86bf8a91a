"""What a person is and may, as the database has it now: read in one statement, since every call of every door asks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Protocol

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import Model

from memories.contract.errors import Forbidden
from memories.database import prepared_statements
from memories.identity.caller import CURATE, OPERATE, Caller, Limit
from memories.models import Persona, PersonaMembership

PERMISSIONS = (f"knowledge.{CURATE}", f"memory_project.{OPERATE}")  # what gives a person a right


class Person(Protocol):
    """What the caller is made from: the user model of the project, seen from here."""

    pk: int


class Token(Protocol):
    """An API token, as far as a caller depends on it."""

    persona: str
    rights: list[str]


if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
    from django.http import HttpRequest

USER_ACCESS = """
    SELECT person.email, person.is_active, person.is_superuser,
           ARRAY(
               SELECT permission.codename
               FROM {permissions} permission JOIN {content_types} kind ON kind.id = permission.content_type_id
               WHERE kind.app_label || '.' || permission.codename = ANY(%(rights)s) AND permission.id IN (
                   SELECT permission_id FROM {user_permissions} WHERE user_id = %(id)s
                   UNION ALL
                   SELECT permission_id FROM {user_groups} JOIN {group_permissions} USING (group_id)
                   WHERE user_id = %(id)s)),
           (SELECT json_agg(json_build_array(membership.is_default, to_json(persona)) ORDER BY persona.name)
            FROM {memberships} membership JOIN {personas} persona ON persona.id = membership.persona_id
            WHERE membership.user_id = %(id)s)::text,
           (SELECT to_json(persona) FROM {personas} persona WHERE persona.is_default)::text
    FROM {users} person WHERE person.id = %(id)s"""


@dataclass(frozen=True)
class UserAccess:
    """`rights` are the code names of the permissions asked about; `personas` those held, by name, never none."""

    email: str
    is_active: bool
    is_superuser: bool
    rights: frozenset[str]
    personas: dict[str, Persona]
    default_persona: str


def load_user_access(person_id: int, permissions: Iterable[str]) -> UserAccess | None:
    """None for a person who is not there any more. `permissions` are written "app.codename"."""
    rows = prepared_statements.rows(_statement(), {"id": person_id, "rights": list(permissions)})
    if not rows:
        return None
    email, is_active, is_superuser, rights, memberships, fallback = rows[0]
    entries = json.loads(memberships) if memberships else [[True, json.loads(fallback)]]
    columns = {field.attname for field in Persona._meta.concrete_fields}  # a newer version may have added some
    personas = {
        values["name"]: Persona(**{name: value for name, value in values.items() if name in columns})
        for _, values in entries
    }
    default = next((values["name"] for is_default, values in entries if is_default), next(iter(personas)))
    return UserAccess(email.lower(), is_active, is_superuser, frozenset(rights), personas, default)


@cache
def _statement() -> str:
    users = get_user_model()
    models: dict[str, type[Model]] = {
        "users": users,
        "user_permissions": users.user_permissions.through,
        "user_groups": users.groups.through,
        "group_permissions": Group.permissions.through,
        "permissions": Permission,
        "content_types": ContentType,
        "memberships": PersonaMembership,
        "personas": Persona,
    }
    return USER_ACCESS.format(
        **{name: connection.ops.quote_name(model._meta.db_table) for name, model in models.items()}
    )


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
