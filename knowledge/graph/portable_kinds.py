"""The kinds of rows of knowledge graphs that people take along."""

from __future__ import annotations

from django.db.models import Q

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from knowledge.graph.models import Entity, Graph, Observation, ObservationMove, Reflection, Relation
from knowledge.graph.search.rebuild import entity_text
from knowledge.graph.search.trigrams import folded, grams
from memories.models import Visibility
from memories.portability import ExportKind, Parent, Values, shared


def adapt_graph(caller: Caller, values: Values, remarks: list[str]) -> None:
    """Make a graph the caller's own. An empty graph of theirs gives way to it."""
    other = Graph.objects.filter(created_by=caller.email).exclude(pk=values["id"]).first()
    if other is not None:
        raise Conflict("can't be taken over: you have a knowledge graph already", field="id")
    if values["persona"] not in caller.personas:
        values["persona"] = caller.persona
        values["visibility"] = Visibility.PRIVATE


def prepare_entity(entity: Entity) -> None:
    entity.folded = entity_text(entity.name, entity.entity_type)
    entity.grams = grams(entity.folded)


def prepare_observation(observation: Observation) -> None:
    observation.folded = folded(observation.text)
    observation.grams = grams(observation.folded)


def _of_persona(persona: str) -> Q:
    return shared(persona, "graph__") | Q(graph__persona=persona, graph__created_by="")


GRAPH = ExportKind(
    name="graph",
    model=Graph,
    columns=("id", "created_by", "persona", "visibility", "created_at", "changed_at", "last_number"),
    owner="created_by",
    of_persona=lambda persona: shared(persona) | Q(persona=persona, created_by=""),
    adapt=adapt_graph,
)
IN_GRAPH = Parent("graph_id", Graph, "created_by")

ENTITY = ExportKind(
    name="entity",
    model=Entity,
    columns=(
        "id", "graph_id", "number", "name", "entity_type", "status", "urn", "is_placeholder", "created_at",
        "updated_at", "deleted_at",
    ),
    owner="graph__created_by",
    order=("graph_id", "number"),
    parents=(IN_GRAPH,),
    of_persona=_of_persona,
    prepare=prepare_entity,
)  # fmt: skip

OBSERVATION = ExportKind(
    name="observation",
    model=Observation,
    columns=(
        "id", "entity_id", "graph_id", "number", "text", "kind_of_observation", "similarity_flag", "supersedes",
        "superseded_at", "created_at", "ended_at",
    ),
    lookups={"kind_of_observation": "kind"},
    owner="graph__created_by",
    order=("graph_id", "number"),
    parents=(IN_GRAPH, Parent("entity_id", Entity, "graph__created_by")),
    of_persona=_of_persona,
    prepare=prepare_observation,
    index="observation",
)  # fmt: skip

MOVE = ExportKind(
    name="observation_move",
    model=ObservationMove,
    columns=("observation_id", "entity_id", "moved_at"),
    key=("observation_id", "moved_at"),
    owner="observation__graph__created_by",
    parents=(
        Parent("observation_id", Observation, "graph__created_by"),
        Parent("entity_id", Entity, "graph__created_by"),
    ),
    of_persona=lambda persona: Q(observation__in=Observation.objects.filter(_of_persona(persona))),
)

RELATION = ExportKind(
    name="relation",
    model=Relation,
    columns=(
        "id", "graph_id", "number", "source_id", "target_id", "relation_type", "context", "created_at", "ended_at",
        "deleted_at",
    ),
    owner="graph__created_by",
    order=("graph_id", "number"),
    parents=(
        IN_GRAPH,
        Parent("source_id", Entity, "graph__created_by"),
        Parent("target_id", Entity, "graph__created_by"),
    ),
    of_persona=_of_persona,
)  # fmt: skip

REFLECTION = ExportKind(
    name="reflection",
    model=Reflection,
    columns=(
        "id", "graph_id", "number", "target_type", "entity_id", "relation_id", "author", "created_by", "mood",
        "content", "created_at",
    ),
    owner="graph__created_by",
    order=("graph_id", "number"),
    parents=(
        IN_GRAPH,
        Parent("entity_id", Entity, "graph__created_by", is_optional=True),
        Parent("relation_id", Relation, "graph__created_by", is_optional=True),
    ),
    names=frozenset({"created_by"}),
    of_persona=_of_persona,
    index="reflection",
)  # fmt: skip

KINDS = (GRAPH, ENTITY, OBSERVATION, MOVE, RELATION, REFLECTION)
