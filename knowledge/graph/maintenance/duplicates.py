"""Near-duplicate observations of one entity.

Two observations are near-duplicates if the cosine of their embeddings is high, or if one is much longer than the other
and contains most of its words, unless they differ in a fact, such as a number or a negation.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from django.utils.translation import gettext

from foundation import embedding
from foundation.lazy_numpy import np
from foundation.operations.errors import Degraded
from foundation.people.caller import Caller
from knowledge.graph import graphs, names
from knowledge.graph.entities import not_found
from knowledge.graph.models import Entity, Observation, ObservationPassage, UpkeepKind, UpkeepProposal, UpkeepState
from knowledge.graph.operations import FindDuplicates
from knowledge.graph.search import vectors
from knowledge.graph.search.vectors import FLAG_CONTAINMENT, FLAG_COSINE, containment, is_asymmetric
from memories.texts.comparison import is_same_fact

MAX_COMPARED = 500  # maximum number of observations of an entity that are compared with one another


@dataclass(frozen=True)
class DuplicatePair:
    first: Observation
    second: Observation
    score: float
    match_type: str  # cosine or containment


@dataclass(frozen=True)
class Duplicates:
    entity: Entity
    total: int  # number of compared observations
    pairs: list[DuplicatePair]

    @property
    def clusters(self) -> list[list[Observation]]:
        """Return groups of observations that are connected by pairs, directly or through others."""
        group_of: dict[int, set[int]] = {}
        rows = {row.number: row for pair in self.pairs for row in (pair.first, pair.second)}
        for pair in self.pairs:
            joined = group_of.get(pair.first.number, {pair.first.number}) | group_of.get(
                pair.second.number, {pair.second.number}
            )
            for number in joined:
                group_of[number] = joined
        distinct = {min(group): sorted(group) for group in group_of.values()}
        return [[rows[number] for number in group] for _, group in sorted(distinct.items())]


def find_duplicates(caller: Caller, operation: FindDuplicates) -> Duplicates:
    entity = names.find_one(graphs.graph_of(caller), operation.entity_name)
    if entity is None:
        raise not_found(operation.entity_name)
    return pairs_of(entity, operation.threshold, operation.containment_threshold)


def pairs_of(entity: Entity, threshold: float = FLAG_COSINE, least_containment: float = FLAG_CONTAINMENT) -> Duplicates:
    """Return an entity's near-duplicates, most similar first, except those that an admin dismissed.

    Raises Degraded if embeddings are missing and can't be computed now.
    """
    rows = list(Observation.objects.filter(entity=entity, ended_at=None).order_by("number")[:MAX_COMPARED])
    if len(rows) < 2:
        return Duplicates(entity, len(rows), [])
    vectors.index_missing([entity])
    vector_of = dict(
        ObservationPassage.objects.filter(observation__in=rows, start=0).values_list("observation", "vector")
    )
    if len(vector_of) < len(rows):
        raise Degraded(
            gettext("Embedding model not available: %(embedding)s") % {"embedding": embedding.state()["detail"]}
        )
    matrix = np.array([vector_of[row.pk] for row in rows], dtype=np.float32)
    cosines = matrix @ matrix.T
    dismissals = UpkeepProposal.objects.filter(entity=entity, kind=UpkeepKind.DUPLICATE, state=UpkeepState.DISMISSED)
    dismissed = [set(pair) for pair in dismissals.values_list("ends", "stays")]
    pairs = []
    for a, b in combinations(range(len(rows)), 2):
        if {rows[a].pk, rows[b].pk} in dismissed:
            continue
        share = containment(rows[a].text, rows[b].text) if is_asymmetric(rows[a].text, rows[b].text) else 0.0
        is_contained = share >= least_containment and share > 0
        if not (cosines[a, b] >= threshold or is_contained) or not is_same_fact(rows[a].text, rows[b].text):
            continue
        if cosines[a, b] >= threshold:
            pairs.append(DuplicatePair(rows[a], rows[b], float(cosines[a, b]), "cosine"))
        else:
            pairs.append(DuplicatePair(rows[a], rows[b], share, "containment"))
    return Duplicates(entity, len(rows), sorted(pairs, key=lambda pair: (-pair.score, pair.first.number)))
