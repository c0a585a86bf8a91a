"""What a person is and may, as the database has it now: read in one statement, since every call of every door asks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.db.models import Model

from memories.database import prepared_statements
from memories.models import Persona, PersonaMembership

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
