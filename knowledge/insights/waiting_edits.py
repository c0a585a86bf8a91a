"""Edits of approved insights. They wait for a curator in `pending_edit`, and the approved version stays in effect."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict
from foundation.operations.fields import JsonObject
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge.insights.seen import TEXT_FIELDS
from knowledge.models import ChangesetState, Insight, InsightState
from memories import services
from memories.models import MemoryRecord, Status
from memories.models.record import EDITED_BY
from memories.models.revision import value_of
from memories.portability import to_json
from memories.validity.rules import check_restored
from memories.writing.correction_chains import activate
from memories.writing.revision import revised

IN_FORCE = (InsightState.APPROVED, InsightState.APPLIED)
# All fields that readers and their agents get, so that nothing reaches them unreviewed in the name of a curator. The
# owner alone decides on the visibility.
REVIEWED_FIELDS = frozenset({*TEXT_FIELDS, "metadata"})


def defer_edit(caller: Caller, record: MemoryRecord, changes: Mapping[str, Any]) -> str:
    """Store an edit of an approved memory for review, and return a message about it.

    It is added to the person's edit that waits already. Fields that get their approved value are taken out of that one.
    Returns "" if the edit needs no review. Raises Conflict while the insight is being applied, or while another
    person's edit waits.
    """
    changes = {name: to_json(value) for name, value in changes.items()}
    if not REVIEWED_FIELDS & set(changes):
        return ""
    insight = Insight.objects.select_for_update().filter(pk=record.pk, state__in=IN_FORCE).first()
    if insight is None:
        return ""
    waiting = insight.pending_edit
    wanted = {**waiting, **changes}
    if "metadata" in waiting and "metadata" in changes:
        wanted["metadata"] = {**waiting["metadata"], **changes["metadata"]}
    edit = _differing(record, wanted)
    if edit == waiting or not (waiting or REVIEWED_FIELDS & set(edit)):
        return ALREADY_WAITS if waiting and REVIEWED_FIELDS & set(_differing(record, changes)) else ""
    if insight.state == InsightState.APPROVED and insight.changeset_id:
        raise Conflict(being_applied(insight), field="id")
    if waiting and insight.edit_by != caller.email:
        raise Conflict(
            gettext("has an edit by %(person)s that waits for a curator, who decides on it first")
            % {"person": insight.edit_by},
            field="id",
        )
    validate(JsonObject, record.metadata | edit.get("metadata", {}), "metadata")
    if not REVIEWED_FIELDS & set(edit):
        drop_edit(insight)
        return "" if edit else "the edit that waited for a curator is withdrawn; the approved version stays in effect"
    keep_edit(insight, edit, caller.email)
    return "the edit waits for a curator's approval; the approved version stays in effect until then"


ALREADY_WAITS = "this edit waits for a curator's approval already; the approved version stays in effect until then"


def _differing(record: MemoryRecord, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that differ from the memory, with new keys of its metadata also if their value is null."""
    differs = {name: value for name, value in changes.items() if present_value(record, name, value) != value}
    if new_keys := {key: value for key, value in changes.get("metadata", {}).items() if key not in record.metadata}:
        differs["metadata"] = {**differs.get("metadata", {}), **new_keys}
    return differs


def make_edit(caller: Caller, insight: Insight, change: str, notes: str) -> dict[str, Any]:
    """Give the locked memory the values of the waiting edit, and index it after the transaction.

    Returns the values from before.
    """
    record = insight.record
    edit = dict(insight.pending_edit)
    if "content" in edit:  # names the author of the new text
        edit["metadata"] = {**edit.get("metadata", {}), EDITED_BY: _editor_unless_owner(insight, caller)}
    before = {name: present_value(record, name, value) for name, value in edit.items()}
    with revised(caller, record, change, notes):
        for name, value in edit.items():
            setattr(record, name, edited_value(record, name, value))
        check_restored(record, edit)
        if "content" in edit and record.status == Status.STALE:
            activate(record)
    drop_edit(insight)
    transaction.on_commit(lambda: services.index_now(caller, record))
    return before


def _editor_unless_owner(insight: Insight, caller: Caller) -> str | None:
    editor = insight.edit_by or caller.email
    return None if editor == insight.record.created_by else editor


def as_edited(caller: Caller, record: MemoryRecord) -> MemoryRecord:
    """Return the memory as the caller's own edit that waits wants it, or as it is if there is none."""
    own = Insight.objects.visible_to(caller).filter(pk=record.pk, edit_by=caller.email).exclude(pending_edit={}).first()
    if own is None:
        return record
    edited = copy(record)
    for name, value in own.pending_edit.items():
        setattr(edited, name, edited_value(record, name, value))
    return edited


def edited_value(record: MemoryRecord, name: str, value: Any) -> Any:
    """Return the value of a field after an edit. Metadata are merged, and keys that the edit sets to null removed."""
    if name != "metadata":
        return value_of(name, value)
    return {key: item for key, item in (record.metadata | value).items() if item is not None or key not in value}


def present_value(record: MemoryRecord, name: str, value: Any) -> Any:
    """Return the value that an edit replaces. Of metadata, these are the keys of the edit, None for missing ones."""
    if name == "metadata":
        return {key: record.metadata.get(key) for key in value}
    return to_json(getattr(record, name))


def keep_edit(insight: Insight, edit: Mapping[str, Any], by: str) -> None:
    insight.pending_edit = dict(edit)
    insight.edit_by = by
    insight.edit_at = timezone.now()
    insight.save(update_fields=["pending_edit", "edit_by", "edit_at"])


def drop_edit(insight: Insight) -> None:
    insight.pending_edit = {}
    insight.edit_by = ""
    insight.edit_at = None
    insight.save(update_fields=["pending_edit", "edit_by", "edit_at"])


def require_no_edit(insight: Insight) -> None:
    if insight.pending_edit:
        raise Conflict(
            gettext("has an edit that waits: approve or reject that edit first"),
            field="insight_id",
        )


def being_applied(insight: Insight) -> str:
    """Return why an insight of a changeset can't be changed, and what comes first."""
    changeset = insight.changeset
    if changeset is not None and changeset.state == ChangesetState.WAITING:
        problem = gettext("waits in changeset %(changeset)s for a second approval: decline that changeset first")
    else:
        problem = gettext("is being applied by changeset %(changeset)s: it can be changed after a rollback of that one")
    return problem % {"changeset": insight.changeset_id.hex if insight.changeset_id else ""}
