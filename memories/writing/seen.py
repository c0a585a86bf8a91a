"""The state of a memory that a person saw before deciding on it, as a token that the decision carries back.

A token reads for example `stale.31`: the status and the number of the last revision.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC
from uuid import UUID

from django.db import transaction
from django.db.models import Max
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Conflict, Invalid, NotFound
from foundation.people.caller import Caller
from memories.models import MemoryRecord, MemoryRevision

TOKEN = re.compile(r"[a-z]{1,12}\.(\d{1,18})")
SHOWN = 3  # maximum number of changes that a refusal names


@identity.service("history")
def memory_versions(records: Collection[MemoryRecord]) -> dict[UUID, str]:
    """Return the token of each memory, in one query."""
    rows = MemoryRevision.objects.filter(record__in=[record.pk for record in records]).order_by()
    last = dict(rows.values_list("record").annotate(Max("pk")))
    return {record.pk: f"{record.status}.{last.get(record.pk, 0)}" for record in records}


def version_after(record: MemoryRecord, revisions: Iterable[int]) -> str:
    """Return the token of a memory of which all revisions are known."""
    return f"{record.status}.{max(revisions, default=0)}"


@contextmanager
def unchanged(caller: Caller, record_id: UUID, seen: str) -> Iterator[None]:
    """Run the block in a transaction, with the memory locked in the state of the token `seen`.

    Raises Conflict if the memory has changed since, and names who changed it and when. An empty token is not compared.
    """
    if not seen:
        yield
        return
    if not (match := TOKEN.fullmatch(seen)):
        raise Invalid(
            gettext("%(seen)r is not a state of a memory") % {"seen": seen[:80]},
            field="seen",
            allowed=gettext("the state that a page showed"),
        )
    with transaction.atomic():
        record = MemoryRecord.objects.visible_to(caller).select_for_update().filter(pk=record_id).first()
        if record is None:
            raise NotFound(gettext("no such memory"), field="id")
        with identity.service("history"):
            newer = list(MemoryRevision.objects.filter(record=record, pk__gt=int(match[1])).order_by("-pk")[:SHOWN])
        changes = [
            gettext("%(person)s (%(change)s) on %(day)s at %(time)s UTC")
            % {
                "person": row.changed_by,
                "change": row.change.replace("_", " "),
                "day": f"{row.valid_to.astimezone(UTC):%Y-%m-%d}",
                "time": f"{row.valid_to.astimezone(UTC):%H:%M}",
            }
            for row in reversed(newer)
        ]
        if changes:
            raise Conflict(
                gettext("has changed since you saw it, by %(changes)s. It is %(status)s now")
                % {"changes": "; ".join(changes), "status": record.status},
                field="id",
            )
        yield
