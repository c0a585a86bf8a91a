"""Splitting of entities whose observations are about several topics. The observations may be in any language.

Topics are average-linkage clusters of the observations' embeddings, cut at the cosine distance CUT. If an embedding is
missing, the words of the observations are compared instead of the embeddings.

A topic is named after its two words with the highest weight: n / total · ln(1 + topics / topics_with), where n is the
number of occurrences of the word in the topic, total is the number of all words in the topic, topics is the number of
topics, and topics_with is the number of topics that contain the word. Words shorter than MIN_WORD_LENGTH don't count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Count, Q
from django.utils.translation import gettext

from foundation.lazy_numpy import np
from foundation.operations.errors import Conflict, Invalid
from foundation.people.caller import Caller
from knowledge.graph import graphs, names
from knowledge.graph.entities import live, not_found, put_entity
from knowledge.graph.models import (
    Entity,
    Graph,
    Observation,
    ObservationMove,
    ObservationPassage,
    UpkeepKind,
    UpkeepProposal,
    UpkeepState,
)
from knowledge.graph.operations import AnalyzeSplit, ExecuteSplit, FindSplits, ProposeSplit
from knowledge.graph.relations import relate
from knowledge.graph.search import vectors
from knowledge.graph.search.trigrams import words_of

SPLIT_RELATION = "contiene"  # type of the relation from an entity to those that were split off from it

CUT = 0.5  # cosine distance from which clusters stay apart
MIN_WORD_LENGTH = 4  # minimum length, in characters, of words that name a topic
MAX_CLUSTERED = 400  # maximum number of observations to cluster; further ones join the largest topic


@dataclass(frozen=True)
class Analysis:
    entity: Entity
    count: int
    threshold: int
    topics: dict[str, list[Observation]]

    @property
    def score(self) -> float:
        """Return count / threshold, plus min(topics / count, 0.5) if the count is above the threshold."""
        if self.count <= self.threshold:
            return self.count / self.threshold
        return self.count / self.threshold + min(len(self.topics) / self.count, 0.5)

    @property
    def needs_split(self) -> bool:
        # Many observations on a single topic are no reason to split.
        return self.count > self.threshold and self.score > 1.0 and len(self.topics) > 1


def threshold_of(entity_type: str) -> int:
    limits = settings.GRAPH_SPLIT_AT
    return int(limits.get(entity_type, limits["*"]))


def analyze(caller: Caller, operation: AnalyzeSplit) -> Analysis:
    entity = names.find_one(graphs.graph_of(caller), operation.entity_name)
    if entity is None:
        raise not_found(operation.entity_name)
    vectors.index_missing([entity])
    return analysis_of(entity)


def propose(caller: Caller, operation: ProposeSplit) -> Analysis | None:
    analysis = analyze(caller, AnalyzeSplit(entity_name=operation.entity_name))
    return analysis if analysis.needs_split else None


def parts_of(analysis: Analysis) -> list[dict[str, Any]]:
    """Return the suggested entities, one per topic."""
    entity = analysis.entity
    return [
        {
            "name": f"{entity.name} - {topic}",
            "entity_type": entity.entity_type,
            "observations": [row.text for row in rows],
        }
        for topic, rows in analysis.topics.items()
    ]


def candidates(caller: Caller, operation: FindSplits) -> list[Analysis]:
    graph = graphs.graph_of(caller)
    return split_candidates(graph) if graph else []


def split_candidates(graph: Graph) -> list[Analysis]:
    """Return the entities that should be split, highest score first, except those that an admin dismissed."""
    rows = (
        live(graph)
        .filter(is_placeholder=False)
        .annotate(observation_count=Count("observations", filter=Q(observations__ended_at=None)))
    )
    lowest_threshold = min(int(value) for value in settings.GRAPH_SPLIT_AT.values())
    dismissals = UpkeepProposal.objects.filter(entity__graph=graph, kind=UpkeepKind.SPLIT, state=UpkeepState.DISMISSED)
    rows = rows.filter(observation_count__gt=lowest_threshold).exclude(pk__in=dismissals.values("entity"))
    full = [entity for entity in rows if entity.observation_count > threshold_of(entity.entity_type)]
    analyses = [analysis_of(entity) for entity in full]
    return sorted((a for a in analyses if a.needs_split), key=lambda a: (-a.score, a.entity.number))


def analysis_of(entity: Entity) -> Analysis:
    observations = list(Observation.objects.filter(entity=entity, ended_at=None).order_by("number"))
    threshold = threshold_of(entity.entity_type)
    topics = topics_of(observations) if len(observations) > threshold else {}
    return Analysis(entity, len(observations), threshold, topics)


def execute(caller: Caller, operation: ExecuteSplit) -> dict[str, Any]:
    """Move the approved observations to new entities, all or nothing.

    Raises NotFound if the entity or its new parent doesn't exist, Invalid for a text that the entity doesn't have, and
    Conflict if an entity with the name of a new one exists.
    """
    with graphs.locked_graph(caller) as graph:
        entity = names.find_one(graph, operation.entity_name)
        if entity is None:
            raise not_found(operation.entity_name)
        parent_name = operation.parent_entity_name
        parent = names.find_one(graph, parent_name) if parent_name else entity
        if parent is None:
            raise not_found(parent_name or "")
        children, related = split(graph, entity, parent, operation.approved_splits)
        remaining = Observation.objects.filter(entity=entity, ended_at=None).count()
    vectors.index_missing(children)
    return {
        "new_entities": [child.name for child in children],
        "moved_observations": sum(len(set(part["observations"])) for part in operation.approved_splits),
        "relations_created": related,
        "original_observations_remaining": remaining,
    }


def split(graph: Graph, entity: Entity, parent: Entity, parts: Sequence[Mapping[str, Any]]) -> tuple[list[Entity], int]:
    """Create entities in a locked graph and move observations to them.

    Returns the new entities and the number of new relations.
    """
    children = []
    related = 0
    for number, part in enumerate(parts):
        child = _split_off(graph, entity, part, number)
        children.append(child)
        related += relate_both(graph, parent, child)
    return children, related


def relate_both(graph: Graph, parent: Entity, child: Entity) -> int:
    """Relate the parent to a part, and create the inverse relation if the type has one. Return how many are new."""
    before = parent.outgoing.count() + child.outgoing.count()
    relate(graph, [(parent, child, SPLIT_RELATION, "")])
    return parent.outgoing.count() + child.outgoing.count() - before


def _split_off(graph: Graph, entity: Entity, part: Mapping[str, Any], number: int) -> Entity:
    if names.find_one(graph, part["name"]):
        raise Conflict(
            gettext("the entity %(part)r already exists") % {"part": part["name"]},
            field=f"approved_splits[{number}].name",
        )
    texts = list(dict.fromkeys(part["observations"]))
    rows = Observation.objects.filter(entity=entity, ended_at=None, text__in=texts)
    text_of = dict(rows.values_list("pk", "text"))
    if missing := sorted(set(texts) - set(text_of.values())):
        raise Invalid(
            gettext("%(missing)r is not an observation of %(entity)s")
            % {"missing": missing[0][:80], "entity": entity.name},
            field=f"approved_splits[{number}].observations",
            allowed=gettext("exact texts, each in one split only"),
        )
    child = put_entity(graph, part["name"], part["entity_type"])
    # The rows are moved rather than copied, to keep their dates and kinds. The hash is cleared, so that they are
    # embedded again: the embedded text begins with the entity's name. The move is recorded for reads of the past.
    ObservationMove.objects.bulk_create([ObservationMove(observation_id=pk, entity=entity) for pk in text_of])
    rows.update(entity=child, embedding_text_hash=None)
    return child


# -- topics -----------------------------------------------------------------------------------------------


def topics_of(observations: Sequence[Observation]) -> dict[str, list[Observation]]:
    """Return the observations of each topic by the topic's name, largest topic first."""
    clustered = list(observations[:MAX_CLUSTERED])
    labels = _clusters(_distances(clustered))
    groups: dict[int, list[Observation]] = {}
    for label, observation in zip(labels, clustered, strict=True):
        groups.setdefault(label, []).append(observation)
    rest = list(observations[MAX_CLUSTERED:])
    clusters = sorted(groups.values(), key=lambda group: (-len(group), group[0].number))
    if rest:
        clusters[0].extend(rest)
    return dict(zip(_names(clusters), clusters, strict=True))


