"""Reads of suggestions. All return only the caller's rows, also for curators and admins."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext

from foundation.operations.errors import NotFound
from foundation.people.caller import Caller
from knowledge.models import Suggestion, SuggestionState


def suggestions(caller: Caller) -> QuerySet[Suggestion]:
    """Return the caller's suggestions, decided or not."""
    return Suggestion.objects.filter(owner=caller.email).exclude(owner="")


def waiting(caller: Caller) -> QuerySet[Suggestion]:
    return suggestions(caller).filter(state=SuggestionState.WAITING)


def suggestion(caller: Caller, suggestion_id: UUID) -> Suggestion:
    """Raises NotFound if the caller has no such suggestion."""
    found = suggestions(caller).filter(pk=suggestion_id).first()
    if found is None:
        raise NotFound(gettext("you have no such suggestion"), field="suggestion_id")
    return found
