"""Events: their kinds, and how they are stored in the transaction of a change until a worker distributes them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext_noop
from django_q.tasks import async_task

from foundation.database import identity, prepared_statements

TEST = "webhook.test"  # sent on request only
KINDS: Mapping[str, str] = {
    "insight.captured": gettext_noop("An insight was captured"),
    "insight.decided": gettext_noop("An insight was approved or rejected, or the decision was taken back"),
    "insight.applied": gettext_noop("An insight was applied to the catalog"),
    "insight.rolled_back": gettext_noop("An applied insight was rolled back"),
    "memory.stale": gettext_noop("A memory may no longer be true"),
    "memory.verified": gettext_noop("A memory was verified"),
    "memory.corrected": gettext_noop("A memory was replaced by a correction"),
    "memory.restored": gettext_noop("A stale, replaced or archived memory is in force again"),
    "import.finished": gettext_noop("An import of yours was finished"),
}
# One statement, because it is part of every change of a memory. It stores nothing if no endpoint wants the kind, and
# returns whether no other event is waiting.
STORE = """
    INSERT INTO webhook_events (kind, record_id, owner, details, at)
    SELECT %(kind)s::varchar, id, %(owner)s::varchar, %(details)s::jsonb, %(at)s::timestamptz
    FROM unnest(%(ids)s::uuid[]) id
    WHERE EXISTS (
        SELECT 1 FROM webhook_endpoints WHERE paused_at IS NULL AND kinds @> ARRAY[%(kind)s::varchar]
    )
    RETURNING NOT EXISTS (SELECT 1 FROM webhook_events)"""


@identity.service("webhooks")
def emit(kind: str, ids: Sequence[UUID], *, owner: str = "", **details: Any) -> None:
    """Store an event for each of `ids`, if any endpoint wants this kind. Call this in the transaction of the change.

    `owner` is the only person who gets the events; if it is empty, everyone gets them who may read the memory or
    insight. `details` are ids, states and numbers. They must contain no texts, because they are stored.
    """
    if not ids:
        return
    values = {"kind": kind, "ids": list(ids), "owner": owner, "details": json.dumps(details), "at": timezone.now()}
    stored = prepared_statements.rows(STORE, values, primary=True)
    if (
        stored and stored[0][0]
    ):  # otherwise a task is queued already; if it has just ended, the schedule finds the events
        transaction.on_commit(queue_sending)


def queue_sending() -> None:
    async_task("memory_project.notifications.webhooks.tasks.send_webhook_events")
