"""The time of a user's previous visit, derived from the audit log."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import F, Max, Window
from django.db.models.functions import Coalesce, Lead, Now
from django.utils import timezone

from foundation.people.caller import Caller
from memory_project.models import AuditEvent

PAUSE = timedelta(minutes=30)  # a visit ends after this time without a call
SEARCH_SPAN = timedelta(days=30)  # how far back the audit log is searched
FIRST_VISIT = timedelta(days=7)  # how far back news goes for a user without an earlier visit in SEARCH_SPAN


def last_visit(caller: Caller) -> datetime:
    """Return the time of the last call before the current visit, or FIRST_VISIT ago if there is none in SEARCH_SPAN."""
    now = timezone.now()
    calls = AuditEvent.objects.filter(email=caller.email, at__gt=now - SEARCH_SPAN).order_by()
    following = Coalesce(Window(Lead("at"), order_by=F("at").asc()), Now())
    ends = calls.annotate(following=following).filter(following__gte=F("at") + PAUSE)
    end: datetime | None = ends.aggregate(at=Max("at"))["at"]
    return end or now - FIRST_VISIT
