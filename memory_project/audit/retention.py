"""How long the audit keeps a call."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from memory_project.models import AuditEvent

TOGETHER = 5_000


def sweep() -> int:
    """Removes calls older than AUDIT_RETENTION_DAYS, some thousand at a time; returns how many. 0 days: none."""
    if not settings.AUDIT_RETENTION_DAYS:
        return 0
    old = AuditEvent.objects.filter(at__lt=timezone.now() - timedelta(days=settings.AUDIT_RETENTION_DAYS))
    count = 0
    while part := list(old.order_by("at").values_list("pk", flat=True)[:TOGETHER]):
        count += AuditEvent.objects.filter(pk__in=part).delete()[0]
    return count
