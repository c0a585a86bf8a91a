"""Decisions of people on their suggestions: keep, discard, never again, and the undo of each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Invalid, NotFound
from foundation.operations.fields import CONTENT_MAX, MAX_URNS, TAG_LENGTH, EntityUrn
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge import extensions
from knowledge.insights.capture import capture
from knowledge.models import Insight, InsightState, Suggestion, SuggestionKind, SuggestionState
from knowledge.operations import Capture
from knowledge.suggestions import queries
from knowledge.suggestions.operations import INSIGHT, DecideSuggestions, Discard, Keep, NeverAgain
from knowledge.suggestions.similar import text_key
from knowledge.suggestions.staging import EXPIRES
from memories import services
from memories.models import Category, MemoryRecord, MemoryRevision, Status
from memories.operations import Forget, Remember

MAX_NEVER = 1_000  # texts that a person never wants again; the oldest are forgotten
REPOSITORY_TAG = "repo:"  # a memory with the tag repo:github.com/owner/name is about that repository

CATEGORIES = {
    SuggestionKind.DECISION.value: Category.BUSINESS_CONTEXT.value,
    SuggestionKind.CORRECTION.value: Category.CORRECTION.value,
    SuggestionKind.FAILED_STATEMENT.value: Category.USAGE_GUIDANCE.value,
    SuggestionKind.OPEN_QUESTION.value: Category.BUSINESS_CONTEXT.value,
}


@dataclass(frozen=True)
class Kept:
    suggestion: Suggestion
    record: MemoryRecord
    existing: bool  # whether the memory or insight was there already


def keep(caller: Caller, operation: Keep) -> Kept:
    """Store the text as a memory of the caller, or propose it as an insight.

    Raises Conflict if the suggestion was decided already, and Invalid if it is a question and `content` is no answer.
    """
    suggestion = queries.suggestion(caller, operation.suggestion_id)
    if suggestion.state != SuggestionState.WAITING:
        raise _decided(suggestion)
    text = operation.content or suggestion.text
    if suggestion.kind == SuggestionKind.OPEN_QUESTION and text_key(text) == suggestion.text_key:
        raise Invalid(
            gettext("is missing"),
            field="content",
            allowed=gettext("the answer to the question, in %(low)s to %(high)s characters")
            % {"low": 10, "high": f"{CONTENT_MAX:,}"},
        )
    # The text is embedded outside of a transaction. If the process ends before the suggestion is marked, keeping it
    # again finds the memory that is there already.
    store = _propose if operation.keep_as == INSIGHT else _remember
    record, existing = store(caller, suggestion, text, operation)
    with transaction.atomic():
        rows = queries.waiting(caller).filter(pk=suggestion.pk)
        now = timezone.now()
        values = {"record": record, "stored_new": not existing, "decided_at": now, "expires_at": now + EXPIRES}
        if not rows.update(state=SuggestionState.KEPT, **values):
            raise _decided(queries.suggestion(caller, suggestion.pk))
        _announce(caller)
    return Kept(queries.suggestion(caller, suggestion.pk), record, existing)


def _remember(caller: Caller, suggestion: Suggestion, text: str, operation: Keep) -> tuple[MemoryRecord, bool]:
    tag = f"{REPOSITORY_TAG}{suggestion.repository}"
    fact = Remember.read(
        {
            "content": text,
            "category": operation.category or CATEGORIES[suggestion.kind],
            "visibility": operation.visibility,
            "entity_urns": _known_entities(suggestion),
            "tags": [tag] if suggestion.repository and len(tag) <= TAG_LENGTH else [],
            "metadata": {"suggested_from": suggestion.source, "program": suggestion.program},
        }
    )
    remembered = services.remember(caller, fact)
    return remembered.record, remembered.existing


def _propose(caller: Caller, suggestion: Suggestion, text: str, operation: Keep) -> tuple[MemoryRecord, bool]:
    proposal = Capture.read(
        {
            "insight_text": text,
            "category": operation.category or CATEGORIES[suggestion.kind],
            "visibility": operation.visibility,
            "entity_urns": _known_entities(suggestion),
        }
    )
    captured = capture(caller, proposal)
    return captured.insight.record, captured.existing


def _known_entities(suggestion: Suggestion) -> list[str]:
    """Return the entities that the catalog knows by these names. The session may name others, too."""
    urns: list[str] = []
    for name in suggestion.entities[:MAX_URNS]:
        with suppress(Invalid):
            urns.append(validate(EntityUrn, name, "entities"))
    return list(dict.fromkeys(urns))


def discard(caller: Caller, operation: Discard) -> list[Suggestion]:
    """Discard suggestions. Their texts are not suggested again for 30 days. Raises as `_decide`."""
    return _decide(caller, operation, SuggestionState.DISCARDED)


def never_again(caller: Caller, operation: NeverAgain) -> list[Suggestion]:
    """Discard suggestions for good: neither they nor texts like them are suggested again. Raises as `_decide`."""
    with transaction.atomic():
        decided = _decide(caller, operation, SuggestionState.NEVER)
        never = queries.suggestions(caller).filter(state=SuggestionState.NEVER).order_by("-decided_at", "pk")
        oldest = list(never.values_list("pk", flat=True)[MAX_NEVER:])
        Suggestion.objects.filter(pk__in=oldest).delete()
    return decided


def _decide(caller: Caller, operation: DecideSuggestions, state: SuggestionState) -> list[Suggestion]:
    """Set the state of waiting suggestions, and return those that waited.

    Raises NotFound if one of them is not the caller's, and Conflict if none of them waits.
    """
    now = timezone.now()
    with transaction.atomic():
        rows = _locked(caller, operation.suggestion_ids)
        waiting = [row for row in rows if row.state == SuggestionState.WAITING]
        if not waiting:
            raise _decided(rows[0])
        for row in waiting:
            row.state = state
            row.decided_at = now
            row.expires_at = None if state == SuggestionState.NEVER else now + EXPIRES
        Suggestion.objects.bulk_update(waiting, ["state", "decided_at", "expires_at"])
        _announce(caller)
    return waiting


def undo(caller: Caller, operation: DecideSuggestions) -> list[Suggestion]:
    """Let decided suggestions wait again. A memory or insight that keeping one has stored is archived.

    Raises NotFound if one of them is not the caller's, and Conflict if none of them is decided, or if a memory has
    changed since. Then nothing is undone.
    """
    with transaction.atomic():
        rows = _locked(caller, operation.suggestion_ids)
        decided = [row for row in rows if row.state != SuggestionState.WAITING]
        if not decided:
            raise Conflict(gettext("is waiting for your decision"), field="suggestion_ids")
        for row in decided:
            if row.state == SuggestionState.KEPT and row.stored_new and row.record is not None:
                _archive(caller, row.record)
            row.state = SuggestionState.WAITING
            row.decided_at = None
            row.expires_at = timezone.now() + EXPIRES
            row.record = None
            row.stored_new = False
        fields = ["state", "decided_at", "expires_at", "record", "stored_new"]
        Suggestion.objects.bulk_update(decided, fields)
    return decided


def _archive(caller: Caller, record: MemoryRecord) -> None:
    if record.status == Status.ARCHIVED:
        return
    insight = Insight.objects.filter(pk=record.pk).first()
    is_reviewed = insight is not None and insight.state != InsightState.PENDING
    if is_reviewed or MemoryRevision.objects.filter(record=record).exists():
        raise Conflict(
            gettext("became %(memory)s, which has changed since, so it stays: correct it if it is wrong")
            % {"memory": record.pk.hex},
            field="suggestion_ids",
        )
    services.forget(caller, Forget.read({"id": record.pk.hex}))


def _locked(caller: Caller, ids: Sequence[UUID]) -> list[Suggestion]:
    # only locks suggestions; a memory is locked by the service that changes it
    rows = list(queries.suggestions(caller).filter(pk__in=ids).select_for_update().order_by("pk"))
    if len(rows) < len(set(ids)):
        raise NotFound(gettext("you have no such suggestion"), field="suggestion_ids")
    return rows


def _decided(suggestion: Suggestion) -> Conflict:
    states = {
        SuggestionState.KEPT: gettext("was kept already"),
        SuggestionState.DISCARDED: gettext("was discarded already"),
        SuggestionState.NEVER: gettext("was discarded for good already"),
    }
    return Conflict(
        states.get(SuggestionState(suggestion.state), gettext("was decided already")), field="suggestion_id"
    )


def _announce(caller: Caller) -> None:
    extensions.suggestions_decided(caller.email, are_left=queries.waiting(caller).exists())
