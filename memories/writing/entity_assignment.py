"""Settling what a memory is about: a fact that states no entity is unsettled until somebody names one, or says "none".

The likeliest entities are offered where the memory is written or shown. Settling is a change like any other: it needs
the owner or an admin, is kept in the history and can be undone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Invalid
from foundation.operations.fields import Columns
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories import extensions
from memories.extensions import EntityCandidate
from memories.models import IN_USE, MemoryRecord
from memories.operations import AssignEntities
from memories.writing.correction_chains import require_in_use
from memories.writing.revision import locked, revised

OFFERED = 3  # maximum number of candidates of one memory


@dataclass(frozen=True)
class Offer:
    """Entities that unsettled memories may be about: the likeliest candidates of each, best first."""

    candidates: Mapping[UUID, Sequence[EntityCandidate]] = field(default_factory=dict)
    note: str = ""  # what was not considered

    def of(self, record: MemoryRecord) -> Sequence[EntityCandidate]:
        return self.candidates.get(record.pk, ())


def asks() -> bool:
    """Return whether new facts without entities are unsettled: not where no catalog could settle them."""
    return extensions.has_entities()


def offer(caller: Caller, records: Sequence[MemoryRecord]) -> Offer:
    """Return candidates for those of the memories that are unsettled and that the caller may settle."""
    asked = [record for record in records if is_asked(caller, record)]
    if not asked:
        return Offer({}, "")
    candidates: dict[UUID, list[EntityCandidate]] = {}
    notes = []
    for extension in extensions.EXTENSIONS.all():
        found, note = extension.likely_entities(caller, asked)
        notes.append(note)
        for pk, likely in found.items():
            candidates.setdefault(pk, []).extend(likely)
    best = {pk: sorted(likely, key=lambda item: -item.score)[:OFFERED] for pk, likely in candidates.items()}
    return Offer(best, "; ".join(filter(None, notes)))


def is_asked(caller: Caller, record: MemoryRecord) -> bool:
    is_in_use = record.status in IN_USE
    return record.unsettled and is_in_use and caller.can_edit_for(record.created_by)


def assign_entities(caller: Caller, operation: AssignEntities) -> MemoryRecord:
    """State which entities an unsettled memory is about. Without entities, it is about nothing in the catalog.

    Raises Conflict if somebody has settled it already, or if it is archived or superseded. If a curator has approved
    the memory, entities wait for approval: the record is returned unchanged, with a `pending_message`.
    """
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        require_in_use(caller, record)
        if not record.unsettled:
            raise Conflict(_why_settled(record), field="id")
        if operation.related_columns and not operation.entity_urns:
            raise Invalid(
                gettext("is missing: columns belong to an entity"),
                field="entity_urns",
                allowed=gettext("the entities of related_columns"),
            )
        columns = [*record.related_columns, *(c for c in operation.related_columns if c not in record.related_columns)]
        changes = {
            "entity_urns": operation.entity_urns,
            "related_columns": validate(Columns, columns, "related_columns"),
        }
        if pending := extensions.defer_edit(caller, record, changes):
            record.pending_message = pending
            return record
        with revised(caller, record, "settle", operation.reason):
            record.entity_urns = operation.entity_urns
            record.related_columns = changes["related_columns"]
            record.unsettled = False
    return record


def _why_settled(record: MemoryRecord) -> str:
    if not record.entity_urns:
        return gettext("is said to be about no entity already: update it to change that")
    about = ", ".join(record.entity_urns)
    return gettext("is about %(entities)s already: update it to change that") % {"entities": about}
