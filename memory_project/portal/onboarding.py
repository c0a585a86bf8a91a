"""The card “Get started” for new users, until all steps are done, the user closes it, or the first day is over."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext

from foundation.people.caller import Caller
from memories import queries
from memories.models import MemoryRecord
from memory_project.models import ApiToken, AuditEvent

NEW_FOR = timedelta(days=1)
SEARCHED, CLOSED = "searched", "first_run_closed"  # session keys


@dataclass(frozen=True)
class OnboardingStep:
    title: str
    page: str
    is_done: bool


def steps(request: HttpRequest, caller: Caller) -> list[OnboardingStep]:
    """Return the steps, or [] if all steps are done, the card was closed in this session, or the account is not new."""
    joined_at = request.user.date_joined if request.user.is_authenticated else timezone.now()
    if request.session.get(CLOSED) or timezone.now() - joined_at > NEW_FOR:
        return []
    counts = queries.capped_counts(
        memories=MemoryRecord.objects.filter(created_by=caller.email),
        tokens=ApiToken.objects.filter(user__email=caller.email),
        calls=AuditEvent.objects.filter(email=caller.email, channel__startswith="mcp"),
    )
    todo = [
        OnboardingStep(
            gettext("Search: press / and ask a question"), "my-knowledge", bool(request.session.get(SEARCHED))
        ),
        OnboardingStep(gettext("Write a memory"), "create-memory", bool(counts["memories"])),
        OnboardingStep(gettext("Connect an agent"), "connect", bool(counts["tokens"])),
        OnboardingStep(gettext("View the agent’s first call"), "activity", bool(counts["calls"])),
    ]
    if all(step.is_done for step in todo):
        request.session[CLOSED] = True
        return []
    return todo