def _distances(observations: Sequence[Observation]) -> Any:
    """Return the (n, n) cosine distances of the embeddings, or of word vectors if an embedding is missing."""
    passages = ObservationPassage.objects.filter(observation__in=list(observations), start=0)
    vector_of = dict(passages.values_list("observation", "vector"))
    if len(vector_of) == len(observations) and observations:
        matrix = np.array([vector_of[observation.pk] for observation in observations], dtype=np.float32)
    else:
        words = sorted({word for observation in observations for word in words_of(observation.text)})
        column_of = {word: column for column, word in enumerate(words)}
        matrix = np.zeros((len(observations), max(len(words), 1)), dtype=np.float32)
        for row, observation in enumerate(observations):
            for word in words_of(observation.text):
                matrix[row, column_of[word]] = 1.0
        matrix /= np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
    return 1 - matrix @ matrix.T


def _clusters(distances: Any) -> list[int]:
    """Return a cluster label for each row.

    By average linkage, the nearest two clusters are joined as long as their distance is below CUT.
    """
    count = len(distances)
    labels = list(range(count))
    sizes = np.ones(count)
    links = distances.astype(np.float64).copy()
    np.fill_diagonal(links, np.inf)
    while count > 1:
        flat = int(np.argmin(links))
        a, b = divmod(flat, len(links))
        if not links[a, b] < CUT:
            break
        merged = (sizes[a] * links[a] + sizes[b] * links[b]) / (sizes[a] + sizes[b])
        links[a] = merged
        links[:, a] = merged
        links[a, a] = np.inf
        links[b] = np.inf
        links[:, b] = np.inf
        sizes[a] += sizes[b]
        labels = [a if label == b else label for label in labels]
        count -= 1
    return labels


def _names(clusters: Sequence[Sequence[Observation]]) -> list[str]:
    counts = [Counter(w for o in group for w in words_of(o.text) if len(w) >= MIN_WORD_LENGTH) for group in clusters]
    topics_with = Counter(word for count in counts for word in count)
    names: list[str] = []
    for number, count in enumerate(counts, start=1):
        total = sum(count.values()) or 1
        weights = {w: n / total * math.log(1 + len(clusters) / topics_with[w]) for w, n in count.items()}
        best = sorted(weights, key=lambda word: (-weights[word], word))[:2]
        name = " ".join(word.capitalize() for word in best) or f"Topic {number}"
        names.append(name if name not in names else f"{name} {number}")
    return names
