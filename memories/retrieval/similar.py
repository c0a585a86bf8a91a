"""Near-duplicates: what a new memory is suggested to be compared with, never merged with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Value
from django.db.models.expressions import CombinedExpression
from django.db.models.fields import FloatField
from pgvector.django import CosineDistance

from memories.access import Caller
from memories.models import MemoryRecord, Status
from memories.retrieval.search import is_small, nearest

SIMILAR_MAX = 5


@dataclass(frozen=True)
class Similar:
    record: MemoryRecord
    cosine: float


def similar_to(
    caller: Caller, vector: Sequence[float], *, threshold: float, besides: MemoryRecord | None = None
) -> list[Similar]:
    """Living memories that the caller sees with cosine ≥ threshold, nearest first, at most five.

    Left out: `besides` itself and what it corrects.
    """
    scope = MemoryRecord.objects.visible_to(caller).facts().filter(status__in=[Status.ACTIVE, Status.STALE])
    if besides is not None:
        scope = scope.exclude(pk__in=[besides.pk, besides.supersedes_id or besides.pk])
    cosine = CombinedExpression(Value(1.0), "-", CosineDistance("embedding", list(vector)), output_field=FloatField())
    rows = nearest(scope, vector, exact=is_small(scope)).annotate(cosine=cosine).defer("embedding", "search")
    candidates = [Similar(row, row.cosine) for row in rows[:SIMILAR_MAX]]  # type: ignore[attr-defined]  # annotated
    return [similar for similar in candidates if similar.cosine >= threshold]
