"""Near-duplicate search by cosine similarity. Similar memories are suggested for comparison and never merged.

A changed fact is often more similar to the original than a paraphrase. So memories that differ in a number, a name, a
negation or another fact are not grouped as near-duplicates, however similar they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from uuid import UUID

from foundation.database import prepared_statements, sql_files
from foundation.database.queryset_sql import Condition, condition
from foundation.database.replica import connection_for_reading
from foundation.embedding import Vectors
from foundation.lazy_numpy import np
from foundation.people.caller import Caller
from memories.models import IN_USE, MemoryRecord
from memories.retrieval import vector_index
from memories.retrieval.ranking import is_small
from memories.texts.comparison import TextVerdict, compare, is_same_fact

SQL = sql_files.statements(__file__)
MAX_SIMILAR = 5  # maximum number of similar memories returned for a memory
ROUNDING = 1e-4  # tolerance for the difference between cosines computed by PostgreSQL and by numpy
MAX_RELATED = 1_000  # maximum number of records about an entity that are compared with others about it
LOOKED_AT = 20  # maximum number of nearest records whose whole texts are compared


@dataclass(frozen=True)
class Similar:
    record: MemoryRecord
    cosine: float
    differs: str = ""  # the facts in which it differs from the text, if they were compared


def whole_cosine(first: Vectors, second: Vectors) -> float:
    """Return the similarity of two whole texts. Each argument has the unit vectors of a text's passages, as rows.

    Each passage of one text is matched with the most similar passage of the other text, and the mean of these cosines
    is computed. This is done in both directions, and the lower mean is returned, so that a text is not a duplicate of a
    longer text that contains it. If each text has only one passage, the result is the cosine of the two passages.
    """
    cosines = first @ second.T
    return float(min(cosines.max(axis=1).mean(), cosines.max(axis=0).mean()))


VECTOR_HEADER = 4  # bytes before the numbers: the number of dimensions, and two unused bytes


def vectors_of(ids: Sequence[UUID]) -> dict[UUID, Vectors]:
    """Return the vectors of each record's passages, (passages, dimensions). Records without passages are missing."""
    by_record: dict[UUID, list[bytes]] = {}
    for pk, vector in prepared_statements.rows(SQL["vectors_of"], [list(ids)], binary=True):
        by_record.setdefault(pk, []).append(vector[VECTOR_HEADER:])
    return {
        pk: np.frombuffer(b"".join(vectors), ">f4").astype(np.float32).reshape(len(vectors), -1)
        for pk, vectors in by_record.items()
    }


def nearest_records(
    searched: Condition, vectors: Vectors, *, besides: Sequence[UUID] = (), exact: bool | None = None
) -> dict[UUID, float]:
    """Return the distances of the nearest of the searched records, nearest first.

    `vectors` are those of the passages of one text. The distance of a record is the smallest distance between one of
    its passages and one of `vectors`. At most LOOKED_AT records are returned. Short-term turns and the records in
    `besides` are left out. With `exact`, the vector index is not used; by default, the number of searched rows decides.
    """
    is_exact = is_small(searched) if exact is None else exact
    distance = _distance("passage.vector", "wanted.vector", exact=is_exact)
    join, within = _among_searched(searched, "passage", exact=is_exact)
    sql = SQL["nearest"].format(join=join, searched=within, distance=distance, looked_at=LOOKED_AT)
    texts = [str(vector.tolist()) for vector in vectors]
    return dict(prepared_statements.rows(sql, {**searched.params, "vectors": texts, "besides": list(besides)}))


def _among_searched(searched: Condition, passage: str, *, exact: bool) -> tuple[str, str]:
    """Return a join of passages with their records and a condition on it, which together select the searched ones.

    Without `exact`, they keep the planner from reading all rows in place of the vector index, as in ranking.py.
    """
    same_record = f"memory_records.id = {passage}.record_id"
    if exact:
        return f"JOIN memory_records ON {same_record}", searched.sql
    return "", f"EXISTS (SELECT FROM memory_records WHERE {same_record} AND {searched.sql} OFFSET 0)"


def _distance(first: str, second: str, *, exact: bool) -> str:
    return f"{first} <=> {second}" if exact else vector_index.distance(first, second)


def similar_to(
    caller: Caller, vectors: Vectors, *, threshold: float, besides: MemoryRecord | None = None
) -> list[Similar]:
    """Return the memories whose `whole_cosine` with a text is at least `threshold`, the most similar first.

    `vectors` are those of the text's passages. At most MAX_SIMILAR memories are returned. Only active and stale facts
    that the caller may see are searched. The memory `besides` and the one that it corrects
    are left out.
    """
    excluded = [besides.pk, *filter(None, [besides.supersedes_id])] if besides else []
    return similar_records(_current_facts(caller), vectors, threshold, besides=excluded)[:MAX_SIMILAR]


def with_differences(similar: Sequence[Similar], text: str) -> list[Similar]:
    """Return similar memories with the facts in which they differ from a text, those without a difference first."""
    comparisons = [(match, compare(match.record.content, text)) for match in similar]
    compared = [
        replace(match, differs=str(comparison)) if comparison.verdict == TextVerdict.DIFFERENT else match
        for match, comparison in comparisons
    ]
    return sorted(compared, key=lambda match: bool(match.differs))


