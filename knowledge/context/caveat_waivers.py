"""Statements that a caveat from upstream does not hold for an entity or column that is derived from its own.

A waiver counts for everyone, so readers of other personas can't make one. It names its author and the reason, and ends
when the caveat's text changes or somebody withdraws it. Withdrawn waivers are kept.
"""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller, require_user
from knowledge.catalog.lineage_edges import split_column
from knowledge.context.caveats import CATALOG_COLUMNS, CATEGORIES, TAG, best_path, catalog_columns, paths_to
from knowledge.models import CaveatWaiver
from knowledge.models.caveat_waiver import CaveatWaiverQuerySet
from knowledge.operations import Reinstate, Waive
from memories.models import MemoryRecord, Visibility
from memories.rendering import entity_name


def may_waive(caller: Caller, record: MemoryRecord) -> bool:
    """Return whether the caller may waive a caveat: its owner, its persona's members and curators, and admins may."""
    if caller.can_edit_for(record.created_by):
        return True
    return record.visibility != Visibility.PRIVATE and record.persona in caller.personas


def waive(caller: Caller, operation: Waive) -> CaveatWaiver:
    """State that a caveat does not hold for a derived entity, or for one of its columns.

    Raises NotFound if the caller may not read the memory, Forbidden if the caller may not waive it, Invalid if it is no
    caveat or does not reach the entity, and Conflict if it is waived there already.
    """
    require_user(caller)
    (given,) = operation.entity_urns
    urn, column = target_of(given)
    with transaction.atomic():
        record = _locked(caller, operation)
        if not may_waive(caller, record):
            raise Forbidden(
                gettext("belongs to the persona %(persona)s: only its members and the owner can waive the caveat")
                % {"persona": record.persona},
                field=operation.id_field,
            )
        _check_reaches(record, urn, column, operation.id_field)
        existing = CaveatWaiver.objects.in_force().filter(record=record, urn=urn, column=column).first()
        if existing is not None:
            raise Conflict(gettext("is waived already, by %(by)s") % {"by": existing.by}, field="entity_urns")
        return CaveatWaiver.objects.create(
            record=record,
            urn=urn,
            column=column,
            reason=operation.reason,
            by=caller.email,
            content_key=record.content_key,
        )


def reinstate(caller: Caller, operation: Reinstate) -> CaveatWaiver:
    """Withdraw the waiver of a caveat: it holds for the entity or column again.

    The waiver's author may do that, and those who decide about the memory. Raises NotFound if it is not waived there,
    and Forbidden.
    """
    require_user(caller)
    (given,) = operation.entity_urns
    urn, column = target_of(given)
    with transaction.atomic():
        record = _locked(caller, operation)
        waiver = CaveatWaiver.objects.in_force().filter(record=record, urn=urn, column=column).first()
        if waiver is None:
            raise NotFound(
                gettext("the caveat is not waived for %(name)s") % {"name": _name(urn, column)}, field="entity_urns"
            )
        if not may_reinstate(caller, record, waiver):
            raise Forbidden(
                gettext("was waived by %(by)s: only they, the memory’s owner or a curator can undo that")
                % {"by": waiver.by},
                field=operation.id_field,
            )
        waiver.withdrawn_by = caller.email
        waiver.withdrawn_at = timezone.now()
        waiver.save(update_fields=["withdrawn_by", "withdrawn_at"])
    return waiver


def may_reinstate(caller: Caller, record: MemoryRecord, waiver: CaveatWaiver) -> bool:
    if waiver.by == caller.email or caller.can_edit_for(record.created_by):
        return True
    return record.visibility != Visibility.PRIVATE and caller.can_review_for(record.persona)


def waivers_for(caller: Caller, urn: str) -> CaveatWaiverQuerySet:
    """Return the waivers in force for an entity and its columns, of memories that the caller may read."""
    return CaveatWaiver.objects.visible_to(caller).in_force().filter(urn=urn).select_related("record")


def target_of(urn: str) -> tuple[str, str]:
    """Return the entity and the column that a URN names. The column is "" if it is the URN of an entity."""
    table, column = split_column(urn)
    return (table, column) if table else (urn, "")


def _locked(caller: Caller, operation: Waive | Reinstate) -> Any:
    """Return the memory with its annotation `catalog`."""
    rows = MemoryRecord.objects.visible_to(caller).select_for_update(no_key=True).defer("search")
    rows = rows.annotate(catalog=CATALOG_COLUMNS)
    record = rows.filter(pk=operation.record_id).first()
    if record is None:
        raise NotFound(gettext("no such memory"), field=operation.id_field)
    return record


def _check_reaches(record: Any, urn: str, column: str, field: str) -> None:
    if record.category not in CATEGORIES and TAG not in record.tags:
        raise Invalid(
            gettext("is no caveat"),
            field=field,
            allowed=gettext("a memory of the category data_quality or correction, or with the tag caveat"),
        )
    if best_path(record, paths_to([urn], [column] if column else []), catalog_columns(record.catalog)) is None:
        raise Invalid(
            gettext("%(name)s is not derived from what the caveat is about") % {"name": _name(urn, column)},
            field="entity_urns",
            allowed=gettext("an entity or column at most two steps of lineage downstream"),
        )


def _name(urn: str, column: str) -> str:
    return ".".join(filter(None, [entity_name(urn), column]))
