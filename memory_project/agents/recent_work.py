"""Recent entities of a person, from the audit log and their memories."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Max
from django.utils import timezone

from foundation.operations.fields import URN_PATTERN
from foundation.people.caller import Caller
from knowledge.news.analyst import entities_of
from memory_project.models import AuditEvent

SPAN = timedelta(days=14)  # how far back the calls of a person are read
MAX_CALLS = 200  # maximum number of calls that are read, the newest
MAX_ENTITIES = 30
ENTITY_ARGUMENTS = ("urn", "entity_urn", "entity_urns", "entities")


def last_day_before_today(caller: Caller) -> datetime:
    """Return the time of the caller's last call before today, or SPAN ago if there is none since then."""
    today = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    earliest = timezone.now() - SPAN
    calls = AuditEvent.objects.filter(email=caller.email, at__gt=earliest, at__lt=today).order_by()
    last: datetime | None = calls.aggregate(at=Max("at"))["at"]
    return last or earliest


def recent_entities(caller: Caller) -> list[str]:
    """Return URNs of entities that the caller's calls named, newest first, then those of the caller's memories."""
    calls = AuditEvent.objects.filter(email=caller.email, at__gt=timezone.now() - SPAN, outcome=AuditEvent.Outcome.OK)
    arguments = calls.order_by("-at").values_list("arguments", flat=True)[:MAX_CALLS]
    urns = [urn for given in arguments for urn in _urns_in(given)]
    return list(dict.fromkeys([*urns, *entities_of(caller)]))[:MAX_ENTITIES]


def _urns_in(arguments: dict[str, Any]) -> Iterator[str]:
    for name in ENTITY_ARGUMENTS:
        value = arguments.get(name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, str) and URN_PATTERN.fullmatch(item):
                yield item
