"""A person's account status, permissions and personas, and the Caller built from them.

Every request needs these data, so one prepared statement loads all of them. Nothing is cached here: revoking a
permission takes effect on the next call. The cache of MCP over HTTP is dropped by each change
(memory_project/mcp/caller_cache.py).
"""

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
from django.utils.translation import gettext

from foundation.database import identity, prepared_statements
from foundation.operations.errors import Forbidden
from foundation.people.caller import CURATE, OPERATE, Caller, Limit
from foundation.people.models import Persona, PersonaMembership

PERMISSIONS = (f"knowledge.{CURATE}", f"memory_project.{OPERATE}")  # Django permissions that grant the rights


class Person(Protocol):
    """The user model of the project, as far as this app depends on it."""

    pk: int


class Token(Protocol):
    """An API token, as far as this app depends on it."""

    persona: str
    rights: list[str]
    graph: str

    @property
    def limits(self) -> tuple[Limit, ...]: ...


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
    email: str
    is_active: bool
    is_superuser: bool
    rights: frozenset[str]  # code names of the requested permissions that were granted to the person
    personas: dict[str, Persona]  # by name; never empty
    default_persona: str


def load_user_access(person_id: int, permissions: Iterable[str]) -> UserAccess | None:
    """Load a person's access, or return None if the account was deleted.

    `permissions` are the Django permissions to check, each as "app.codename".
    """
    values = {"id": person_id, "rights": list(permissions)}
    rows = prepared_statements.rows(_statement(), values, primary=True, public=True)
    if not rows:
        return None
    email, is_active, is_superuser, rights, memberships, fallback = rows[0]
    entries = json.loads(memberships) if memberships else [[True, json.loads(fallback)]]
    # A newer version of the application may have added columns to the table.
    columns = {field.attname for field in Persona._meta.concrete_fields}
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
    """Build the Caller for a person. The active persona is `persona`, or the person's default persona if it is empty.

    The account is loaded from the database, because `person` may be out of date. Raise Forbidden if the account is
    inactive or deleted, or if the person may not use the persona. Admins may use every persona.
    """
    access = load_user_access(person.pk, PERMISSIONS)
    if access is None or not access.is_active:
        raise Forbidden(gettext("this account is disabled") if access else gettext("this account no longer exists"))
    active = access.personas.get(persona or access.default_persona) or _load_persona_not_held(access, persona)
    return Caller(
        email=access.email,
        persona=active.name,
        personas=frozenset(access.personas),
        rights=rights | ({CURATE} if access.is_superuser else access.rights),
        is_admin=access.is_superuser,
        channel=channel,
        session=session,
        connection=connection,
        wants_context=active.memory_context,
        toolsets=tuple(active.toolsets),
        tools_allow=tuple(active.tools_allow),
        tools_deny=tuple(active.tools_deny),
        limits=(*limits, Limit(f"persona {active.name} {person.pk}", active.calls_per_minute, active.writes_per_day)),
        graph=graph,
    )


def _load_persona_not_held(access: UserAccess, name: str) -> Persona:
    """Return the persona. Raise Forbidden if the person is not an admin or the persona doesn't exist."""
    if not access.is_superuser:
        raise Forbidden(
            gettext("you do not hold the persona %(name)r") % {"name": name}, allowed=", ".join(sorted(access.personas))
        )
    try:
        return Persona.objects.get(name=name)
    except Persona.DoesNotExist:
        raise Forbidden(gettext("there is no persona %(name)r") % {"name": name}) from None


def caller_from_request(request: HttpRequest, *, channel: str) -> Caller:
    """Return the caller of a signed-in browser request or an authenticated REST request.

    The rest of the request runs under the caller's database identity. The caller is built once per user and request.
    Raise Forbidden if the user is not signed in, and as `build_caller`.
    """
    user: AbstractBaseUser | AnonymousUser = request.user
    if not user.is_authenticated:
        raise Forbidden(gettext("sign in first"))
    cached: tuple[int, Caller] | None = getattr(request, "_caller", None)
    if cached and cached[0] == user.pk:  # they differ if the user has signed in during the request
        return replace(cached[1], channel=channel)
    token: Token | None = getattr(request, "auth", None)
    caller = build_caller(
        user,
        channel=channel,
        persona=token.persona if token else "",
        rights=frozenset(token.rights) if token else frozenset(),
        limits=token.limits if token else (),
        graph=token.graph if token else "",
    )
    caller = replace(caller, has_rest_token=token is not None)
    request._caller = (user.pk, caller)  # type: ignore[attr-defined]
    identity.act_as(caller)
    return caller
