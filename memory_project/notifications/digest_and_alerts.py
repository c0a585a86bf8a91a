"""E-mails: the weekly digest, the alert about insights that have waited too long, and overturned decisions."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy
from django_q.tasks import async_task

from foundation.people.caller import Caller, system_caller
from knowledge.insights import queries as curation
from knowledge.models import Decision, Insight
from knowledge.news import analyst
from knowledge.news.period import last_seven_days
from memories import queries
from memory_project import audit
from memory_project.accounts import mail
from memory_project.models import AuditEvent, User
from memory_project.notifications import kinds

# names of audit events, which also record when a mail was last sent
DIGEST, ALERT = "mail.digest", "mail.review_alert"
SUBJECTS = {
    "rejected": gettext_lazy("An approved insight was rejected"),
    "approved": gettext_lazy("A rejected insight was approved"),
}
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
    if person.notify.get(kinds.DIGEST) == "none":
        return False
    with mail.in_language_of(person):
        context = digest_context(caller)
        if not context["has_news"]:
            return False
        subject = gettext("This week in Commonplace")
        return mail.send([person.email], subject, "mail/digest.txt", {**context, "person": person})


def digest_context(caller: Caller) -> dict[str, Any]:
    """Return the news of the last seven days, from the queries of the page This week."""
    period = last_seven_days()
    counts = queries.capped_counts(**analyst.countable(caller, period))
    context = {
        "counts": counts,
        "new": list(analyst.shared_memories(caller, period)[:NEW_SHOWN]),
        "catalog": analyst.catalog_changes(analyst.entities_of(caller), period),
        "decided": list(analyst.decided(caller, period)[: analyst.MAX_LISTED]),
        "doubts": list(analyst.doubts(caller, period)[: analyst.MAX_LISTED]) if counts["doubts"] else [],
        "questions": list(analyst.questions(caller)[: analyst.MAX_LISTED]),
    }
    is_waiting = counts["stale"] or counts["waiting"]
    return {**context, "has_news": bool(is_waiting or any(context[name] for name in context if name != "counts"))}


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
    with mail.in_language_of(person):
        subject = gettext("Insights are waiting for review")
        return mail.send([person.email], subject, "mail/review_alert.txt", {**context, "person": person})


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
    context = {"insight": insight, "decision": decision, "person": person}
    with mail.in_language_of(person):
        subject = SUBJECTS.get(decision.kind, gettext("A decision on an insight was undone"))
        return mail.send([person.email], str(subject), "mail/overturned.txt", context)


def _sent_since(name: str, moment: Any) -> bool:
    return AuditEvent.objects.filter(tool=name, at__gte=moment).exists()


def _record(name: str, arguments: dict[str, Any]) -> None:
    audit.record(
        system_caller(),
        tool=name,
        outcome=AuditEvent.Outcome.OK,
        duration_ms=0,
        arguments=arguments,
        answer=None,
        request_chars=0,
        response_chars=0,
    )
