"""Signal receivers: audit of sign-ins, webhooks of finished imports, and what has to be updated after migrations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group, Permission
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db.models import Q
from django.db.models.signals import post_migrate
from django.dispatch import receiver

from memory_project import audit, schedules
from memory_project.accounts.django_permissions import effective_permissions
from memory_project.accounts.people import CURATORS, OPERATORS
from memory_project.exchange.imports import taking_over
from memory_project.exchange.imports.models import Import
from memory_project.models import AuditEvent, User
from memory_project.notifications.webhooks.events import emit


@receiver(user_logged_in)
def note_sign_in(sender: object, user: User, **extra: Any) -> None:
    _note_account("sign-in", AuditEvent.Outcome.OK, user.email)


@receiver(user_logged_out)
def note_sign_out(sender: object, user: User | None, **extra: Any) -> None:
    if user is not None:
        _note_account("sign-out", AuditEvent.Outcome.OK, user.email)


@receiver(user_login_failed)
def note_failed_sign_in(sender: object, credentials: Mapping[str, Any], **extra: Any) -> None:
    # people sometimes type their password into the address field, so only e-mail addresses are stored
    address = str(credentials.get("username") or "").strip().lower()
    _note_account("sign-in", AuditEvent.Outcome.REFUSED, address if "@" in address else "", "wrong password or address")


def _note_account(tool: str, outcome: str, email: str, message: str = "") -> None:
    audit.record(
        None,
        tool=tool,
        outcome=outcome,
        duration_ms=0,
        arguments={},
        answer=None,
        request_chars=0,
        response_chars=0,
        message=message,
        code="forbidden" if outcome == AuditEvent.Outcome.REFUSED else "",
        channel="portal",
        email=email,
    )


@receiver(taking_over.finished)
def announce_import(sender: object, staged: Import, **extra: Any) -> None:
    emit("import.finished", [staged.pk], owner=staged.created_by)


@receiver(post_migrate)
def update_background_tasks(sender: Any, **extra: Any) -> None:
    if sender.label == "memory_project":
        schedules.update_schedules()
        schedules.rename_queued_tasks()


@receiver(post_migrate)
def grant_curator_permissions(sender: Any, **extra: Any) -> None:
    # After migrations, this is called once for each app, as is Django's receiver that creates the permissions of this
    # app. Only the later calls find all permissions.
    permissions = effective_permissions().filter(
        Q(codename__startswith="view_", content_type__app_label__in=["memories", "knowledge"]) | Q(codename="curate")
    )
    group, _ = Group.objects.get_or_create(name=CURATORS)
    group.permissions.add(*permissions)


# permissions of the group Operators by app; none of them gives access to memories
OPERATOR_PERMISSIONS = {
    "memories": ("view_persona", "add_persona", "change_persona"),
    "analysis": ("view_declaredsource", "add_declaredsource", "change_declaredsource", "delete_declaredsource"),
    "memory_project": (
        "operate", "view_webhook", "add_webhook", "change_webhook", "delete_webhook", "view_user",
    ),
}  # fmt: skip


@receiver(post_migrate)
def grant_operator_permissions(sender: Any, **extra: Any) -> None:
    rule = Q()
    for label, codenames in OPERATOR_PERMISSIONS.items():
        rule |= Q(content_type__app_label=label, codename__in=codenames)
    group, _ = Group.objects.get_or_create(name=OPERATORS)
    group.permissions.add(*Permission.objects.filter(rule))
