"""Entities that hold several topics: told, proposed and split. Nothing here knows a language.

Topics are average-linkage clusters of the observations' vectors, cut at a cosine distance of .5; without vectors, of
the words that they share. A topic is named by its two most telling words: count / total · ln(1 + topics / topics with
it).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, Q

from knowledge.graph import graphs
from knowledge.graph.entities import live, not_found, put_entity
from knowledge.graph.models import (
    Entity,
    Graph,
    Observation,
    ObservationPassage,
    UpkeepKind,
    UpkeepProposal,
    UpkeepState,
)
from knowledge.graph.operations import AnalyzeSplit, ExecuteSplit, FindSplits, ProposeSplit
from knowledge.graph.relations import relate
from knowledge.graph.search import vectors
from knowledge.graph.search.trigrams import words_of
from memories.contract.errors import Conflict, Invalid
from memories.identity.caller import Caller
from memories.lazy_numpy import np

CUT = 0.5  # cosine distance
WORD_LETTERS = 4
MAX_CLUSTERED = 400  # observations of one entity that are clustered


@dataclass(frozen=True)
class Analysis:
    entity: Entity
    count: int
    threshold: int
    topics: dict[str, list[Observation]]

    @property
    def score(self) -> float:
        """count / threshold + min(topics / count, .5); without the second at or below the threshold."""
        if self.count <= self.threshold:
            return self.count / self.threshold
        return self.count / self.threshold + min(len(self.topics) / self.count, 0.5)

    @property
    def needs_split(self) -> bool:
        """Several topics, not only many observations."""
        return self.count > self.threshold and self.score > 1.0 and len(self.topics) > 1


def threshold_of(entity_type: str) -> int:
    limits = settings.GRAPH_SPLIT_AT
    return int(limits.get(entity_type, limits["*"]))


def analyze(operation: AnalyzeSplit, *, caller: Caller) -> Analysis:
    graph = graphs.graph_of(caller)
    entity = live(graph).filter(name=operation.entity_name, is_placeholder=False).first() if graph else None
    if entity is None:
        raise not_found(operation.entity_name)
    return analysis_of(entity)


def propose(operation: ProposeSplit, *, caller: Caller) -> Analysis | None:
    """The analysis of an entity that should be split; None where it should not."""
    analysis = analyze(AnalyzeSplit(entity_name=operation.entity_name), caller=caller)
    return analysis if analysis.needs_split else None


def parts_of(analysis: Analysis) -> list[dict[str, Any]]:
    """The suggested entities: one a topic."""
    entity = analysis.entity
    return [
        {
            "name": f"{entity.name} - {topic}",
            "entity_type": entity.entity_type,
            "observations": [row.text for row in rows],
        }
        for topic, rows in analysis.topics.items()
    ]


def candidates(operation: FindSplits, *, caller: Caller) -> list[Analysis]:
    """All entities that should be split, the fullest first."""
    graph = graphs.graph_of(caller)
    return split_candidates(graph) if graph else []


def split_candidates(graph: Graph) -> list[Analysis]:
    """Without those that an admin dismissed."""
    rows = (
        live(graph)
        .filter(is_placeholder=False)
        .annotate(n=Count("observations", filter=Q(observations__ended_at=None)))
    )
    least = min(int(value) for value in settings.GRAPH_SPLIT_AT.values())
    decided = UpkeepProposal.objects.filter(entity__graph=graph, kind=UpkeepKind.SPLIT, state=UpkeepState.DISMISSED)
    rows = rows.filter(n__gt=least).exclude(pk__in=decided.values("entity"))
    full = [entity for entity in rows if entity.n > threshold_of(entity.entity_type)]
    analyses = [analysis_of(entity) for entity in full]
    return sorted((a for a in analyses if a.needs_split), key=lambda a: (-a.score, a.entity.number))


def analysis_of(entity: Entity) -> Analysis:
    observations = list(Observation.objects.filter(entity=entity, ended_at=None).order_by("number"))
    threshold = threshold_of(entity.entity_type)
    topics = topics_of(observations) if len(observations) > threshold else {}
    return Analysis(entity, len(observations), threshold, topics)


def execute(operation: ExecuteSplit, *, caller: Caller) -> dict[str, Any]:
    """Moves the approved observations to new entities, all or nothing: rows move, so that their dates and kinds stay.
    Raises Invalid for a text that the entity does not have, Conflict for a name that is taken."""
    with graphs.changing(caller) as graph:
        entity = live(graph).filter(name=operation.entity_name, is_placeholder=False).first()
        if entity is None:
            raise not_found(operation.entity_name)
        parent = entity
        if operation.parent_entity_name and operation.parent_entity_name != entity.name:
            parent = live(graph).filter(name=operation.parent_entity_name, is_placeholder=False).first()
            if parent is None:
                raise not_found(operation.parent_entity_name)
        children, related = split(graph, entity, parent, operation.approved_splits)
        remaining = Observation.objects.filter(entity=entity, ended_at=None).count()
    vectors.index_soon(children)
    return {
        "new_entities": [child.name for child in children],
        "moved_observations": sum(len(set(part["observations"])) for part in operation.approved_splits),
        "relations_created": related,
        "original_observations_remaining": remaining,
    }


def split(graph: Graph, entity: Entity, parent: Entity, parts: Sequence[Mapping[str, Any]]) -> tuple[list[Entity], int]:
    """New entities of a locked graph, to which observations move; returns them with the number of new relations."""
    children, related = [], 0
    for number, part in enumerate(parts):
        child = _split_off(graph, entity, part, number)
        children.append(child)
        related += relate_both(graph, parent, child)
    return children, related


def relate_both(graph: Graph, parent: Entity, child: Entity) -> int:
    """The split's relation with its inverse; returns how many there are new."""
    before = parent.outgoing.count() + child.outgoing.count()
    relate(graph, [(parent, child, settings.GRAPH_SPLIT_RELATION, "")])
    return parent.outgoing.count() + child.outgoing.count() - before


