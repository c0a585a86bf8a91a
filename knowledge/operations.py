"""Operations on insights, changesets and the catalog, with their arguments and limits."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from knowledge.changesets.change_request import Action, Request
from memories.contract.fields import (
    Columns,
    Content,
    EntityUrn,
    Id,
    Offset,
    OneOf,
    Reason,
    ResultLimit,
    Tags,
    Text,
    Urns,
    if_any,
    validation_error,
)
from memories.contract.operations import Operation
from memories.models import Category, Source
from memories.operations import ABOUT, ConfidenceName, DimensionName, VisibilityName

CATEGORIES = [value for value in Category.values if value != Category.GENERAL]
SOURCES = [Source.USER.value, Source.AGENT_DISCOVERY.value, Source.ENRICHMENT_GAP.value]
DIRECTIONS = ("upstream", "downstream", "both")
MAX_ACTIONS = 5
MAX_CHANGES = 20
AT_ONCE = 50  # maximum number of insights per call
MAX_LISTED = 100
MAX_COLUMNS_SHOWN = 200
MAX_HOPS = 5
MAX_NODES = 200

InsightCategory = Annotated[str, OneOf(CATEGORIES)]
InsightSource = Annotated[str, OneOf(SOURCES)]
Actions = Annotated[list[Action], Field(max_length=MAX_ACTIONS)]
Insights = Annotated[list[Annotated[str, Text(1, 80)]], Field(min_length=1, max_length=AT_ONCE)]
Changes = Annotated[list[Request], Field(min_length=1, max_length=MAX_CHANGES)]
Entity = Annotated[EntityUrn, Field(description="The entity's URN or name.")]
Token = Annotated[str, Text(0, 80)]
SeenById = Annotated[dict[str, Token], Field(max_length=AT_ONCE)]
SEEN = "The `seen` of the review; tells who has changed it since."
OVERRIDE = "Decide although a colleague has changed or decided it."


class Capture(Operation):
    """Propose something you learned for the data catalog"""

    category: InsightCategory
    insight_text: Annotated[Content | None, if_any] = Field(
        None, description="Not needed with finding_id or observation_id."
    )
    confidence: ConfidenceName = "medium"
    source: InsightSource = Source.USER.value
    entity_urns: Urns = Field([], description=ABOUT)
    related_columns: Columns = []
    suggested_actions: Actions = []
    supersedes: Annotated[Id | None, if_any] = Field(None, description="The memory that this corrects, once applied.")
    finding_id: Annotated[Id | None, if_any] = Field(None, description="The finding of analysis_store that this is.")
    observation_id: Annotated[int, Field(ge=1)] | None = Field(
        None, description="The graph's observation that this is."
    )
    visibility: VisibilityName = Field("persona", description="Once approved.")


class Appeal(Operation):
    """Ask a curator to look again at a rejected insight of yours"""

    insight_id: Annotated[Id, Field(alias="appeals", description="A rejected insight of yours.")]
    notes: Annotated[str, Text(1, 1000)] = Field(alias="insight_text", description="Why to look again.")


class AnswerQuestion(Operation):
    """Answer a curator's question"""

    insight_id: Annotated[Id, Field(alias="answers", description="An insight of yours with open questions.")]
    notes: Annotated[str, Text(1, 1000)] = Field(alias="insight_text", description="The answer.")


class Edit(Operation):
    """Edit a pending insight"""

    insight_id: Id
    content: Content | None = None
    category: InsightCategory | None = None
    confidence: ConfidenceName | None = None
    dimension: DimensionName | None = None
    tags: Tags | None = None
    entity_urns: Urns | None = None
    related_columns: Columns | None = None
    suggested_actions: Actions | None = None
    seen: Token = Field("", description=SEEN)
    override: bool = Field(False, description=OVERRIDE)


EDITABLE = tuple(name for name in Edit.model_fields if name not in ("insight_id", "seen", "override"))
TEXTS = tuple(name for name in EDITABLE if name != "suggested_actions")


class CountQueue(Operation):
    """Count the queue"""


class ReviewEntity(Operation):
    """What the catalog says of an entity, and every insight about it with the evidence"""

    entity_urn: Annotated[EntityUrn, Field(description="URN or name.")]
    limit: Annotated[int, ResultLimit(MAX_LISTED)] = 20


