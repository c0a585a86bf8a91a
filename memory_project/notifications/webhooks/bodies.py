"""Bodies of deliveries, built when they are sent: what the owner of the endpoint may read at that moment."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from django.conf import settings

from foundation.database import identity
from foundation.links import url_for
from foundation.people.caller import Caller
from knowledge.models import Insight, InsightState
from memories.models import MemoryRecord, Status
from memory_project.notifications.webhooks.models import Delivery


class About(Protocol):
    """An event or a delivery."""

    kind: str
    record_id: UUID | None
    details: Any


Readable = Mapping[UUID, MemoryRecord | Insight]


def readable(caller: Caller, rows: Sequence[About]) -> Readable:
    """Return the memories and insights of these events that the caller may read now, by id."""
    memories = {row.record_id for row in rows if row.kind.startswith("memory.")}
    memories |= {UUID(row.details["correction_id"]) for row in rows if "correction_id" in row.details}
    insights = {row.record_id for row in rows if row.kind.startswith("insight.")}
    found: dict[UUID, MemoryRecord | Insight] = {}
    with identity.acting_as(caller):
        if memories:
            found |= {row.pk: row for row in _records(caller).filter(pk__in=memories)}
        if insights:
            visible = Insight.objects.visible_to(caller).select_related("record").defer("record__search")
            found |= {row.pk: row for row in visible.filter(pk__in=insights)}
    return found


def _records(caller: Caller) -> Any:
    return MemoryRecord.objects.visible_to(caller).defer("search")


def is_readable(row: About, found: Readable) -> bool:
    """Return whether the event may be sent. Events about neither a memory nor an insight have one recipient only."""
    return row.record_id in found or not row.kind.startswith(("memory.", "insight."))


def body_of(caller: Caller, delivery: Delivery, found: Readable, *, with_texts: bool) -> str:
    """Return the JSON text to send. `found` is the result of `readable` and contains the delivery's memory."""
    details = {
        name: value
        for name, value in delivery.details.items()
        if name != "correction_id" or UUID(value) in found
    }  # fmt: skip
    subject = found.get(delivery.record_id) if delivery.record_id else None
    if isinstance(subject, Insight):
        data = {"insight_id": subject.pk.hex, "state": subject.state, "url": _link("insight", subject.pk)}
        record: MemoryRecord | None = subject.record
    elif isinstance(subject, MemoryRecord):
        data = {"memory_id": subject.pk.hex, "status": subject.status, "url": _link("memory", subject.pk)}
        record = subject
    else:
        data = {"import_id": delivery.record_id.hex} if delivery.record_id else {}
        record = None
    texts = _texts(record) if record and with_texts and not _is_forgotten(caller, record, subject) else {}
    whole = {"type": delivery.kind, "timestamp": delivery.occurred_at.isoformat(), "data": data | details | texts}
    return json.dumps(whole, ensure_ascii=False)


def _texts(record: MemoryRecord) -> dict[str, Any]:
    return {
        "content": record.content,
        "entity_urns": record.entity_urns,
        "persona": record.persona,
        "visibility": record.visibility,
        "created_by": record.created_by,
        "stale_reason": record.stale_reason,
    }


def _is_forgotten(caller: Caller, record: MemoryRecord, subject: object) -> bool:
    """Return whether another person has forgotten the memory. A rejected insight is archived, but not forgotten."""
    if record.status != Status.ARCHIVED or record.created_by == caller.email:
        return False
    return not (isinstance(subject, Insight) and subject.state == InsightState.REJECTED)


def _link(kind: str, pk: UUID) -> str:
    return f"{settings.COMMONPLACE_URL}{url_for(kind, pk.hex)}"