def _split_off(graph: Graph, entity: Entity, split: Mapping[str, Any], number: int) -> Entity:
    if live(graph).filter(name=split["name"], is_placeholder=False).exists():
        raise Conflict(f"there is an entity {split['name']!r} already", field=f"approved_splits[{number}].name")
    texts = list(dict.fromkeys(split["observations"]))
    rows = Observation.objects.filter(entity=entity, ended_at=None, text__in=texts)
    if missing := sorted(set(texts) - set(rows.values_list("text", flat=True))):
        raise Invalid(
            f"{missing[0][:80]!r} is not an observation of {entity.name}",
            field=f"approved_splits[{number}].observations",
            allowed="exact texts that no other split takes",
        )
    child = put_entity(graph, split["name"], split["entity_type"])
    rows.update(entity=child, embedding_text_hash=None)  # what is embedded begins with the entity's name
    return child


# -- topics -----------------------------------------------------------------------------------------------


def topics_of(observations: Sequence[Observation]) -> dict[str, list[Observation]]:
    """Name → observations, the largest topic first."""
    looked_at = list(observations[:MAX_CLUSTERED])
    labels = _clusters(_distances(looked_at))
    groups: dict[int, list[Observation]] = {}
    for label, observation in zip(labels, looked_at, strict=True):
        groups.setdefault(label, []).append(observation)
    rest = list(observations[MAX_CLUSTERED:])
    clusters = sorted(groups.values(), key=lambda group: (-len(group), group[0].number))
    if rest:
        clusters[0].extend(rest)
    return dict(zip(_names(clusters), clusters, strict=True))


def _distances(observations: Sequence[Observation]) -> Any:
    """(n, n) cosine distances of the vectors, or of the words where a vector is missing."""
    rows = ObservationPassage.objects.filter(observation__in=list(observations), start=0)
    vector_of = dict(rows.values_list("observation", "vector"))
    if len(vector_of) == len(observations) and observations:
        matrix = np.array([vector_of[observation.pk] for observation in observations], dtype=np.float32)
    else:
        vocabulary = {word: n for n, word in enumerate(sorted({w for o in observations for w in words_of(o.text)}))}
        matrix = np.zeros((len(observations), max(len(vocabulary), 1)), dtype=np.float32)
        for n, observation in enumerate(observations):
            for word in words_of(observation.text):
                matrix[n, vocabulary[word]] = 1.0
        matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
    return 1 - matrix @ matrix.T


def _clusters(distances: Any) -> list[int]:
    """Average linkage, joined while the nearest two clusters are nearer than CUT."""
    count = len(distances)
    labels, sizes = list(range(count)), np.ones(count)
    links = distances.astype(np.float64).copy()
    np.fill_diagonal(links, np.inf)
    while count > 1:
        flat = int(np.argmin(links))
        a, b = divmod(flat, len(links))
        if not links[a, b] < CUT:
            break
        merged = (sizes[a] * links[a] + sizes[b] * links[b]) / (sizes[a] + sizes[b])
        links[a], links[:, a] = merged, merged
        links[a, a] = np.inf
        links[b], links[:, b] = np.inf, np.inf
        sizes[a] += sizes[b]
        labels = [a if label == b else label for label in labels]
        count -= 1
    return labels


def _names(clusters: Sequence[Sequence[Observation]]) -> list[str]:
    counts = [Counter(w for o in group for w in words_of(o.text) if len(w) >= WORD_LETTERS) for group in clusters]
    having = Counter(word for count in counts for word in count)
    names: list[str] = []
    for number, count in enumerate(counts, start=1):
        total = sum(count.values()) or 1
        weights = {w: n / total * math.log(1 + len(clusters) / having[w]) for w, n in count.items()}
        best = sorted(weights, key=lambda word: (-weights[word], word))[:2]
        name = " ".join(word.capitalize() for word in best) or f"Topic {number}"
        names.append(name if name not in names else f"{name} {number}")
    return names
