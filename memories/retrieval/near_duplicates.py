"""Near-duplicates: what a new memory is suggested to be compared with, never merged with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from django.db import connection

from memories.database import prepared_statements
from memories.database.queryset_sql import Condition, condition
from memories.embedding import Vectors
from memories.identity.caller import Caller
from memories.lazy_numpy import np
from memories.models import MemoryRecord, Passage, Status
from memories.retrieval import vector_index
from memories.retrieval.ranking import is_small

MAX_SIMILAR = 5
ROUNDING = 1e-4  # between PostgreSQL's cosine and ours
LOOKED_AT = 20  # nearest records whose whole texts are compared


@dataclass(frozen=True)
class Similar:
    record: MemoryRecord
    cosine: float


def whole_cosine(first: Vectors, second: Vectors) -> float:
    """How alike two texts are as a whole, from their passages (n, dimensions) and (m, dimensions) of unit length: of
    the one whose passages have the worse likes in the other, their mean. Of short texts, the cosine."""
    cosines = first @ second.T
    return float(min(cosines.max(axis=1).mean(), cosines.max(axis=0).mean()))


def vectors_of(ids: Sequence[UUID]) -> dict[UUID, Vectors]:
    """The passages' vectors of each of these records that has some."""
    rows = Passage.objects.filter(record__in=ids).order_by("record", "start").values_list("record_id", "vector")
    lists: dict[UUID, list[Vectors]] = {}
    for pk, vector in rows:
        lists.setdefault(pk, []).append(np.asarray(vector, dtype=np.float32))
    return {pk: np.stack(vectors) for pk, vectors in lists.items()}


# The records nearest to any of some vectors, best first.
NEAREST = """
    SELECT record_id, distance FROM (
        SELECT p.record_id, min(p.vector <=> wanted.vector) AS distance
        FROM unnest(%(vectors)s::text[]::vector[]) AS wanted(vector) CROSS JOIN LATERAL (
            SELECT passage.record_id, passage.vector FROM memory_passages passage
            JOIN memory_records ON memory_records.id = passage.record_id
            WHERE NOT passage.short_term AND passage.record_id <> ALL(%(besides)s) AND {scope}
            ORDER BY {distance} LIMIT {looked_at}
        ) p GROUP BY p.record_id
    ) nearest ORDER BY distance, record_id LIMIT {looked_at}"""


def nearest_records(
    scope: Condition, vectors: Vectors, *, besides: Sequence[UUID] = (), exact: bool | None = None
) -> dict[UUID, float]:
    """The lasting records of the scope nearest to any of these passages, best first, with the distance of their best
    one."""
    is_exact = is_small(scope) if exact is None else exact
    distance = _distance("passage.vector", "wanted.vector", exact=is_exact)
    sql = NEAREST.format(scope=scope.sql, distance=distance, looked_at=LOOKED_AT)
    texts = [str(vector.tolist()) for vector in vectors]
    return dict(prepared_statements.rows(sql, {**scope.params, "vectors": texts, "besides": list(besides)}))


def _distance(first: str, second: str, *, exact: bool) -> str:
    return f"{first} <=> {second}" if exact else vector_index.distance(first, second)


def similar_to(
    caller: Caller, vectors: Vectors, *, threshold: float, besides: MemoryRecord | None = None
) -> list[Similar]:
    """Living memories that the caller sees and whose whole text has cosine ≥ threshold, nearest first, at most five.

    Left out: `besides` itself and what it corrects.
    """
    left_out = [besides.pk, *filter(None, [besides.supersedes_id])] if besides else []
    return like(_living_facts(caller), vectors, threshold, besides=left_out)[:MAX_SIMILAR]


@lru_cache(maxsize=1_000)
def _living_facts(caller: Caller) -> Condition:
    """Compiled once for each reader; it holds no values but theirs."""
    return condition(MemoryRecord.objects.visible_to(caller).facts().filter(status__in=[Status.ACTIVE, Status.STALE]))


