"""What this app does when something happens in another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth.models import Group, Permission
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db.models import Q
from django.db.models.signals import post_migrate
from django.dispatch import receiver

from memory_project import audit
from memory_project.accounts.people import CURATORS, OPERATORS
from memory_project.models import AuditEvent, User


@receiver(user_logged_in)
def note_sign_in(sender: object, user: User, **extra: Any) -> None:
    _note_account("sign-in", AuditEvent.Outcome.OK, user.email)


@receiver(user_logged_out)
def note_sign_out(sender: object, user: User | None, **extra: Any) -> None:
    if user is not None:
        _note_account("sign-out", AuditEvent.Outcome.OK, user.email)


@receiver(user_login_failed)
def note_failed_sign_in(sender: object, credentials: Mapping[str, Any], **extra: Any) -> None:
    """Whoever tried; what was typed as an address is kept only where it is one, as it may be a password."""
    address = str(credentials.get("username") or "").strip().lower()
    _note_account("sign-in", AuditEvent.Outcome.REFUSED, address if "@" in address else "", "wrong password or address")


def _note_account(tool: str, outcome: str, email: str, message: str = "") -> None:
    audit.record(
        caller=None,
        tool=tool,
        outcome=outcome,
        duration_ms=0,
        arguments={},
        answer=None,
        request_chars=0,
        response_chars=0,
        message=message,
        code="forbidden" if outcome == AuditEvent.Outcome.REFUSED else "",
        door="portal",
        email=email,
    )


@receiver(post_migrate)
def create_schedules(sender: Any, **extra: Any) -> None:
    """The schedules of background work, there once however often this runs."""
    if sender.label != "memory_project":
        return
    Schedule = apps.get_model("django_q", "Schedule")
    for name, (function, minutes) in schedules().items():
        row, _ = Schedule.objects.get_or_create(
            name=name, defaults={"func": function, "schedule_type": "I", "minutes": minutes, "repeats": -1}
        )
        if row.minutes != minutes:
            Schedule.objects.filter(pk=row.pk).update(minutes=minutes)


@receiver(post_migrate)
def let_curators_look(sender: Any, **extra: Any) -> None:
    """The group Curators may review, and look at what review is about. Permissions exist once all apps migrated."""
    permissions = Permission.objects.filter(
        Q(codename__startswith="view_", content_type__app_label__in=["memories", "knowledge"]) | Q(codename="curate")
    )
    group, _ = Group.objects.get_or_create(name=CURATORS)
    group.permissions.add(*permissions)


OPERATED = {
    "memories": ("view_persona", "add_persona", "change_persona", "view_indexjob"),
    "analysis": ("view_declaredsource", "add_declaredsource", "change_declaredsource", "delete_declaredsource"),
    "memory_project": (
        "operate", "view_webhook", "add_webhook", "change_webhook", "delete_webhook", "view_user",
    ),
}  # fmt: skip


@receiver(post_migrate)
def let_operators_operate(sender: Any, **extra: Any) -> None:
    """The group Operators sees to personas, sources, channels and the index, and to nobody's memories."""
    rule = Q()
    for label, codenames in OPERATED.items():
        rule |= Q(content_type__app_label=label, codename__in=codenames)
    group, _ = Group.objects.get_or_create(name=OPERATORS)
    group.permissions.add(*Permission.objects.filter(rule))


def schedules() -> dict[str, tuple[str, int]]:
    """Name → function and minutes between its runs."""
    return {
        "close gaps in the index": ("memories.tasks.close_gaps", 5),
        "do jobs of the index": ("memories.tasks.do_index_jobs", 1),
        "count search terms": ("memories.tasks.refresh_lexicon", 15),
        "train the vector index": ("memories.tasks.train_vector_index", 15),
        "forget closed index jobs": ("memories.tasks.forget_closed_jobs", 60),
        "enrich long-term memories": ("memories.conversation.tasks.enrich", 1),
        "consolidate conversations": ("memories.conversation.tasks.consolidate", 10),
        "forget expired answers": ("memories.conversation.tasks.forget_expired_answers", 10),
        "forget old calls in the audit": ("memory_project.audit.retention.sweep", 1_440),
        "forget counted calls": ("memory_project.limits.forget_old", 1_440),
        "purge deleted nodes": ("knowledge.graph.tasks.purge", 1_440),
        "propose what to tidy up in graphs": ("knowledge.graph.tasks.propose_upkeep", 1_440),
        "send the weekly digest": ("memory_project.mail.send_digest", 720),
        "alert about old reviews": ("memory_project.mail.alert_about_reviews", 60),
        "tell channels what waits": ("memory_project.notices.webhooks.send_due", 60),
        "forget failed calls": ("knowledge.repairs.forget_old", 60),
        "forget old showings": ("memories.retrieval.showings.forget_old", 1_440),
        "forget old notices": ("memory_project.notices.inbox.forget_old", 1_440),
        "remove expired analyses": ("analysis.tasks.sweep", 60),
        "compare memories with the catalog": ("knowledge.tasks.watch_staleness", settings.STALENESS_INTERVAL_MIN),
    }
