"""Removal of an erased insight's texts from its changesets, past versions of aspects, and other insights' decisions.

The present catalog is never changed here: only changesets change it. check_erase refuses to erase an insight while a
changeset applies it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Q

from foundation.people.caller import Caller
from knowledge.catalog.json_patch import ABSENT, equal, patched, value_at
from knowledge.changesets import erased_entities
from knowledge.models import CatalogAspect, Change, ChangeOutcome, Changeset, Decision, Insight
from memories.models import Batch, Quotation
from memories.writing.quotations import quotes_anything
from memories.writing.text_places import BATCH_NOTES, ERASED_TEXT, without

# Outcomes of changes whose value was not written, or belongs to other insights.
NOT_WRITTEN = (ChangeOutcome.PLANNED, ChangeOutcome.NOOP, ChangeOutcome.FAILED, ChangeOutcome.KEPT)


def remove_copies(caller: Caller, record_id: UUID, texts: Sequence[str]) -> dict[str, int]:
    """Remove a record's texts, and those of the suggested actions and pending edit of its insight, by their origin.

    Return the number of changed rows by kind.
    """
    insight = Insight.objects.filter(pk=record_id).first()
    suggested = [str(action.get("detail", "")) for action in insight.suggested_actions] if insight else []
    edits = [str(insight.pending_edit.get(name, "")) for name in ("content", "summary")] if insight else []
    found = {*texts, *(text for text in (*suggested, *edits) if quotes_anything(text))}
    # Longest first, so that a text that contains another one is replaced as a whole.
    all_texts = sorted(found, key=lambda text: (-len(text), text))
    removed: Counter[str] = Counter()
    for changeset in Changeset.objects.select_for_update().filter(insight_ids__contains=[record_id.hex]).order_by("pk"):
        removed += _remove_from_changeset(caller, changeset, record_id, all_texts)
    removed["decision notes"] = _cut_decision_notes(record_id, texts)
    return dict(+removed)


def _remove_from_changeset(caller: Caller, changeset: Changeset, record_id: UUID, texts: Sequence[str]) -> Counter[str]:
    """Remove the texts from the written values, and from where these values are kept as earlier ones.

    If the insight is the last one of the changeset, all written texts go. The values that the catalog had before stay,
    because they are not from the insight.
    """
    others = [UUID(pk) for pk in changeset.insight_ids if pk != record_id.hex]
    is_last = not Insight.objects.filter(pk__in=others).exists()
    removed: Counter[str] = Counter()
    for change in changeset.changes.all():
        written = emptied(change.written) if is_last else redacted(change.written, texts)
        has_text = not equal(written, change.written)
        if has_text and change.outcome not in NOT_WRITTEN and change.operation == "add":
            removed["earlier catalog versions"] += _remove_from_versions(changeset, change)
            removed["changes"] += _erase_before(changeset, change)
        error = without(change.error, texts)
        if has_text or error != change.error:
            removed["changes"] += Change.objects.filter(pk=change.pk).update(written=written, error=error)
    Changeset.objects.filter(pk=changeset.pk).update(error=without(changeset.error, texts))
    if left := list(changeset.changes.filter(creates=True, outcome=ChangeOutcome.REVERTED)):
        for change in left:
            change.before = emptied(change.written)
        erased_entities.plan(caller, record_id, changeset, left)
    return removed


def _remove_from_versions(changeset: Changeset, change: Change) -> int:
    """Remove a written value from the past versions of its aspect, at its path. The current version stays as it is."""
    versions = CatalogAspect.objects.filter(
        urn=change.urn, aspect=change.aspect, is_latest=False, value__isnull=False, created_at__gte=changeset.created_at
    )
    count = 0
    for version in versions:
        if _is_value(value_at(change.aspect, version.value, change.path), change.written):
            value = patched(change.aspect, version.value, change.path, "remove", None)
            count += CatalogAspect.objects.filter(pk=version.pk).update(value=value)
    return count


def _erase_before(changeset: Changeset, change: Change) -> int:
    """Empty the values that later changes of the same place found and that are the value written by this change.

    A rollback of such a change is refused, see changesets/rollback.py.
    """
    same_place = Change.objects.filter(urn=change.urn, aspect=change.aspect, path=change.path, had_before=True)
    is_later = Q(changeset=changeset, position__gt=change.position) | Q(changeset__created_at__gt=changeset.created_at)
    later = same_place.filter(is_later)
    copies = [row for row in later.filter(before_erased=False) if equal(row.before, change.written)]
    for row in copies:
        Change.objects.filter(pk=row.pk).update(before=emptied(row.before), before_erased=True)
    return len(copies)


def _is_value(current: Any, written: Any) -> bool:
    return current is not ABSENT and equal(current, written)


def _cut_decision_notes(record_id: UUID, texts: Sequence[str]) -> int:
    """Cut quotations out of decisions that a bulk action made on other insights, with a note that quotes the record."""
    quoting = Quotation.objects.filter(record=record_id, place=BATCH_NOTES).values_list("row", flat=True)
    count = 0
    for batch in Batch.objects.filter(pk__in=list(quoting)):
        others = [pk for pk in batch.unit_ids if pk != record_id]
        made = {"insight__in": others, "by": batch.created_by, "at__gte": batch.created_at}
        count += _cut(Decision.objects.filter(**made, notes=batch.note.strip()), "notes", texts)
        of_batch = Insight.objects.filter(pk__in=others, reviewed_by=batch.created_by)
        count += _cut(of_batch.filter(review_notes=batch.note.strip()), "review_notes", texts)
    return count


def _cut(rows: Any, column: str, texts: Sequence[str]) -> int:
    for row in rows:
        rows.model.objects.filter(pk=row.pk).update(**{column: without(getattr(row, column), texts)})
    return len(rows)


def redacted(value: Any, texts: Iterable[str]) -> Any:
    """Return the value with each of the texts replaced, at any depth."""
    return _with_texts(value, lambda text: without(text, list(texts)))


def emptied(value: Any) -> Any:
    """Return the value with all texts replaced, at any depth. URNs stay: they name what is in the catalog."""
    return _with_texts(value, lambda text: text if text.startswith("urn:li:") or not text else ERASED_TEXT)


def _with_texts(value: Any, replace: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_texts(item, replace) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_texts(item, replace) for item in value]
    return replace(value) if isinstance(value, str) else value