def like(scope: Condition, vectors: Vectors, threshold: float, besides: Sequence[UUID] = ()) -> list[Similar]:
    """The lasting records of the scope whose whole text has cosine ≥ threshold to the text of these passages, nearest
    first."""
    near_ones = nearest_records(scope, vectors, besides=besides)
    # No text as a whole is more alike than its best passage.
    worth_comparing = [pk for pk, distance in near_ones.items() if 1 - distance >= threshold - ROUNDING]
    vectors_by_record = vectors_of(worth_comparing) if worth_comparing else {}
    cosines = {pk: whole_cosine(vectors, other_vectors) for pk, other_vectors in vectors_by_record.items()}
    near = sorted((pk for pk in cosines if cosines[pk] >= threshold), key=lambda pk: (-cosines[pk], pk))
    records = MemoryRecord.objects.defer("search").in_bulk(near)
    return [Similar(records[pk], cosines[pk]) for pk in near if pk in records]


# The nearest living memories of each passage of some records.
NEAREST_OF = """
    SELECT subject.record_id, near.record_id
    FROM memory_passages subject {subject_record} CROSS JOIN LATERAL (
        SELECT p.record_id FROM memory_passages p JOIN memory_records ON memory_records.id = p.record_id
        WHERE NOT p.short_term AND {scope} AND p.record_id <> subject.record_id {same_entities}
        ORDER BY {distance} LIMIT 2
    ) near
    WHERE subject.record_id = ANY(%(ids)s)"""
SUBJECT_RECORD = "JOIN memory_records subject_record ON subject_record.id = subject.record_id"
SAME_ENTITIES = "AND memory_records.entity_urns && subject_record.entity_urns"


def nearest_of(
    scope: Condition, ids: Sequence[UUID], *, threshold: float, same_entities: bool = False
) -> dict[UUID, Similar]:
    """For each of these records the nearest one of the scope by meaning, where its cosine ≥ threshold. With
    `same_entities` those alone are compared that share an entity, which spares a large scope most of its distances."""
    sql = NEAREST_OF.format(
        scope=scope.sql,
        distance=_distance("p.vector", "subject.vector", exact=same_entities or is_small(scope)),
        subject_record=SUBJECT_RECORD if same_entities else "",
        same_entities=SAME_ENTITIES if same_entities else "",
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, {**scope.params, "ids": list(ids)})
        pairs = set(cursor.fetchall())
    vectors = vectors_of(list({pk for pair in pairs for pk in pair}))
    best: dict[UUID, tuple[float, UUID]] = {}
    for subject, near in pairs:
        cosine = whole_cosine(vectors[subject], vectors[near])
        best[subject] = max(best.get(subject, (-1.0, near)), (cosine, near))
    nearest_pairs = {subject: pair for subject, pair in best.items() if pair[0] >= threshold}
    records = MemoryRecord.objects.defer("search").in_bulk([near for _, near in nearest_pairs.values()])
    return {
        subject: Similar(records[near], cosine) for subject, (cosine, near) in nearest_pairs.items() if near in records
    }


def group_near_duplicates(ids: Sequence[UUID], *, threshold: float) -> list[list[UUID]]:
    """These records in groups of near-duplicates (cosine ≥ threshold to some other of the group), in the given order;
    a record without a vector or without a like is a group of its own."""
    vectors = vectors_of(ids)
    group_of: dict[UUID, list[UUID]] = {pk: [pk] for pk in ids}
    indexed = [pk for pk in ids if pk in vectors]
    if indexed:
        matrix = np.concatenate([vectors[pk] for pk in indexed])
        owners = np.repeat(np.arange(len(indexed)), [len(vectors[pk]) for pk in indexed])
        first, second = np.nonzero(np.triu(matrix @ matrix.T >= threshold, k=1))
        for i, j in sorted({(int(owners[a]), int(owners[b])) for a, b in zip(first, second, strict=True)}):
            if i != j and whole_cosine(vectors[indexed[i]], vectors[indexed[j]]) >= threshold:
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
