"""Near-duplicates: what a new memory is suggested to be compared with, never merged with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
from django.db import connection
from django.db.models import Value
from django.db.models.expressions import CombinedExpression
from django.db.models.fields import FloatField
from pgvector.django import CosineDistance

from memories.access import Caller
from memories.database.statements import condition
from memories.models import MemoryRecord, Status
from memories.models.record import MemoryRecordQuerySet
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


# The nearest living memory of each of some records. The added zero keeps the planner from the HNSW index, which loses
# the rows of a small scope.
NEAREST = """
    SELECT subject.id, near.id, 1 - near.distance
    FROM memory_records subject CROSS JOIN LATERAL (
        SELECT memory_records.id, (memory_records.embedding <=> subject.embedding){exactly} AS distance
        FROM memory_records WHERE {scope} AND memory_records.embedding IS NOT NULL AND memory_records.id <> subject.id
        {same_entities}
        ORDER BY (memory_records.embedding <=> subject.embedding){exactly} LIMIT 1
    ) near
    WHERE subject.id = ANY(%(ids)s) AND subject.embedding IS NOT NULL"""


SAME_ENTITIES = "AND memory_records.entity_urns && subject.entity_urns"


def nearest_of(
    scope: MemoryRecordQuerySet, ids: Sequence[UUID], *, threshold: float, same_entities: bool = False
) -> dict[UUID, Similar]:
    """For each of these records the nearest one of the scope by meaning, where its cosine ≥ threshold. With
    `same_entities` those alone are compared that share an entity, which spares a large scope most of its distances."""
    scope_sql, params = condition(scope)
    exactly = " + 0" if same_entities or is_small(scope) else ""
    sql = NEAREST.format(scope=scope_sql, exactly=exactly, same_entities=SAME_ENTITIES if same_entities else "")
    with connection.cursor() as cursor:
        cursor.execute(sql, {**params, "ids": list(ids)})
        rows = [(subject, near, cosine) for subject, near, cosine in cursor.fetchall() if cosine >= threshold]
    records = MemoryRecord.objects.defer("embedding", "search").in_bulk([near for _, near, _ in rows])
    return {subject: Similar(records[near], cosine) for subject, near, cosine in rows if near in records}


def alike(ids: Sequence[UUID], *, threshold: float) -> list[list[UUID]]:
    """These records in groups of near-duplicates (cosine ≥ threshold to some other of the group), in the given order;
    a record without a vector or without a like is a group of its own."""
    rows = MemoryRecord.objects.filter(pk__in=ids, embedding__isnull=False).values_list("pk", "embedding")
    vectors = {pk: np.asarray(vector, dtype=np.float32) for pk, vector in rows}
    group_of: dict[UUID, list[UUID]] = {pk: [pk] for pk in ids}
    indexed = [pk for pk in ids if pk in vectors]
    if indexed:
        matrix = np.stack([vectors[pk] / (np.linalg.norm(vectors[pk]) or 1.0) for pk in indexed])
        first, second = np.nonzero(np.triu(matrix @ matrix.T >= threshold, k=1))
        for i, j in zip(first, second, strict=True):
            _join(group_of, indexed[i], indexed[j])
    groups = {id(group): group for group in group_of.values()}  # in the order of their first members
    position = {pk: number for number, pk in enumerate(ids)}
    return [sorted(group, key=position.__getitem__) for group in groups.values()]


def _join(group_of: dict[UUID, list[UUID]], first: UUID, second: UUID) -> None:
    into, other_group = group_of[first], group_of[second]
    if into is other_group:
        return
    into.extend(other_group)
    for pk in other_group:
        group_of[pk] = into
