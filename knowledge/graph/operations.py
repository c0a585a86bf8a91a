"""Operations of the knowledge graph. The tools' contract fixes the names of the arguments."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NotRequired

from django.conf import settings
from pydantic import BeforeValidator, Field, with_config
from typing_extensions import TypedDict

from memories.contract.fields import FORBID, EntityUrn, MemoryIds, Moment, ResultLimit, Text, Verbatim, validation_error
from memories.contract.operations import Operation

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
IncludeEnded = Annotated[bool, Field(description="Relations that ended, too, with ended_at.")]


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

    entities: Annotated[list[EntityData], Field(min_length=1, max_length=MAX_ENTITIES)]


class CreateRelations(Operation):
    """Create relations between entities"""

    relations: Annotated[list[RelationData], Field(min_length=1, max_length=MAX_PAGE)]


class AddObservations(Operation):
    """Add observations to an entity"""

    name: Name | None = Field(None, description="The entity.")
    observations: Annotated[list[Any], BeforeValidator(_texts), Field(min_length=1, max_length=MAX_OBSERVATIONS)] = (
        Field(description="Texts; or {entityName, contents} each, then without name.", json_schema_extra={
            "items": {"type": "string", "maxLength": MAX_OBSERVATION}})
    )  # fmt: skip
    kind: Kind | None = Field(None, description="For example finding, decision, state, spec, metric, metadata.")
    supersedes: Number | None = Field(None, description="The id of an observation of it that the last one replaces.")
    memory_ids: MemoryIds = Field([], description="Memories that they are from: erasing one deletes them.")


class DeleteEntities(Operation):
    """Delete entities with what is said of them"""

    entityNames: Annotated[list[Name], Field(min_length=1, max_length=MAX_ENTITIES)]


class DeleteObservations(Operation):
    """Delete observations by their exact text"""

    name: Name | None = Field(None, description="The entity.")
    observations: list[str] = Field([], description="Exact texts.")
    deletions: list[Any] = Field(
        [],
        description="Instead: {entityName, observations} each.",
        json_schema_extra={"items": {"type": "object"}},
    )


class DeleteRelations(Operation):
    """Delete relations by both ends and type"""

    relations: Annotated[list[RelationData], Field(min_length=1, max_length=MAX_PAGE)]


class ReadGraph(Operation):
    """Read the graph, page by page"""

    limit: Annotated[int, ResultLimit(MAX_PAGE)] = MAX_PAGE
    cursor: Annotated[str, Text(0, 40)] = Field("", description="next_cursor of the page before.")
    include_ended: IncludeEnded = False
    as_of: Moment | None = Field(None, description="ISO 8601: as it was then.")


class SearchNodes(Operation):
    """Find entities by a part of a name, type or observation"""

    query: Query
    limit: Annotated[int, ResultLimit(MAX_PAGE)] = 50
    cursor: Annotated[str, Text(0, 40)] = Field("", description="next_cursor of the page before.")
    include_ended: IncludeEnded = False


class OpenNodes(Operation):
    """Read entities by name"""

    names: Annotated[list[Name], Field(max_length=MAX_ENTITIES)]
    kinds: list[Kind] = Field([], description="Only observations of these kinds.")
    include_superseded: bool = False
    include_ended: IncludeEnded = False
    as_of: Moment | None = Field(None, description="ISO 8601: as they were then.")


class SearchSemantic(Operation):
    """Find entities by meaning"""

    query: Annotated[str, Text(1, MAX_QUERY)]
    limit: Annotated[int, ResultLimit(50)] = 10


class Migrate(Operation):
    """Import the JSONL file of Anthropic's memory server"""

    source_path: Annotated[str, Text(0, 4_000)] = Field("", description="The file; over stdio alone.")
    jsonl: Annotated[str, Field(max_length=10_000_000)] = Field("", description="Its text, over HTTP.")


class AnalyzeSplit(Operation):
    """Tell whether an entity holds several topics"""

    entity_name: Name


class ProposeSplit(AnalyzeSplit):
    """Propose how to split an entity"""


@with_config(FORBID)
class SplitData(TypedDict):
    name: Name
    entity_type: Kind
    observations: Annotated[list[str], Field(min_length=1)]


class ExecuteSplit(AnalyzeSplit):
    """Split an entity as approved"""

    approved_splits: Annotated[list[SplitData], Field(min_length=1, max_length=MAX_ENTITIES)]
    parent_entity_name: Name | None = Field(None, description="What the new ones belong to; itself if absent.")


class FindSplits(Operation):
    """Find entities that hold several topics"""


class FindDuplicates(AnalyzeSplit):
    """Find observations of an entity that say the same"""

    threshold: Annotated[float, Field(ge=0, le=1)] = Field(0.85, description="Least cosine.")
    containment_threshold: Annotated[float, Field(ge=0, le=1)] = Field(0.7, description="Least share of shared words.")


class Report(Operation):
    """Report what wants tidying up"""

    stale_days: Annotated[float, Field(ge=0, le=36_500)] = 90.0


class EndRelation(Operation):
    """End a relation and keep that it was"""

    relation_id: Number


class AddReflection(Operation):
    """Add prose about an entity, a relation, a session or the graph"""

    synonyms: ClassVar = {"entityName": "entity_name"}

    target_type: Annotated[str, Text(1, 10)] = Field(json_schema_extra={"enum": list(TARGETS)})
    content: Annotated[str, Verbatim(10_000)]
    author: Annotated[str, Text(0, 60)] = Field("", description="Whose words these are; you if absent.")
    mood: Annotated[str, Text(0, MAX_MOOD)] | None = Field(
        None, description=f"A short word, for example {', '.join(settings.GRAPH_MOODS)}."
    )
    target_id: Number | None = Field(None, description="Id of the entity or relation.")
    entity_name: Name | None = Field(None, description="Instead of target_id, for an entity.")


class SearchReflections(Operation):
    """Find reflections"""

    query: Annotated[str, Text(1, MAX_QUERY)]
    author: Annotated[str, Text(0, 254)] | None = Field(None, description="Author or writer.")
    mood: Annotated[str, Text(0, 60)] | None = None
    target_type: Annotated[str, Text(0, 10)] | None = None
    limit: Annotated[int, ResultLimit(50)] = 10
