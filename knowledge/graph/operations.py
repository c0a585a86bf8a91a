"""Operations of the knowledge graph. The tools' contract fixes the names of the arguments."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NotRequired

from django.conf import settings
from pydantic import BeforeValidator, Field, with_config
from typing_extensions import TypedDict

from foundation.operations.fields import (
    FORBID,
    EntityUrn,
    MemoryIds,
    Moment,
    ResultLimit,
    Text,
    Verbatim,
    validation_error,
)
from foundation.operations.operation import Operation
from memories.operations import AT_MOST, FROM_MEMORIES

MAX_ENTITIES = 50
MAX_OBSERVATIONS = 100
MAX_OBSERVATION = 2_000
MAX_NAME = 5_000
MAX_QUERY = 500
MAX_PAGE = 100
MAX_MOOD = 30
TARGETS = ("entity", "session", "relation", "global")

Name = Annotated[str, Text(1, MAX_NAME)]
Kind = Annotated[str, Text(1, 60)]
Observed = Annotated[str, Verbatim(MAX_OBSERVATION)]
Query = Annotated[str, Text(1, MAX_QUERY)]
Number = Annotated[int, Field(ge=1)]
IncludeEnded = Annotated[bool, Field(description="Include ended relations.")]
CURSOR = "next_cursor of the previous page."


@with_config(FORBID)
class EntityData(TypedDict):
    name: Name
    entityType: NotRequired[Kind]
    observations: NotRequired[Annotated[list[Observed], Field(max_length=MAX_OBSERVATIONS)]]
    status: NotRequired[Kind]
    urn: NotRequired[EntityUrn]


RelationData = TypedDict(
    "RelationData",
    {"from": Name, "to": Name, "relationType": Kind, "context": NotRequired[Annotated[str, Text(0, 2_000)]]},
)
RelationData.__pydantic_config__ = FORBID  # type: ignore[attr-defined]  # "from" is a keyword: no class, no decorator


def _texts(value: Any) -> Any:
    """Accept texts, which belong to the entity `name`, or objects that name their own entity, but no mixture.

    Anthropic's server accepts such objects.
    """
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return value
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        raise validation_error("mixes texts and objects", "all texts with name, or all {entityName, contents}")
    return value


class CreateEntities(Operation):
    """Create or update entities"""

    entities: Annotated[list[EntityData], Field(min_length=1, max_length=MAX_ENTITIES)] = Field(
        description="Entities with their observations."
    )


class CreateRelations(Operation):
    """Create relations between entities"""

    relations: Annotated[list[RelationData], Field(min_length=1, max_length=MAX_PAGE)] = Field(
        description="Relations between entities, by their names."
    )


class AddObservations(Operation):
    """Add observations to an entity"""

    name: Name | None = Field(None, description="Name of the entity.")
    observations: Annotated[list[Any], BeforeValidator(_texts), Field(min_length=1, max_length=MAX_OBSERVATIONS)] = (
        Field(description="Texts, or without name {entityName, contents} for each entity.", json_schema_extra={
            "items": {"type": "string", "maxLength": MAX_OBSERVATION}})
    )  # fmt: skip
    kind: Kind | None = Field(None, description="Such as finding, decision, state, spec, metric or metadata.")
    supersedes: Number | None = Field(None, description="Id of an observation that the last text replaces.")
    memory_ids: MemoryIds = Field([], description=FROM_MEMORIES)


class DeleteEntities(Operation):
    """Delete entities with what is said of them"""

    entityNames: Annotated[list[Name], Field(min_length=1, max_length=MAX_ENTITIES)] = Field(
        description="Names of the entities."
    )


class DeleteObservations(Operation):
    """Delete observations by their exact text"""

    name: Name | None = Field(None, description="Name of the entity.")
    observations: list[str] = Field([], description="Their exact texts.")
    deletions: list[Any] = Field(
        [],
        description="Instead of both: {entityName, observations} for each entity.",
        json_schema_extra={
            "items": {
                "type": "object",
                "properties": {
                    "entityName": {"type": "string"},
                    "observations": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["entityName", "observations"],
            }
        },
    )


class DeleteRelations(Operation):
    """Delete relations by both ends and type"""

    relations: Annotated[list[RelationData], Field(min_length=1, max_length=MAX_PAGE)] = Field(
        description="Relations between entities, by their names."
    )


class ReadGraph(Operation):
    """Read the graph, page by page"""

    limit: Annotated[int, ResultLimit(MAX_PAGE)] = Field(MAX_PAGE, description=AT_MOST)
    cursor: Annotated[str, Text(0, 40)] = Field("", description=CURSOR)
    include_ended: IncludeEnded = False
    as_of: Moment | None = Field(None, description="As it was at this time (ISO 8601).")


class SearchNodes(Operation):
    """Find entities by a part of a name, type or observation"""

    query: Query = Field(description="Part of a name, type or observation.")
    limit: Annotated[int, ResultLimit(MAX_PAGE)] = Field(50, description=AT_MOST)
    cursor: Annotated[str, Text(0, 40)] = Field("", description=CURSOR)
    include_ended: IncludeEnded = False


class OpenNodes(Operation):
    """Read entities by name"""

    names: Annotated[list[Name], Field(max_length=MAX_ENTITIES)] = Field(description="Exact names of the entities.")
    kinds: list[Kind] = Field([], description="Only observations of these kinds.")
    include_superseded: bool = Field(False, description="Include replaced observations.")
    include_ended: IncludeEnded = False
    as_of: Moment | None = Field(None, description="As they were at this time (ISO 8601).")


class SearchSemantic(Operation):
    """Find entities by meaning"""

    query: Query = Field(description="Question or topic.")
    limit: Annotated[int, ResultLimit(50)] = Field(10, description=AT_MOST)


class Migrate(Operation):
    """Import the JSONL file of Anthropic's memory server"""

    source_path: Annotated[str, Text(0, 4_000)] = Field("", description="Path of the file; only over stdio.")
    jsonl: Annotated[str, Field(max_length=10_000_000)] = Field("", description="Content of the file.")


