"""Snoozing: an insight leaves the review queue until a time, and returns by itself.

Any decision on the insight ends it, and `decisions.undo_review` does, too.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Invalid
from foundation.people.caller import Caller
from knowledge.insights import events
from knowledge.models import DecisionKind, Insight, InsightState
from knowledge.review.decisions import record_decision, step_values, under_review

MAX_DAYS = 366


def snooze(
    caller: Caller, *, insight_id: UUID | str, until: datetime, notes: str = "", seen: str = "", override: bool = False
) -> Insight:
    """Take a pending insight out of the queue of all curators until a time, at most MAX_DAYS from now."""
    now = timezone.now()
    if not now < until <= now + timedelta(days=MAX_DAYS):
        raise Invalid(
            gettext("is not in the future"),
            field="until",
            allowed=gettext("a date from tomorrow to %(max_days)s days from now") % {"max_days": MAX_DAYS},
        )
    with under_review(caller, insight_id, notes, seen, override) as insight:
        if insight.state != InsightState.PENDING:
            raise Conflict(
                gettext("is %(state)s: only pending insights can be snoozed") % {"state": insight.state},
                field="insight_id",
            )
        before = step_values(insight, "snoozed_until")
        insight.snoozed_until = until
        insight.save(update_fields=["snoozed_until"])
        reason = f"until {until:%Y-%m-%d}. {notes.strip()}".strip()
        decision = record_decision(caller, insight, DecisionKind.SNOOZED, reason, before=before)
        events.announce_decision(insight, decision, to=[])
    return insight
