"""Entities that a person's tool calls were about in the last hour, newest first.

A capture is usually about what its author has just looked at. The entities of calls are kept in the process's cache,
so they cost no query. Another process knows only those that memories were attached about, from the impressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256

from django.core.cache import caches
from django.utils import timezone

from foundation.people.caller import Caller
from memories.models import Impression

WITHIN = timedelta(hours=1)
KEPT = 10  # maximum number of entities that are kept of a person
ATTACHED = 5  # maximum number of impressions that are read


def remember_recent(caller: Caller, urns: Sequence[str]) -> None:
    """Keep the entities that a call asked about."""
    if not urns or not caller.email:
        return
    for key in _keys(caller):
        kept = dict.fromkeys([*urns, *caches["calls"].get(key, ())])
        caches["calls"].set(key, list(kept)[:KEPT], WITHIN.total_seconds())


def recent(caller: Caller) -> list[str]:
    """Return the entities that this connection's calls were about, or without any, those of the person."""
    for key in _keys(caller):
        if urns := caches["calls"].get(key):
            return list(urns)
    rows = Impression.objects.filter(to=caller.email, at__gt=timezone.now() - WITHIN)
    rows = rows.filter(connection=caller.connection) if caller.connection else rows
    attached = rows.order_by("-at").values_list("record__entity_urns", flat=True)[:ATTACHED]
    return list(dict.fromkeys(urn for urns in attached for urn in urns))[:KEPT]


def _keys(caller: Caller) -> list[str]:
    names = [caller.connection, caller.email] if caller.connection else [caller.email]
    return [f"recent-{sha256(name.encode()).hexdigest()}" for name in names]
