"""The states of entities that memories were last compared with. The next check compares only what differs from them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

from django.db import connection

from foundation.database import sql_files
from knowledge.catalog import identity
from knowledge.freshness.baselines import EntitySnapshot
from knowledge.models import EntityState

SQL = sql_files.statements(__file__)


def changed(entities: Mapping[str, EntitySnapshot]) -> list[str]:
    """Return the URNs of the entities that differ from their saved states."""
    states = EntityState.objects.filter(catalog=identity(), urn__in=list(entities))
    saved = dict(states.values_list("urn", "fingerprint"))
    return [urn for urn, entity in entities.items() if saved.get(urn) != entity.fingerprint]


def save(entities: Mapping[str, EntitySnapshot], began: datetime) -> None:
    """Save the states that a check has compared memories with. At `began`, a `database_time`, it began to read them."""
    with connection.cursor() as cursor:
        cursor.execute(SQL["save"], {**_values(entities), "began": began})


def empty_others(entities: Mapping[str, EntitySnapshot], *, at: datetime | None = None) -> None:
    """Empty the saved states that differ from what was read, so that the next check compares these entities anyway.

    Call it before memories are compared with what was read. An entity may be as before at the next check, or this check
    may break off: then the next one would find no change, and memories would stay stale. A check that saves the states
    later passes the time at which it began.
    """
    if entities:
        with connection.cursor() as cursor:
            cursor.execute(SQL["empty_others"], {**_values(entities), "at": at})


def database_time() -> datetime:
    """Return the time of the database, because the clocks of several machines differ."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cast(datetime, cursor.fetchone()[0])


def _values(entities: Mapping[str, EntitySnapshot]) -> dict[str, Any]:
    fingerprints = [entity.fingerprint for entity in entities.values()]
    return {"catalog": identity(), "urns": list(entities), "fingerprints": fingerprints}
