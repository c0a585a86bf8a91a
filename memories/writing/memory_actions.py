"""Bulk actions on memories, and on texts with the words of an erased memory."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext, gettext_lazy

from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from foundation.people.models import Persona
from memories import queries, services
from memories.models import IN_USE, MemoryRecord, SameWords, SameWordsDecision, Status, Visibility
from memories.operations import Forget, Reassign, Restore, Retag, Share, Supersede, Verify
from memories.writing import erasure, same_words, undo
from memories.writing.bulk_actions import ActionInput, BulkAction
from memories.writing.retagging import retag
from memories.writing.text_places import places

Memories = QuerySet[MemoryRecord]
# A superseded memory whose correction was erased. Any other one comes back by forgetting its correction.
WITHOUT_CORRECTION = Q(status=Status.SUPERSEDED) & ~Q(Exists(MemoryRecord.objects.filter(pk=OuterRef("superseded_by"))))


def tags_of(choice: str) -> dict[str, Any]:
    """Return the tags to add and to remove from the choice made for "retag", a JSON object with these two lists."""
    try:
        tags = json.loads(choice)
    except ValueError:
        tags = None
    if not isinstance(tags, dict):
        raise Invalid(gettext("is not a choice of tags"), field="choice", allowed='{"add": [tags], "remove": [tags]}')
    return {"add": tags.get("add", []), "remove": tags.get("remove", [])}


# -- which rows an action is offered for -----------------------------------------------------------------------


def _owned(caller: Caller, rows: Memories) -> Memories:
    return rows if caller.is_admin else rows.filter(created_by=caller.email)


def _decidable(caller: Caller, rows: Memories) -> Memories:
    """Filter to the caller's own memories and the stale ones that the caller may decide about. Admins get all."""
    if caller.is_admin:
        return rows
    return rows.filter(Q(created_by=caller.email) | Q(status=Status.STALE) & queries.decided_by(caller))


def _forgettable(caller: Caller, rows: Memories) -> Memories:
    return _decidable(caller, rows).exclude(status=Status.ARCHIVED)


def _restorable(caller: Caller, rows: Memories) -> Memories:
    return _owned(caller, rows).filter(Q(status__in=[Status.ARCHIVED, Status.STALE]) | WITHOUT_CORRECTION)


def _decidable_in_use(caller: Caller, rows: Memories) -> Memories:
    return _decidable(caller, rows).filter(status__in=IN_USE)


def _undecided(caller: Caller, rows: QuerySet[SameWords]) -> QuerySet[SameWords]:
    return rows.filter(decision=SameWordsDecision.OPEN)


def _erasable(caller: Caller, rows: QuerySet[SameWords]) -> QuerySet[SameWords]:
    """Filter to undecided texts that can be erased here: not, for example, those that only a changeset changes."""
    kept = [name for name, place in places().items() if place.changed_by]
    return _undecided(caller, rows).exclude(place__in=kept)


# -- what there is to choose from ------------------------------------------------------------------------------


def _readers(caller: Caller) -> list[tuple[str, str]]:
    return [(value, str(label)) for value, label in Visibility.choices]


def _personas(caller: Caller) -> list[tuple[str, str]]:
    rows = Persona.objects.all() if caller.is_admin else Persona.objects.filter(name__in=caller.personas)
    return [(persona.name, str(persona)) for persona in rows]


# -- what an action does with a row ----------------------------------------------------------------------------


