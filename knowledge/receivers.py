"""What happens to an insight when its memory is changed by other ways."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.dispatch import receiver
from django_q.tasks import async_task

from knowledge import insights
from knowledge.catalog import staleness
from knowledge.models import Insight, InsightState
from memories.access import Caller
from memories.errors import Conflict
from memories.models import MemoryRecord
from memories.services import corrected, edited, grounded, sharing


@receiver(sharing)
def refuse_to_share_what_waits(sender: object, record: MemoryRecord, **extra: Any) -> None:
    if Insight.objects.filter(pk=record.pk, state=InsightState.PENDING).exists():
        raise Conflict("waits for review: it becomes visible when it is approved", field="id")


@receiver(edited)
def review_what_was_changed(
    sender: object, record: MemoryRecord, caller: Caller, names: set[str], **extra: Any
) -> None:
    if names & {"content", "entity_urns", "related_columns"}:
        insights.review_again(caller=caller, record=record)


@receiver(corrected)
def supersede_the_insight(sender: object, record: MemoryRecord, **extra: Any) -> None:
    undecided = [InsightState.PENDING, InsightState.APPROVED]
    Insight.objects.filter(pk=record.pk, state__in=undecided, changeset=None).update(state=InsightState.SUPERSEDED)


@receiver(grounded)
def take_a_baseline(sender: object, record: MemoryRecord, **extra: Any) -> None:
    """How the named entities are now, once the memory is saved: at once from our own tables, otherwise by a worker."""
    if not staleness.named(record):
        return
    if settings.DATAHUB_GMS_URL:
        transaction.on_commit(partial(async_task, "knowledge.tasks.ground", record.pk.hex))
    else:
        transaction.on_commit(partial(staleness.ground, [record.pk]))
