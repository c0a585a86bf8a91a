"""When somebody was here last, as the audit of their calls tells."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F, Max, Window
from django.db.models.functions import Coalesce, Lead, Now
from django.utils import timezone

from memories.identity.caller import Caller
from memory_project.models import AuditEvent

PAUSE = timedelta(minutes=30)  # without a call: the visit has ended
LOOKED_BACK = timedelta(days=30)
FIRST_VISIT = timedelta(days=7)  # how far back news goes for who was not here in all that time


def last_visit(caller: Caller) -> datetime:
    """The last call before the visit that is going on."""
    now = timezone.now()
    calls = AuditEvent.objects.filter(email=caller.email, at__gt=now - LOOKED_BACK).order_by()
    following = Coalesce(Window(Lead("at"), order_by=F("at").asc()), Now())
    ends = calls.annotate(following=following).filter(following__gte=F("at") + PAUSE)
    end: datetime | None = ends.aggregate(at=Max("at"))["at"]
    return end or now - FIRST_VISIT
