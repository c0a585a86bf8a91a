"""Operations on insights, changesets and the catalog, with their arguments and limits."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from django.utils.translation import gettext
from pydantic import Field, model_validator

from foundation.operations.errors import Invalid
from foundation.operations.fields import (
    Content,
    EntityUrn,
    Id,
    Offset,
    OneOf,
    Reason,
    ResultLimit,
    Text,
    Urns,
    if_any,
    validation_error,
)
from foundation.operations.operation import Operation
from knowledge.changesets.change_request import Action, Request
from memories.models import Category, Source
from memories.operations import (
    AT_MOST,
    CHECK,
    SKIPPED,
    CheckInput,
    ConfidenceName,
    MemoryChanges,
    MemoryFields,
    VisibilityName,
)

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

InsightCategory = Annotated[str, OneOf(CATEGORIES), Field(description="Kind of knowledge.")]
InsightSource = Annotated[str, OneOf(SOURCES), Field(description="Where it comes from.")]
Actions = Annotated[list[Action], Field(max_length=MAX_ACTIONS)]
Insights = Annotated[list[Annotated[str, Text(1, 80)]], Field(min_length=1, max_length=AT_ONCE)]
Changes = Annotated[list[Request], Field(min_length=1, max_length=MAX_CHANGES)]
Entity = Annotated[EntityUrn, Field(description="The entity, by URN or name.")]
Token = Annotated[str, Text(0, 80)]
SeenById = Annotated[dict[str, Token], Field(max_length=AT_ONCE)]
SEEN = "The `seen` of the review; tells who has changed it since."
OVERRIDE = "Decide even if a colleague changed it."
INSIGHT_IDS = "Ids of the insights."
NOTES = "Notes to the authors."
CHANGES = "Changes of the catalog, as synthesize drafts them."
CONFIRM = "Without it, only a preview is returned."
DRY_RUN = "Only a preview."
CHANGESET = "Id of the changeset."


class Capture(MemoryFields):
    """Propose something you learned for the data catalog"""

    category: InsightCategory
    insight_text: Annotated[Content | None, if_any] = Field(
        None, description="What you learned. Optional with finding_id or observation_id."
    )
    confidence: ConfidenceName = "medium"
    source: InsightSource = Source.USER.value
    suggested_actions: Actions = Field([], description="Catalog changes to propose with it.")
    supersedes: Annotated[Id | None, if_any] = Field(None, description="Id of a memory that this will replace.")
    finding_id: Annotated[Id | None, if_any] = Field(None, description="Propose this finding of analysis_store.")
    observation_id: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Propose this observation of the knowledge graph."
    )
    visibility: VisibilityName = Field("persona", description="Readers once it is approved.")
    check: CheckInput = Field({}, description=CHECK)


class Appeal(Operation):
    """Ask a curator to look again at a rejected insight of yours"""

    insight_id: Annotated[
        Id,
        Field(alias="appeals", description="Id of your rejected insight, to be reviewed again; insight_text says why."),
    ]
    notes: Annotated[str, Text(1, 1000)] = Field(alias="insight_text", description="Why to review it again.")


class AnswerQuestion(Operation):
    """Answer a curator's question"""

    insight_id: Annotated[
        Id,
        Field(
            alias="answers",
            description="Id of your questioned insight, or of an interview question; insight_text answers.",
        ),
    ]
    notes: Annotated[str, Text(1, 1000)] = Field(alias="insight_text", description="The answer.")


WaivedFor = Annotated[Urns, Field(min_length=1, max_length=1)]
WAIVED_FOR = "With waives or reinstates: the derived entity or column."


class Waive(Operation):
    """State that a caveat from upstream does not hold for an entity or column"""

    id_field: ClassVar = "waives"

    record_id: Annotated[Id, Field(alias="waives", description="Id of a caveat that does not hold for entity_urns.")]
    entity_urns: WaivedFor = Field(description=WAIVED_FOR)
    reason: Annotated[str, Text(1, 1000)] = Field(alias="insight_text", description="Why it does not hold.")


class Reinstate(Operation):
    """Take back that a caveat from upstream does not hold for an entity or column"""

    id_field: ClassVar = "reinstates"

    record_id: Annotated[Id, Field(alias="reinstates", description="Id of a waived caveat that holds after all.")]
    entity_urns: WaivedFor = Field(description=WAIVED_FOR)


class Edit(MemoryChanges):
    """Edit a pending insight"""

    insight_id: Id
    category: InsightCategory | None = None
    suggested_actions: Actions | None = None
    seen: Token = Field("", description=SEEN)
    override: bool = Field(False, description=OVERRIDE)


EDITABLE = tuple(name for name in Edit.model_fields if name not in ("insight_id", "seen", "override"))
TEXTS = tuple(name for name in EDITABLE if name != "suggested_actions")


class CountQueue(Operation):
    """Count waiting insights"""


class ReviewEntity(Operation):
    """Review the insights about an entity beside what the catalog says"""

    entity_urn: Annotated[EntityUrn, Field(description="The entity, by URN or name.")]
    limit: Annotated[int, ResultLimit(MAX_LISTED)] = Field(20, description=AT_MOST)


