"""E-mails: the weekly digest, the alert about insights that have waited too long, and overturned decisions."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django_q.tasks import async_task

from knowledge.insights import queries as curation
from knowledge.models import Decision, Insight
from memories import queries
from memories.identity.caller import Caller, system_caller
from memories.models import Visibility
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
    people = User.objects.filter(is_active=True).order_by("pk").values_list("pk", flat=True)
    count = sum(_send_digest_to(person_id) for person_id in list(people))
    _record(DIGEST, {"sent": count})
    return f"{count} sent"


def _send_digest_to(person_id: int) -> bool:
    # Sending to the people before may have taken minutes, so the account is loaded now.
    recipient = mail.load_recipient(person_id)
    if recipient is None:
        return False
    person, caller = recipient
    if person.notify.get(inbox.DIGEST) == "none":
        return False
    context = digest_context(caller)
    if not any(context[name] for name in ("new_count", "stale_count", "decided", "waiting_count")):
        return False
    return mail.send([person.email], "This week in Commonplace", "mail/digest.txt", {**context, "person": person})


def digest_context(caller: Caller) -> dict[str, Any]:
    week = timezone.now() - timedelta(days=7)
    new = in_scope(caller, Filters()).filter(created_at__gte=week).exclude(created_by=caller.email)
    # Admins may read the private memories of others, but nobody has shared these with them.
    new = new.exclude(visibility=Visibility.PRIVATE)
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
    staff = User.objects.filter(is_active=True, is_staff=True).order_by("pk").values_list("pk", flat=True)
    count = sum(_send_alert_to(person_id, limit) for person_id in list(staff))
    _record(ALERT, {"sent": count})
    return f"{count} sent"


def _send_alert_to(person_id: int, limit: datetime) -> bool:
    recipient = mail.load_recipient(person_id)
    if recipient is None or not curation.may_curate(recipient[1]):
        return False
    person, caller = recipient
    insights = curation.waiting(caller).filter(record__created_at__lt=limit)
    oldest = insights.first()
    if oldest is None:
        return False
    context = {"oldest": oldest, "count": queries.capped_count(insights), "hours": settings.REVIEW_ALERT_HOURS}
    return mail.send([person.email], "Insights are waiting for review", "mail/review_alert.txt", context)


def queue_overturned(insight: Insight, decision: Decision) -> None:
    """Queue a mail to the author of an insight and to the curator whose decision was overturned.

    The curator who overturned it gets none.
    """
    if not mail.is_configured():
        return
    people = {decision.overturns, insight.record.created_by} - {decision.by}
    for person_id in (
        User.objects.filter(email__in=people, is_active=True).order_by("email").values_list("pk", flat=True)
    ):
        task = partial(async_task, "memory_project.tasks.mail_overturned", decision.pk, person_id)
        transaction.on_commit(task)


def mail_overturned(decision_id: int, person_id: int) -> bool:
    """Mail a person that a decision was overturned. Returns whether the mail was sent.

    Nothing is sent if the person may no longer read the insight, or if its memory was forgotten or erased.
    """
    recipient = mail.load_recipient(person_id)
    decision = Decision.objects.select_related("insight__record").filter(pk=decision_id).first()
    if recipient is None or decision is None:
        return False
    person, caller = recipient
    insight = decision.insight
    if insight.is_withdrawn or not Insight.objects.visible_to(caller).filter(pk=insight.pk).exists():
        return False
    subject = SUBJECTS.get(decision.kind, "A decision on an insight was undone")
    return mail.send([person.email], subject, "mail/overturned.txt", {"insight": insight, "decision": decision})


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
