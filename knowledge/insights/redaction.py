"""Redaction of erased texts in changesets, decisions and catalog aspects."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import Q, TextField
from django.db.models.functions import Cast

from knowledge.models import CatalogAspect, Change, Changeset, Decision, Insight
from memories.writing.erasure import QUOTED_FROM


def redact(record_id: UUID, texts: Sequence[str]) -> None:
    """Remove quotations of a record's texts, and of the suggested actions and the pending edit of its insight.

    In changes and catalog aspects, a hash replaces each text. Error messages and notes that quote a text are emptied.
    """
    insight = Insight.objects.filter(pk=record_id).first()
    suggested = [str(action.get("detail", "")) for action in insight.suggested_actions] if insight else []
    edits = [str(insight.pending_edit.get(name, "")) for name in ("content", "summary")] if insight else []
    # Longest first, so that a text that contains another one is replaced as a whole.
    all_texts = sorted(
        {*texts, *(text for text in (*suggested, *edits) if len(text) >= QUOTED_FROM)}, key=len, reverse=True
    )
    changesets = list(Changeset.objects.filter(insight_ids__contains=[record_id.hex]).values_list("pk", flat=True))
    _redact_changes(
        Change.objects.filter(
            Q(changeset__in=changesets) | _containing("written", all_texts) | _containing("before", all_texts)
        ),
        all_texts,
    )
    for aspect in CatalogAspect.objects.annotate(plain=Cast("value", TextField())).filter(_plain_contains(all_texts)):
        CatalogAspect.objects.filter(pk=aspect.pk).update(value=redacted(aspect.value, all_texts))
    for text in all_texts:
        Changeset.objects.filter(error__contains=text).update(error="")
        Change.objects.filter(error__contains=text).update(error="")
        Decision.objects.filter(notes__contains=text).update(notes="")
        Insight.objects.filter(review_notes__contains=text).update(review_notes="")


def _redact_changes(changes: Any, texts: Sequence[str]) -> None:
    for change in changes.distinct():
        change.written, change.before = redacted(change.written, texts), redacted(change.before, texts)
        change.save(update_fields=["written", "before"])


def _containing(column: str, texts: Sequence[str]) -> Q:
    rows = Change.objects.annotate(plain=Cast(column, TextField())).filter(_plain_contains(texts))
    return Q(pk__in=rows.values("pk"))


def _plain_contains(texts: Sequence[str]) -> Q:
    """Return the condition that `plain`, a JSON value as text, contains one of the texts."""
    rule = Q(pk__in=[])
    for text in texts:
        rule |= Q(plain__contains=json.dumps(text, ensure_ascii=False)[1:-1])
    return rule


def redacted(value: Any, texts: Sequence[str]) -> Any:
    """Return the value with each of the texts replaced by its hash, at any depth."""
    if isinstance(value, dict):
        return {key: redacted(item, texts) for key, item in value.items()}
    if isinstance(value, list):
        return [redacted(item, texts) for item in value]
    if isinstance(value, str):
        for text in texts:
            value = value.replace(text, f"sha256:{hashlib.sha256(text.encode()).hexdigest()}")
    return value