class Decide(Operation):
    """Decide on insights, each in the state that the caller saw"""

    insight_ids: Insights = Field(description=INSIGHT_IDS)
    seen: SeenById = Field({}, description="{insight id: its `seen` from review}, to refuse what others changed since.")
    override: bool = Field(False, description=OVERRIDE)

    @model_validator(mode="after")
    def _sees_what_it_decides(self) -> Self:
        ids = {_plain(insight_id) for insight_id in self.insight_ids}
        if unknown := [name for name in self.seen if _plain(name) not in ids]:
            raise validation_error(
                gettext("%(unknown)r is not among insight_ids") % {"unknown": unknown[0][:80]},
                gettext("ids of insight_ids"),
                field="seen",
            )
        return self

    def seen_of(self, insight_id: str) -> str:
        tokens = {_plain(name): token for name, token in self.seen.items()}
        return tokens.get(_plain(insight_id), "")


def _plain(insight_id: str) -> str:
    return insight_id.strip().replace("-", "").lower()


class Approve(Decide):
    """Approve insights"""

    review_notes: Reason = Field("", description=NOTES)


class Reject(Approve):
    """Reject insights"""


class NeedMore(Decide):
    """Ask their authors a question"""

    review_notes: Annotated[str, Text(1, 1000)] = Field(description=NOTES)


class UndoReview(Decide):
    """Take your decision back"""


class EditInsight(Decide):
    """Edit the text or the changes of one insight"""

    insight_ids: Annotated[list[Annotated[str, Text(1, 80)]], Field(min_length=1, max_length=1)] = Field(
        description=INSIGHT_IDS
    )
    content: Content | None = Field(None, description="The new text.")
    changes: Annotated[list[Request], Field(max_length=MAX_ACTIONS)] = Field([], description=CHANGES)

    def as_edit(self) -> Edit:
        """Return the edit. Without `changes`, the suggested actions stay as they are."""
        (insight_id,) = self.insight_ids
        if self.content is None and not self.changes:
            raise Invalid(gettext("is missing"), field="content", allowed=gettext("`content`, `changes` or both"))
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
    """Edit and approve one insight"""

    review_notes: Reason = Field("", description=NOTES)


class Synthesize(Operation):
    """Draft changes from approved insights"""

    entity_urn: Annotated[EntityUrn | None, if_any] = Field(None, description="The entity, by URN or name.")
    insight_ids: Annotated[list[Annotated[str, Text(1, 80)]], Field(max_length=AT_ONCE)] = Field(
        [], description=INSIGHT_IDS
    )

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not self.entity_urn and not self.insight_ids:
            raise validation_error(
                gettext("is missing"), gettext("an entity's URN, or insight_ids"), field="entity_urn"
            )
        return self


class Apply(Operation):
    """Apply changes from approved insights to the catalog"""

    insight_ids: Annotated[list[Id], Field(min_length=1, max_length=AT_ONCE)] = Field(description=INSIGHT_IDS)
    changes: Changes = Field(description=CHANGES)
    entity_urn: Annotated[EntityUrn | None, if_any] = Field(None, description="The entity, by URN or name.")
    confirm: bool = Field(False, description=CONFIRM)
    dry_run: bool = Field(False, description=DRY_RUN)


class ResumeChangeset(Operation):
    """Resume a changeset that was written in part"""

    changeset_id: Id = Field(description=CHANGESET)


class ApproveChangeset(Operation):
    """Approve a risky changeset that another curator applied, and write it"""

    changeset_id: Id = Field(description=CHANGESET)
    review_notes: Reason = Field("", description=NOTES)


class DeclineChangeset(Operation):
    """Decline a changeset that waits for approval, or withdraw your own"""

    changeset_id: Id = Field(description=CHANGESET)
    review_notes: Reason = Field("", description=NOTES)


class RollBack(Operation):
    """Restore the values from before a changeset"""

    changeset_id: Id = Field(description=CHANGESET)
    confirm: bool = Field(False, description=CONFIRM)
    dry_run: bool = Field(False, description=DRY_RUN)
    skip_conflicts: bool = Field(False, description="Leave what others changed since.")


class ListChangesets(Operation):
    """List changesets, or show one in full"""

    entity_urn: Annotated[EntityUrn | None, if_any] = Field(None, description="The entity, by URN or name.")
    changeset_id: Annotated[Id | None, if_any] = Field(None, description=CHANGESET)
    limit: Annotated[int, ResultLimit(MAX_LISTED)] = Field(20, description=AT_MOST)
    offset: Offset = Field(0, description=SKIPPED)


class ExportChangeset(Operation):
    """Export it as DataHub change proposals"""

    changeset_id: Id = Field(description=CHANGESET)


class SearchCatalog(Operation):
    """Find entities of the data catalog"""

    query: Annotated[str, Text(0, 500)] = Field(
        "", description="Question, or words from names, columns or descriptions."
    )
    types: list[str] = Field([], description="Only these entity types, such as dataset or glossaryTerm.")
    limit: Annotated[int, ResultLimit(50)] = Field(10, description=AT_MOST)


class ShowEntity(Operation):
    """Show what the catalog says about an entity"""

    urn: Entity
    columns_from: Offset = Field(0, description="Number of columns to skip.")
    columns_limit: Annotated[int, ResultLimit(MAX_COLUMNS_SHOWN)] = Field(50, description="Maximum number of columns.")


class FollowLineage(Operation):
    """Show what an entity is made from and what is made from it"""

    urn: Entity
    direction: Annotated[str, OneOf(DIRECTIONS)] = Field(
        "both", description="upstream: its sources; downstream: what uses it."
    )
    hops: Annotated[int, Field(ge=1, le=MAX_HOPS)] = Field(1, description="Steps to follow from the entity.")
    limit: Annotated[int, ResultLimit(MAX_NODES)] = Field(50, description=AT_MOST)