class AnalyzeSplit(Operation):
    """Tell whether an entity holds several topics"""

    entity_name: Name = Field(description="Name of the entity.")


class ProposeSplit(AnalyzeSplit):
    """Propose how to split an entity"""


@with_config(FORBID)
class SplitData(TypedDict):
    name: Name
    entity_type: Kind
    observations: Annotated[list[str], Field(min_length=1)]


class ExecuteSplit(AnalyzeSplit):
    """Split an entity as approved"""

    approved_splits: Annotated[list[SplitData], Field(min_length=1, max_length=MAX_ENTITIES)] = Field(
        description="New entities, each with the observations to move."
    )
    parent_entity_name: Name | None = Field(
        None, description="Entity that the new ones belong to; default: the split one."
    )


class FindSplits(Operation):
    """Find entities that hold several topics"""


class FindDuplicates(AnalyzeSplit):
    """Find observations of an entity that say the same"""

    threshold: Annotated[float, Field(ge=0, le=1)] = Field(0.85, description="Minimum cosine similarity.")
    containment_threshold: Annotated[float, Field(ge=0, le=1)] = Field(
        0.7, description="Minimum share of words in common."
    )


class Report(Operation):
    """Report what wants tidying up"""

    stale_days: Annotated[float, Field(ge=0, le=36_500)] = Field(90.0, description="Days without a change.")


class EndRelation(Operation):
    """End a relation and keep that it was"""

    relation_id: Number = Field(description="Id of the relation.")


class AddReflection(Operation):
    """Add prose about an entity, a relation, a session or the graph"""

    synonyms: ClassVar = {"entityName": "entity_name"}

    target_type: Annotated[str, Text(1, 10)] = Field(
        description="What it is about.", json_schema_extra={"enum": list(TARGETS)}
    )
    content: Annotated[str, Verbatim(10_000)] = Field(description="The text.")
    author: Annotated[str, Text(0, 60)] = Field("", description="Who says this; default: you.")
    mood: Annotated[str, Text(0, MAX_MOOD)] | None = Field(
        None, description=f"One word, such as {', '.join(settings.GRAPH_MOODS)}."
    )
    target_id: Number | None = Field(None, description="Id of the entity or relation.")
    entity_name: Name | None = Field(None, description="Name of the entity, instead of target_id.")


class SearchReflections(Operation):
    """Find reflections"""

    query: Query = Field(description="Question or topic.")
    author: Annotated[str, Text(0, 254)] | None = Field(None, description="Only by this author.")
    mood: Annotated[str, Text(0, 60)] | None = Field(None, description="Only of this mood.")
    target_type: Annotated[str, Text(0, 10)] | None = Field(None, description="Only about this type of target.")
    limit: Annotated[int, ResultLimit(50)] = Field(10, description=AT_MOST)
