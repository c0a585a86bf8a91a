"""What happens to an insight when its memory is changed by other ways."""

from __future__ import annotations

from typing import Any

from django.dispatch import receiver

from knowledge.models import Insight, InsightState
from memories.errors import Conflict
from memories.models import MemoryRecord
from memories.services import corrected, sharing


@receiver(sharing)
def refuse_to_share_what_waits(sender: object, record: MemoryRecord, **extra: Any) -> None:
    if Insight.objects.filter(pk=record.pk, state=InsightState.PENDING).exists():
        raise Conflict("waits for review: it becomes visible when it is approved", field="id")


@receiver(corrected)
def supersede_the_insight(sender: object, record: MemoryRecord, **extra: Any) -> None:
    undecided = [InsightState.PENDING, InsightState.APPROVED]
    Insight.objects.filter(pk=record.pk, state__in=undecided, changeset=None).update(state=InsightState.SUPERSEDED)
