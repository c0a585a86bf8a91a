"""Which slice of whose import is worked on next.

At most one slice of a person's imports waits in the queue. So however many files a person uploads, they stand before
other people's work once.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from memory_project.exchange.imports.models import WORKING, Import

IDLE = timedelta(minutes=2)  # a person's imports without progress for this long have lost their worker
LOST = timedelta(hours=1)  # a slice that was queued this long ago has lost its place in the queue


def claim(owner: str) -> Import | None:
    """Mark the person's import that has waited longest as queued, and return it. None if a slice is queued already."""
    with transaction.atomic():
        running = list(Import.objects.select_for_update().filter(created_by=owner, state__in=WORKING))
        if not running or any(staged.queued_at for staged in running):
            return None
        chosen = min(running, key=lambda staged: (staged.worked_at, staged.created_at))
        chosen.queued_at = timezone.now()
        chosen.save(update_fields=["queued_at"])
    return chosen


def begin(import_id: UUID | str) -> Import | None:
    """Note that a worker has taken a slice of the import from the queue. Return the import, or None if it is gone."""
    Import.objects.filter(pk=import_id).update(queued_at=None)
    return Import.objects.filter(pk=import_id).first()


def stranded() -> list[str]:
    """Return the people whose running imports neither make progress nor wait in the queue."""
    now = timezone.now()
    running = Import.objects.filter(state__in=WORKING)
    running.filter(queued_at__lt=now - LOST).update(queued_at=None)
    owners = running.values("created_by").annotate(last=Max("worked_at"), queued=Max("queued_at"))
    return list(owners.filter(last__lt=now - IDLE, queued=None).values_list("created_by", flat=True))
