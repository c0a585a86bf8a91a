"""What happens to an insight when its memory is changed by other ways."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.dispatch import receiver
from django_q.tasks import async_task

from knowledge import redaction
from knowledge.catalog import baselines
from knowledge.models import EntityBaseline, Insight, InsightState
from memories.contract.errors import Conflict
from memories.events import corrected, erased, erasing, grounded, restoring, sharing
from memories.models import MemoryRecord


@receiver(sharing)
def refuse_to_share_what_waits(sender: object, record: MemoryRecord, **extra: Any) -> None:
    if Insight.objects.filter(pk=record.pk, state=InsightState.PENDING).exists():
        raise Conflict("waits for review: it becomes visible when it is approved", field="id")


@receiver(restoring)
def refuse_to_restore_what_was_rejected(sender: object, record: MemoryRecord, **extra: Any) -> None:
    rejected = Insight.objects.filter(pk=record.pk, state=InsightState.REJECTED).first()
    if rejected is not None:
        raise Conflict(
            f"was rejected by {rejected.reviewed_by}: appeal with a reason (capture_insight appeals, or My Insights)",
            field="id",
        )


@receiver(corrected)
def supersede_the_insight(sender: object, record: MemoryRecord, **extra: Any) -> None:
    Insight.objects.filter(pk=record.pk, state=InsightState.PENDING).update(state=InsightState.SUPERSEDED)


@receiver(grounded)
def take_a_baseline(sender: object, record: MemoryRecord, **extra: Any) -> None:
    """How the named entities are now, once the memory is saved: at once from our own tables, otherwise by a worker."""
    if not baselines.named(record) and not EntityBaseline.objects.filter(record=record).exists():
        return
    if settings.DATAHUB_GMS_URL:
        transaction.on_commit(partial(async_task, "knowledge.tasks.ground", record.pk.hex))
    else:
        transaction.on_commit(partial(baselines.ground, [record.pk]))


@receiver(erasing)
def refuse_to_erase_what_is_applied(sender: object, record: MemoryRecord, **extra: Any) -> None:
    insight = Insight.objects.filter(pk=record.pk, changeset__isnull=False).first()
    if insight is not None:
        raise Conflict(
            f"stands in the catalog by the changeset {insight.changeset_id.hex}: a curator rolls that back first",  # type: ignore[union-attr]
            field="id",
        )


@receiver(erased)
def keep_hashes_of_what_was_written(sender: object, record_id: UUID, texts: Sequence[str], **extra: Any) -> None:
    redaction.redact(record_id, texts)