def _forget(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    return services.forget(caller, Forget.read({"record_id": pk, "reason": entered.note}))


def _restore(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    return services.restore(caller, Restore.read({"record_id": pk, "reason": entered.note}))


def _verify(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    return services.verify(caller, Verify.read({"record_id": pk, "note": entered.note}))


def _share(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    chosen = {"record_id": pk, "visibility": entered.choice, "reason": entered.note}
    return services.share(caller, Share.read(chosen))


def _reassign(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    chosen = {"record_id": pk, "persona": entered.choice, "reason": entered.note}
    return services.reassign(caller, Reassign.read(chosen))


def _retag(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    return retag(caller, Retag.read({"record_id": pk, **tags_of(entered.choice), "reason": entered.note}))


def _correct(caller: Caller, pk: UUID, entered: ActionInput) -> object:
    chosen = {"record_id": pk, "content": entered.choice, "reason": entered.note}
    return services.supersede(caller, Supersede.read(chosen))


def _undo_of(change: str) -> BulkAction:
    return BulkAction(
        lambda caller, pk, entered: undo.undo(caller, record_id=pk, change=change, until=entered.until),
        title=gettext_lazy("Undo"),
        done=gettext_lazy("Undone"),
    )


MEMORY_ACTIONS: dict[str, BulkAction] = {
    "forget": BulkAction(
        _forget,
        title=gettext_lazy("Forget"),
        done=gettext_lazy("Forgotten"),
        description=gettext_lazy(
            "The memories are archived: kept, but no longer recalled. Their owners and admins can restore them."
        ),
        offered=_forgettable,
        inverse="undo_forget",
    ),
    "restore": BulkAction(
        _restore,
        title=gettext_lazy("Restore"),
        done=gettext_lazy("Restored"),
        description=gettext_lazy("Archived and stale memories become active again."),
        offered=_restorable,
        inverse="undo_restore",
    ),
    "verify": BulkAction(
        _verify,
        title=gettext_lazy("Mark as still true"),
        done=gettext_lazy("Verified"),
        description=gettext_lazy("Stale memories become active again. The history shows who verified them."),
        offered=_decidable_in_use,
        inverse="undo_verify",
    ),
    "correct": BulkAction(
        _correct,
        title=gettext_lazy("Correct"),
        done=gettext_lazy("Corrected"),
        description=gettext_lazy("The new text replaces the memory. The old text remains in the correction chain."),
        choice_label=gettext_lazy("The new text"),
        takes_text=True,
        offered=_decidable_in_use,
        is_slow=True,
    ),
    "share": BulkAction(
        _share,
        title=gettext_lazy("Change readers"),
        done=gettext_lazy("Readers changed"),
        description=gettext_lazy("From then on, only the readers that you choose and their agents find the memories."),
        choice_label=gettext_lazy("Readers"),
        choices=_readers,
        offered=_owned,
        inverse="undo_share",
    ),
    "reassign": BulkAction(
        _reassign,
        title=gettext_lazy("Move to another persona"),
        done=gettext_lazy("Moved to another persona"),
        description=gettext_lazy(
            "Members of that persona can then read the memories that are not private, and its curators can review "
            "them. The owner stays."
        ),
        choice_label=gettext_lazy("Persona"),
        choices=_personas,
        offered=_owned,
        inverse="undo_reassign",
    ),
    "retag": BulkAction(
        _retag,
        title=gettext_lazy("Change tags"),
        done=gettext_lazy("Tags changed"),
        description=gettext_lazy("Adds and removes tags. Other tags stay."),
        choice_label=gettext_lazy("Tags"),
        offered=_owned,
        inverse="undo_retag",
    ),
    "erase_same_words": BulkAction(
        lambda caller, pk, entered: erasure.erase_same_words(caller, entry_id=pk),
        title=gettext_lazy("Erase this, too"),
        done=gettext_lazy("Erased, too"),
        description=gettext_lazy(
            "Erases each of these texts for good: its author loses it. A text that has changed since it was found "
            "stays."
        ),
        offered=_erasable,
        kind="text",
    ),
    "leave_same_words": BulkAction(
        lambda caller, pk, entered: same_words.leave(caller, entry_id=pk),
        title=gettext_lazy("Leave it"),
        done=gettext_lazy("Left as it is"),
        description=gettext_lazy("The texts stay, because their authors wrote them independently."),
        offered=_undecided,
        kind="text",
    ),
    **{f"undo_{change}": _undo_of(change) for change in ("forget", "restore", "verify", "share", "reassign", "retag")},
}
