"""Staging: what rules found in a person's sessions goes into the person's inbox of suggestions.

A suggestion belongs to its owner alone. Nothing becomes a memory or an insight unless the owner keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from foundation.operations.secrets import contains_secret
from foundation.people.caller import Caller, require_user
from knowledge import extensions
from knowledge.models import Suggestion, SuggestionKind, SuggestionSource, SuggestionState
from knowledge.suggestions import queries
from knowledge.suggestions.operations import GivenCandidate, StageCandidates
from knowledge.suggestions.similar import is_near_duplicate, text_key
from memories.writing.exact_duplicates import normalized_key, same_texts

EXPIRES = timedelta(days=30)  # after a suggestion was last found, or was decided about
MAX_WAITING = 200  # suggestions of a person; what is found beyond is left out
NOWHERE: Mapping[str, str] = {"session": "", "program": "", "repository": ""}


@dataclass(frozen=True)
class Staged:
    staged: int = 0
    known: int = 0
    left_out: int = 0  # contains something like a secret, or does not fit into the inbox


def stage(caller: Caller, operation: StageCandidates, *, source: SuggestionSource = SuggestionSource.HOOK) -> Staged:
    """Put candidates into the caller's inbox. Doing so again changes nothing.

    A candidate is known if the person has a suggestion with this text, decided or not, or one that says the same, or a
    memory with this text. Candidates that contain something like a secret are left out.
    """
    places = {"session": operation.session, "program": operation.program, "repository": operation.repository or ""}
    return _stage(caller, operation.candidates, source, places)


def stage_questions(caller: Caller, questions: Sequence[tuple[str, str]]) -> Staged:
    """Put texts about questions without an answer into the caller's inbox, each with its evidence."""
    given = [
        GivenCandidate(kind=SuggestionKind.OPEN_QUESTION.value, text=text, evidence=evidence)
        for text, evidence in questions
    ]
    return _stage(caller, given, SuggestionSource.RECALLS, NOWHERE)


def _stage(
    caller: Caller, candidates: Sequence[GivenCandidate], source: SuggestionSource, places: Mapping[str, str]
) -> Staged:
    require_user(caller)
    fit = [each for each in candidates if not contains_secret(f"{each['text']}\n{each.get('evidence', '')}")]
    remembered = same_texts(caller, [each["text"] for each in fit])
    with transaction.atomic():
        # The unique constraint keeps a text that two calls stage at once from being there twice.
        own = list(queries.suggestions(caller).only("pk", "text", "text_key", "session", "state"))
        room = MAX_WAITING - sum(each.state == SuggestionState.WAITING for each in own)
        by_key = {each.text_key: each for each in own}
        texts = [each.text for each in own]
        new: list[Suggestion] = []
        known = 0
        for each in fit:
            text = each["text"]
            key = text_key(each["text"])
            if same := by_key.get(key):
                _see_again(same, places["session"])
            if same or normalized_key(text) in remembered or is_near_duplicate(text, texts):
                known += 1
            elif len(new) < room:
                new.append(_new(caller, each, key, source, places))
                by_key[key] = new[-1]
                texts.append(text)
        Suggestion.objects.bulk_create(new, ignore_conflicts=True)
        if new:
            extensions.suggestions_staged(new[0])
    return Staged(staged=len(new), known=known, left_out=len(candidates) - len(new) - known)


def _new(
    caller: Caller, given: GivenCandidate, key: str, source: SuggestionSource, places: Mapping[str, str]
) -> Suggestion:
    return Suggestion(
        owner=caller.email,
        kind=given["kind"],
        text=given["text"],
        evidence=given.get("evidence", ""),
        entities=given.get("entities", []),
        source=source,
        text_key=key,
        expires_at=timezone.now() + EXPIRES,
        **places,
    )


def _see_again(suggestion: Suggestion, session: str) -> None:
    """Count a further session. A suggestion that still waits stays for another 30 days."""
    if suggestion.session == session or suggestion._state.adding:
        return
    rows = Suggestion.objects.filter(pk=suggestion.pk)
    rows.update(session=session, times_seen=F("times_seen") + 1)
    rows.filter(state=SuggestionState.WAITING).update(expires_at=timezone.now() + EXPIRES)
