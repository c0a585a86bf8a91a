"""Texts that were erased leave changesets and the catalog's earlier versions: a hash stands there instead."""

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
    """Replaces what the record and its suggested actions said, wherever a change or an earlier version holds it."""
    insight = Insight.objects.filter(pk=record_id).first()
    suggested = [str(action.get("detail", "")) for action in insight.suggested_actions] if insight else []
    edits = [str(insight.pending_edit.get("content", ""))] if insight else []
    all_texts = sorted(
        {*texts, *(text for text in (*suggested, *edits) if len(text) >= QUOTED_FROM)}, key=len, reverse=True
    )
    sets = list(Changeset.objects.filter(insight_ids__contains=[record_id.hex]).values_list("pk", flat=True))
    _redact_changes(
        Change.objects.filter(Q(changeset__in=sets) | _holding("written", all_texts) | _holding("before", all_texts)),
        all_texts,
    )
    for aspect in CatalogAspect.objects.annotate(plain=Cast("value", TextField())).filter(_in_plain(all_texts)):
        CatalogAspect.objects.filter(pk=aspect.pk).update(value=without(aspect.value, all_texts))
    for text in all_texts:
        Changeset.objects.filter(error__contains=text).update(error="")
        Change.objects.filter(error__contains=text).update(error="")
        Decision.objects.filter(notes__contains=text).update(notes="")
        Insight.objects.filter(review_notes__contains=text).update(review_notes="")


def _redact_changes(changes: Any, texts: Sequence[str]) -> None:
    for change in changes.distinct():
        change.written, change.before = without(change.written, texts), without(change.before, texts)
        change.save(update_fields=["written", "before"])


def _holding(column: str, texts: Sequence[str]) -> Q:
    rows = Change.objects.annotate(plain=Cast(column, TextField())).filter(_in_plain(texts))
    return Q(pk__in=rows.values("pk"))


def _in_plain(texts: Sequence[str]) -> Q:
    rule = Q(pk__in=[])
    for text in texts:
        rule |= Q(plain__contains=json.dumps(text, ensure_ascii=False)[1:-1])
    return rule


def without(value: Any, texts: Sequence[str]) -> Any:
    """The value with each of the texts replaced by its hash, at any depth."""
    if isinstance(value, dict):
        return {key: without(item, texts) for key, item in value.items()}
    if isinstance(value, list):
        return [without(item, texts) for item in value]
    if isinstance(value, str):
        for text in texts:
            value = value.replace(text, f"sha256:{hashlib.sha256(text.encode()).hexdigest()}")
    return value
