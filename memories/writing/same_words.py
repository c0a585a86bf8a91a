"""Texts that have the words of an erased memory and are no copies of it.

Somebody wrote them independently, so erasing leaves them. The person who erases learns how many of them they may read:
anybody can erase a text of their own, so a number of texts of others would tell what others have written. Admins get a
list of all of them, and decide about each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Forbidden, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories.extensions import TextPlace
from memories.models import SameWords, SameWordsDecision, Tombstone
from memories.writing.text_places import containing, places, version_of

MAX_TEXTS = 10  # maximum number of the memory's texts, longest first, whose words are looked for
MAX_COUNTED = 1_000  # maximum number of texts in one place that are counted for the eraser
MAX_LISTED = 200  # maximum number of texts in one place that are listed for the admins


def list_for_admins(caller: Caller, tombstone: Tombstone, texts: Sequence[str]) -> dict[str, int]:
    """List the texts with these words for the admins. Return how many of them the caller may read, by place."""
    if not texts:
        return {}
    counts: dict[str, int] = {}
    for place in places().values():
        words = texts[:MAX_TEXTS]
        found = list(containing(place, words).only("pk", *place.columns)[:MAX_LISTED])
        _list(tombstone, place, found)
        # A search of its own, so that the number does not depend on texts that the caller may not read.
        if readable := containing(place, words, place.readable(caller))[:MAX_COUNTED].count():
            counts[place.name] = readable
    return counts


def _list(tombstone: Tombstone, place: TextPlace, found: Sequence[Any]) -> None:
    """List texts for the admins. A text that waits for a decision already is not listed again."""
    rows = [
        SameWords(tombstone=tombstone, place=place.name, row=_key(row), version=version_of(place, row)) for row in found
    ]
    waiting = SameWords.objects.filter(place=place.name, row__in=[row.row for row in rows], decision="open")
    listed = set(waiting.values_list("row", "version"))
    new = [row for row in rows if (row.row, row.version) not in listed]
    SameWords.objects.bulk_create(new, ignore_conflicts=True)


@dataclass(frozen=True)
class FoundWords:
    """A text with the same words, as it is now. `text` is empty if it is gone."""

    text: str
    owner: str
    has_changed: bool


def look(caller: Caller, entry: SameWords) -> FoundWords:
    ((_, found),) = look_at_all(caller, [entry])
    return found


def look_at_all(caller: Caller, entries: Sequence[SameWords]) -> list[tuple[SameWords, FoundWords]]:
    """Return each entry with its text as it is now, read with one query for each place."""
    require_admin(caller)
    rows: dict[tuple[str, str], Any] = {}
    for name in {entry.place for entry in entries} & set(places()):
        place = places()[name]
        owner = place.owner.rpartition("__")[0]
        found = place.model._default_manager.select_related(*filter(None, [owner]))
        keys = [entry.row for entry in entries if entry.place == name]
        rows |= {(name, _key(row)): row for row in found.filter(pk__in=keys)}
    return [(entry, _found_words(entry, rows.get((entry.place, entry.row)))) for entry in entries]


def _found_words(entry: SameWords, row: Any) -> FoundWords:
    if row is None:
        return FoundWords("", "", has_changed=True)
    place = places()[entry.place]
    owner: Any = row
    for name in place.owner.split("__"):
        owner = getattr(owner, name)
    texts = [str(getattr(row, column)) for column in place.columns]
    return FoundWords("\n".join(filter(None, texts)), str(owner), version_of(place, row) != entry.version)


def leave(caller: Caller, *, entry_id: UUID | str) -> SameWords:
    """Decide that the text is somebody's own and stays."""
    with transaction.atomic():
        return _decide(caller, _locked(caller, entry_id), SameWordsDecision.LEFT)


def reopen(caller: Caller, *, entry_id: UUID | str) -> SameWords:
    """Undo the decision that a text stays. Raises Conflict if it was erased, or is open."""
    with transaction.atomic():
        entry = _found(caller, entry_id)
        if entry.decision != SameWordsDecision.LEFT:
            raise Conflict(gettext("was not left as it is, so there is nothing to undo"), field="id")
        entry.decision = SameWordsDecision.OPEN
        entry.decided_by = ""
        entry.decided_at = None
        entry.save(update_fields=["decision", "decided_by", "decided_at"])
    return entry


def take(caller: Caller, *, entry_id: UUID | str) -> tuple[SameWords, TextPlace, Any]:
    """Return a locked entry whose text is to be erased, with its place and row, and mark it as erased.

    Raises Conflict if it was decided already, if its text has changed since it was found, or if only something else
    changes this place.
    """
    entry = _locked(caller, entry_id)
    place, row = _row_of(entry)
    if place is None or row is None:
        raise Conflict(gettext("is gone already"), field="id")
    if place.changed_by:
        raise Conflict(
            gettext("is in the %(place)s, which only %(changed_by)s changes")
            % {"place": place.name, "changed_by": place.changed_by},
            field="id",
        )
    if version_of(place, row) != entry.version:
        raise Conflict(gettext("has changed since it was found: its author has another text now"), field="id")
    return _decide(caller, entry, SameWordsDecision.ERASED), place, row


def require_admin(caller: Caller) -> None:
    if not caller.is_admin:
        raise Forbidden(gettext("only admins decide about texts with the same words"))


def _found(caller: Caller, entry_id: UUID | str) -> SameWords:
    """Return the locked entry."""
    require_admin(caller)
    entry = SameWords.objects.select_for_update().filter(pk=validate(Id, entry_id, "id")).first()
    if entry is None:
        raise NotFound(gettext("no such text"), field="id")
    return entry


def _locked(caller: Caller, entry_id: UUID | str) -> SameWords:
    """Return the locked entry. Raises Conflict if it was decided already."""
    entry = _found(caller, entry_id)
    if entry.decision != SameWordsDecision.OPEN:
        raise Conflict(
            gettext("was %(decision)s by %(decided_by)s")
            % {"decision": entry.decision, "decided_by": entry.decided_by},
            field="id",
        )
    return entry


def _decide(caller: Caller, entry: SameWords, decision: SameWordsDecision) -> SameWords:
    entry.decision = decision
    entry.decided_by = caller.email
    entry.decided_at = timezone.now()
    entry.save(update_fields=["decision", "decided_by", "decided_at"])
    return entry


def _row_of(entry: SameWords) -> tuple[TextPlace | None, Any]:
    place = places().get(entry.place)
    return place, place.model._default_manager.filter(pk=entry.row).first() if place else None


def _key(row: Any) -> str:
    return row.pk.hex if isinstance(row.pk, UUID) else str(row.pk)
