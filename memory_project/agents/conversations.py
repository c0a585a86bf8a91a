"""Suggestions from the conversations that agents store: the rules for sessions, applied to finished conversations.

A conversation counts as finished once it had no turn for QUIET. A worker that was away for longer than LOOK_BACK leaves
out what ended meanwhile. Looking at a conversation twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.db.models import Max
from django.utils import timezone

from foundation.database import identity
from foundation.operations.errors import Forbidden
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from knowledge.models import SuggestionSource
from knowledge.suggestions import staging
from knowledge.suggestions.operations import StageCandidates
from memories.models import MemoryRecord, Status, Tier
from memory_project.agents.hook_program.candidates import SessionMessage, SuggestionCandidate, find_candidates
from memory_project.models import User

QUIET = timedelta(minutes=30)
LOOK_BACK = timedelta(hours=3)
MAX_TURNS = 500  # the last turns of a longer conversation are read
MAX_CONVERSATIONS = 1_000  # per run
PEOPLE = frozenset({"human", "user", "me"})  # roles of turns that a person wrote


def stage_finished() -> str:
    """Look for candidates in conversations that have just finished, and return a summary for the operator."""
    read = staged = 0
    for owner, conversation_id in _finished():
        caller = caller_of(owner)
        if caller is None:
            continue
        with identity.acting_as(caller):
            read += 1
            if found := find_candidates(_messages(owner, conversation_id)):
                operation = StageCandidates.read(
                    {"session": conversation_id[:200], "candidates": [_given(each) for each in found]}
                )
                staged += staging.stage(caller, operation, source=SuggestionSource.CONVERSATION).staged
    return f"{read} conversations read, {staged} suggestions"


def _finished() -> Iterator[tuple[str, str]]:
    """Yield owner and id of conversations whose last turn is between LOOK_BACK and QUIET ago."""
    now = timezone.now()
    turns = MemoryRecord.objects.filter(tier=Tier.SHORT_TERM, created_at__gte=now - LOOK_BACK).order_by()
    last = turns.values("created_by", "conversation_id").annotate(last=Max("created_at")).filter(last__lt=now - QUIET)
    yield from list(last.order_by("last").values_list("created_by", "conversation_id")[:MAX_CONVERSATIONS])


def caller_of(email: str) -> Caller | None:
    """Return the caller for the account with this address. None if there is none, or if it is deactivated."""
    person = User.objects.filter(email=email, is_active=True).first()
    try:
        return build_caller(person, channel="command") if person else None
    except Forbidden:
        return None


def _messages(owner: str, conversation_id: str) -> list[SessionMessage]:
    turns = MemoryRecord.objects.filter(created_by=owner, conversation_id=conversation_id, tier=Tier.SHORT_TERM)
    turns = turns.exclude(status=Status.ARCHIVED).order_by("-thread_position", "-created_at")
    rows = list(turns.values_list("role", "content")[:MAX_TURNS])
    return [SessionMessage("user" if role.lower() in PEOPLE else "assistant", text) for role, text in reversed(rows)]


def _given(candidate: SuggestionCandidate) -> dict[str, object]:
    return {
        "kind": candidate.kind,
        "text": candidate.text,
        "evidence": candidate.evidence,
        "entities": [name[:200] for name in candidate.entities],
    }