class Decide(Operation):
    """Decide on insights, each in the state that the caller saw"""

    insight_ids: Insights
    seen: SeenById = Field({}, description="By insight id, the `seen` of the review; tells who has changed it since.")
    override: bool = Field(False, description=OVERRIDE)

    @model_validator(mode="after")
    def _sees_what_it_decides(self) -> Self:
        ids = {_plain(insight_id) for insight_id in self.insight_ids}
        if unknown := [name for name in self.seen if _plain(name) not in ids]:
            raise validation_error(f"{unknown[0][:80]!r} is not among insight_ids", "ids of insight_ids", field="seen")
        return self

    def seen_of(self, insight_id: str) -> str:
        tokens = {_plain(name): token for name, token in self.seen.items()}
        return tokens.get(_plain(insight_id), "")


def _plain(insight_id: str) -> str:
    return insight_id.strip().replace("-", "").lower()


class Approve(Decide):
    """Approve insights"""

    review_notes: Reason = ""


class Reject(Approve):
    """Reject insights"""


class NeedMore(Decide):
    """Ask the authors for more, in review_notes"""

    review_notes: Annotated[str, Text(1, 1000)] = Field()


class UndoReview(Decide):
    """Undo your decisions, until they are acted on"""


class EditInsight(Decide):
    """Edit a pending insight's text, or its suggested actions"""

    insight_ids: Annotated[list[Annotated[str, Text(1, 80)]], Field(min_length=1, max_length=1)]
    content: Content | None = Field(None, description="The new text.")
    changes: Annotated[list[Request], Field(max_length=MAX_ACTIONS)] = []

    def as_edit(self) -> Edit:
        """Return the edit. Without `changes`, the suggested actions stay as they are."""
        (insight_id,) = self.insight_ids
        return Edit.read(
            {
                "insight_id": insight_id,
                "content": self.content,
                "suggested_actions": [change.as_action() for change in self.changes] or None,
                "seen": self.seen_of(insight_id),
                "override": self.override,
            }
        )


class EditAndApprove(EditInsight):
    """The same, and approve it"""

    review_notes: Reason = ""


class Synthesize(Operation):
    """What approved insights would change: of an entity, or these"""

    entity_urn: Annotated[EntityUrn | None, if_any] = Field(None, description="URN or name.")
    insight_ids: Annotated[list[Annotated[str, Text(1, 80)]], Field(max_length=AT_ONCE)] = []

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.entity_urn and not self.insight_ids:
            raise validation_error("is missing", "an entity's URN, or insight_ids", field="entity_urn")
        return self


class Apply(Operation):
    """Write changes of approved insights to the catalog"""

    insight_ids: Annotated[list[Id], Field(min_length=1, max_length=AT_ONCE)]
    changes: Changes
    entity_urn: Annotated[EntityUrn | None, if_any] = Field(None, description="URN or name.")
    confirm: bool = False
    dry_run: bool = False


class ResumeChangeset(Operation):
    """Resume a partial changeset"""

    changeset_id: Id


class RollBack(Operation):
    """Roll a changeset back"""

    changeset_id: Id
    confirm: bool = False
    dry_run: bool = False
    skip_conflicts: bool = False


class ListChangesets(Operation):
    """List changesets, or show one whole"""

    entity_urn: Annotated[EntityUrn | None, if_any] = Field(None, description="URN or name.")
    changeset_id: Annotated[Id | None, if_any] = None
    limit: Annotated[int, ResultLimit(MAX_LISTED)] = 20
    offset: Offset = 0


class ExportChangeset(Operation):
    """A changeset's writes as metadata change proposals"""

    changeset_id: Id


class SearchCatalog(Operation):
    """Find entities of the data catalog"""

    query: Annotated[str, Text(0, 500)] = Field("", description="Words of names, descriptions, columns; or a question.")
    types: list[str] = Field([], description="Entity types, for example dataset, glossaryTerm.")
    limit: Annotated[int, ResultLimit(50)] = 10


class ShowEntity(Operation):
    """What the catalog says of an entity now"""

    urn: Entity
    columns_from: Offset = Field(0, description="How many columns to skip.")
    columns_limit: Annotated[int, ResultLimit(MAX_COLUMNS_SHOWN)] = 50


class FollowLineage(Operation):
    """What an entity is made from and what is made from it"""

    urn: Entity
    direction: Annotated[str, OneOf(DIRECTIONS)] = "both"
    hops: Annotated[int, Field(ge=1, le=MAX_HOPS)] = 1
    limit: Annotated[int, ResultLimit(MAX_NODES)] = 50
