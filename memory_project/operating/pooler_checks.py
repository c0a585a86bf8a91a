"""System checks of what a pooler in front of PostgreSQL could take away."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, NotSupportedError, connection

from foundation.database import identity, owner

EFFECTS = {
    "ivfflat.probes": "searches of large scopes find fewer memories",
    "ivfflat.iterative_scan": "searches among the memories of few people may find none",
    "work_mem": "counting facets writes to the disk",
    "random_page_cost": "queries may not use their indexes",
}


@register(Tags.database)
def check_search_settings(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    """Check that a transaction has the settings that the engine sends with it."""
    if not databases:
        return []
    try:
        with identity.service("command"), connection.cursor() as cursor:
            names = list(settings.DATABASE_SEARCH)
            cursor.execute("SELECT " + ", ".join(f"current_setting('{name}', true)" for name in names))
            found = dict(zip(names, cursor.fetchone(), strict=True))
    except (DatabaseError, NotSupportedError):
        return []  # check_database reports it
    hint = "Does the pooler assign connections per statement? It must assign them per transaction or per session."
    return [
        Error(
            f"{name} is {found[name] or 'unset'} instead of {wanted}: {EFFECTS[name]}.",
            hint=hint,
            id="commonplace.E020",
        )
        for name, wanted in settings.DATABASE_SEARCH.items()
        if found[name] != wanted
    ]


@register(Tags.database)
def check_owner_connection(*, databases: Sequence[str] | None = None, **extra: Any) -> list[CheckMessage]:
    if not databases or not settings.DATABASE_URL:
        return []
    try:
        if not owner.leads_to_pooler():
            return []
    except psycopg.Error:
        return []  # `migrate` reports it; other machines need not reach this address
    hint = (
        "Set DATABASE_OWNER_URL to PostgreSQL's own address. Otherwise no backup can be written, and the vector index "
        "is built with the server's maintenance_work_mem, which is too little for large ones."
    )
    return [Warning("DATABASE_OWNER_URL leads through a pooler.", hint=hint, id="commonplace.W020")]
