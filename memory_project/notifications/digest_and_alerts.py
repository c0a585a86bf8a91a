"""E-mails: the weekly digest, the alert about insights that have waited too long, and overturned decisions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from knowledge.insights import queries as curation
from knowledge.models import Decision, Insight
from memories import queries
from memories.contract.errors import Forbidden
from memories.identity.caller import Caller, system_caller
from memories.identity.permissions import build_caller
from memories.retrieval.scope import Filters, in_scope
from memory_project import audit
from memory_project.models import AuditEvent, User
from memory_project.notifications import inbox, mail

# names of audit events, which also record when a mail was last sent
DIGEST, ALERT = "mail.digest", "mail.review_alert"
SUBJECTS = {"rejected": "An approved insight was rejected", "approved": "A rejected insight was approved"}
NEW_SHOWN = 5  # maximum number of new memories listed in a digest


def send_digest() -> str:
    """Send the weekly digest to each active person with news who has not turned it off, once each Monday."""
    if not mail.is_configured() or not settings.DIGEST:
        return "off"
    now = timezone.localtime()
    if now.weekday() != 0 or _sent_since(DIGEST, now - timedelta(days=2)):
        return "not due"
    count = sum(_send_digest_to(person) for person in User.objects.filter(is_active=True))
    _record(DIGEST, {"sent": count})
    return f"{count} sent"


def _send_digest_to(person: User) -> bool:
    if person.notify.get(inbox.DIGEST) == "none":
        return False
    try:
        caller = build_caller(person, channel="mail")
    except Forbidden:
        return False
    context = digest_context(caller)
    if not any(context[name] for name in ("new_count", "stale_count", "decided", "waiting_count")):
        return False
    return mail.send([person.email], "This week in Commonplace", "mail/digest.txt", {**context, "person": person})


def digest_context(caller: Caller) -> dict[str, Any]:
    week = timezone.now() - timedelta(days=7)
    new = in_scope(caller, Filters()).filter(created_at__gte=week).exclude(created_by=caller.email)
    waiting = curation.waiting(caller) if curation.may_curate(caller) else Insight.objects.none()
    return {
        "new_count": queries.capped_count(new),
        "new": list(new.defer("search").order_by("-created_at")[:NEW_SHOWN]),
        "stale_count": queries.capped_count(queries.reviewable_stale(caller)),
        "decided": list(curation.proposed_by(caller).filter(reviewed_at__gte=week)[:10]),
        "waiting_count": queries.capped_count(waiting),
    }


def alert_about_reviews() -> str:
    """Mail curators about insights that have waited longer than REVIEW_ALERT_HOURS, at most once a day."""
    if not mail.is_configured() or not settings.REVIEW_ALERT_HOURS:
        return "off"
    limit = timezone.now() - timedelta(hours=settings.REVIEW_ALERT_HOURS)
    late = curation.waiting(system_caller()).filter(record__created_at__lt=limit)
    if not late.exists() or _sent_since(ALERT, timezone.now() - timedelta(days=1)):
        return "not due"
    count = 0
    for person in User.objects.filter(is_active=True, is_staff=True):
        caller = build_caller(person, channel="mail")
        if not curation.may_curate(caller):
            continue
        insights = curation.waiting(caller).filter(record__created_at__lt=limit)
        if oldest := insights.first():
            context = {"oldest": oldest, "count": queries.capped_count(insights), "hours": settings.REVIEW_ALERT_HOURS}
            count += mail.send([person.email], "Insights are waiting for review", "mail/review_alert.txt", context)
    _record(ALERT, {"sent": count})
    return f"{count} sent"


def notify_overturned(insight: Insight, decision: Decision) -> int:
    """Mail the author of an insight and the curator whose decision was overturned. Returns how many mails were sent.

    The curator who overturned it gets none.
    """
    people = {decision.overturns, insight.record.created_by} - {decision.by}
    context = {"insight": insight, "decision": decision}
    subject = SUBJECTS.get(decision.kind, "A decision on an insight was undone")
    return sum(mail.send([address], subject, "mail/overturned.txt", context) for address in sorted(people))


def _sent_since(name: str, moment: Any) -> bool:
    return AuditEvent.objects.filter(tool=name, at__gte=moment).exists()


def _record(name: str, arguments: dict[str, Any]) -> None:
    audit.record(
        caller=system_caller(),
        tool=name,
        outcome=AuditEvent.Outcome.OK,
        duration_ms=0,
        arguments=arguments,
        answer=None,
        request_chars=0,
        response_chars=0,
    )