@lru_cache(maxsize=1_000)  # the result depends only on the caller
def _current_facts(caller: Caller) -> Condition:
    return condition(MemoryRecord.objects.visible_to(caller).facts().filter(status__in=IN_USE))


def similar_records(
    searched: Condition, vectors: Vectors, threshold: float, besides: Sequence[UUID] = ()
) -> list[Similar]:
    """Return the searched records whose `whole_cosine` with a text is at least `threshold`, most similar first.

    `vectors` are those of the text's passages. Only the LOOKED_AT nearest records are compared. Short-term turns and
    the records in `besides` are left out.
    """
    with prepared_statements.in_one_transaction():
        distances = nearest_records(searched, vectors, besides=besides)
        # A whole text is never more similar than its most similar passage.
        worth_comparing = [pk for pk, distance in distances.items() if 1 - distance >= threshold - ROUNDING]
        vectors_by_record = vectors_of(worth_comparing) if worth_comparing else {}
        cosines = {pk: whole_cosine(vectors, other_vectors) for pk, other_vectors in vectors_by_record.items()}
        similar = sorted((pk for pk in cosines if cosines[pk] >= threshold), key=lambda pk: (-cosines[pk], pk))
        found = _records(similar) if similar else {}
    return [Similar(found[pk], cosines[pk]) for pk in similar if pk in found]


def _records(ids: Sequence[UUID]) -> dict[UUID, MemoryRecord]:
    rows = prepared_statements.instances(MemoryRecord, "id = ANY(%(ids)s)", {"ids": list(ids)}, defer=["search"])
    return {row.pk: row for row in rows}


def nearest_of(
    searched: Condition,
    ids: Sequence[UUID],
    *,
    threshold: float,
    same_entities: bool = False,
    besides: Mapping[UUID, UUID] | None = None,
) -> dict[UUID, Similar]:
    """Return, for each of these records, the most similar searched record if its cosine ≥ threshold.

    `besides` names a record that is left out for another one.
    Only the records of the passages nearest to each passage are compared. Short-term turns are left out. With
    `same_entities`, records must share an entity to be compared, and only the MAX_RELATED newest ones about each entity
    are, so that few distances are computed.
    """
    if same_entities:
        sql = SQL["nearest_about_the_same"].format(searched=searched.sql, most=MAX_RELATED)
    else:
        is_exact = is_small(searched)
        join, within = _among_searched(searched, "p", exact=is_exact)
        sql = SQL["nearest_of"].format(
            join=join, searched=within, distance=_distance("p.vector", "subject.vector", exact=is_exact)
        )
    with connection_for_reading().cursor() as cursor:
        cursor.execute(sql, {**searched.params, "ids": list(ids)})
        pairs = set(cursor.fetchall())
    vectors = vectors_of(list({pk for pair in pairs for pk in pair}))
    best: dict[UUID, tuple[float, UUID]] = {}
    for subject, other in pairs:
        if besides and besides.get(subject) == other:
            continue
        cosine = whole_cosine(vectors[subject], vectors[other])
        best[subject] = max(best.get(subject, (-1.0, other)), (cosine, other))
    nearest_pairs = {subject: pair for subject, pair in best.items() if pair[0] >= threshold}
    records = MemoryRecord.objects.defer("search").in_bulk([other for _, other in nearest_pairs.values()])
    return {
        subject: Similar(records[other], cosine)
        for subject, (cosine, other) in nearest_pairs.items()
        if other in records
    }


def group_near_duplicates(ids: Sequence[UUID], *, threshold: float) -> list[list[UUID]]:
    """Return these records in groups of near-duplicates, in the given order.

    In a group of several records, each has cosine ≥ threshold with at least one other and may state the same fact. A
    record without a vector or without a near-duplicate is a group of one.
    """
    vectors = vectors_of(ids)
    group_of: dict[UUID, list[UUID]] = {pk: [pk] for pk in ids}
    indexed = [pk for pk in ids if pk in vectors]
    if indexed:
        matrix = np.concatenate([vectors[pk] for pk in indexed])
        owners = np.repeat(np.arange(len(indexed)), [len(vectors[pk]) for pk in indexed])
        first, second = np.nonzero(np.triu(matrix @ matrix.T >= threshold, k=1))
        near = {(int(owners[a]), int(owners[b])) for a, b in zip(first, second, strict=True)}
        pairs = sorted((i, j) for i, j in near if i != j)
        compared = {indexed[position] for pair in pairs for position in pair}
        texts = dict(MemoryRecord.objects.filter(pk__in=compared).values_list("pk", "content"))
        for i, j in pairs:
            one = indexed[i]
            other = indexed[j]
            if group_of[one] is group_of[other] or whole_cosine(vectors[one], vectors[other]) < threshold:
                continue
            if is_same_fact(texts[one], texts[other]):
                _merge_groups(group_of, one, other)
    groups = {id(group): group for group in group_of.values()}  # ordered by their first members
    position = {pk: number for number, pk in enumerate(ids)}
    return [sorted(group, key=position.__getitem__) for group in groups.values()]


def _merge_groups(group_of: dict[UUID, list[UUID]], first: UUID, second: UUID) -> None:
    into = group_of[first]
    other_group = group_of[second]
    if into is other_group:
        return
    into.extend(other_group)
    for pk in other_group:
        group_of[pk] = into
