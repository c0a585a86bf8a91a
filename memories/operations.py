"""Operations on memories. They are performed by services.py, queries.py, writing/ and retrieval/."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

from django.conf import settings
from django.utils.translation import gettext
from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from foundation.operations.fields import (
    CONTENT_MAX,
    Columns,
    Content,
    EntityUrn,
    Id,
    JsonObject,
    MemoryIds,
    Moment,
    Offset,
    OneOf,
    Reason,
    ResultLimit,
    Summary,
    Tags,
    Text,
    Urns,
    ValidFrom,
    ValidUntil,
    is_none,
    validation_error,
)
from foundation.operations.operation import Operation
from memories.models import Attachment, Category, Confidence, Dimension, Source, Status, Verdict, Visibility
from memories.models.record import EDITED_BY
from memories.models.validity import EXPIRED, NOT_YET
from memories.use.citations.operations import Address
from memories.validity.scopes.names import SCOPE_LENGTH, check_form

MAX_QUERY = 4000
MAX_RECALL = 50
MAX_LIST = 100
STRATEGIES = ("auto", "semantic", "lexical", "entity", "graph")
WITHDRAW = "withdraw"
SESSION_KEY = "session_id"

# Metadata keys that only services may write, because they record the state and the authors of a memory.
RESERVED_METADATA = frozenset(
    {
        "superseded_by", "superseded_at", "legacy_created_by", "duplicate_of", "insight_status", "reviewed_by",
        "applied_by", "changeset_ref", EDITED_BY,
    }
)  # fmt: skip


def _check_reserved(metadata: dict[str, Any]) -> dict[str, Any]:
    if reserved := sorted(RESERVED_METADATA.intersection(metadata)):
        raise validation_error(
            gettext("%(names)s can't be set") % {"names": ", ".join(reserved)}, gettext("any other key")
        )
    return metadata


Metadata = Annotated[JsonObject, AfterValidator(_check_reserved)]
DimensionName = Annotated[str, OneOf(Dimension.values), Field(description="Kind of memory.")]
CategoryName = Annotated[str, OneOf(Category.values), Field(description="Kind of knowledge.")]
ConfidenceName = Annotated[str, OneOf(Confidence.values), Field(description="How sure you are.")]
SourceName = Annotated[
    str, OneOf([source for source in Source.values if source != Source.NOTE]), Field(description="Where it comes from.")
]
VisibilityName = Annotated[str, OneOf(Visibility.values)]
none_as_empty = BeforeValidator(lambda value: "" if is_none(value) else value)
Scope = Annotated[str, Text(0, SCOPE_LENGTH), AfterValidator(check_form), none_as_empty]
LanguageCode = Annotated[str, OneOf(settings.RECALL_LANGUAGES)]
ValidWhile = Annotated[str, Text(0, 600), none_as_empty]
MemoryId = Annotated[Id, Field(alias="id", description="Id of the memory.")]

FACT = "The fact, understandable on its own."
SUMMARY = "A shorter version for lists."
ABOUT = "Catalog entities it is about, by URN or name."
COLUMNS = "Columns it is about."
TAGS = "Labels to filter by."
READERS = "Readers: you, your persona, or everyone."
WHY = "The reason, kept in the history."
LANGUAGE = "Detected if not given."
NOTE = "What you checked, or what is wrong."
METADATA = "Further data."
HOLDS = "Scope in which it is true: persona:NAME, domain:NAME, purpose:NAME, or none."
CHECK = "Query that proves it: {source, sql or call: last, expects, value or low, high}."
CHECK_OF_MEMORY = f"{CHECK[:-1]}; in update also {{id, run or remove: true}}."
AT_MOST = "How many to return."
FROM_MEMORIES = "Memories it repeats; erasing one erases it, too."
SKIPPED = "How many to skip."
VALID_FROM = "First day or moment on which it is true."
VALID_UNTIL = "Last day or moment on which it is true, or none."
VALID_WHILE = "True until this ends: incident:<URN>, deprecated:<URN>, period:<name>."
STRATEGY = (
    "semantic: by meaning and words; lexical: exact words; entity: about these entities; graph: also about related "
    "ones; auto: all of these in one ranking."
)


CheckInput = dict[str, Any]  # validated by the extension that stores the check


class OfMemory(Operation):
    """An operation on one memory."""

    record_id: MemoryId


class MemoryFields(Operation):
    """Subject of a memory, and when and where it holds: the fields that `remember` and proposals share."""

    entity_urns: Urns = Field([], description=ABOUT)
    related_columns: Columns = Field([], description=COLUMNS)
    valid_from: ValidFrom | None = Field(None, description=VALID_FROM)
    valid_until: ValidUntil | None = Field(None, description=VALID_UNTIL)
    valid_while: ValidWhile = Field("", description=VALID_WHILE)
    scope: Scope = Field("", description=HOLDS)


class MemoryChanges(Operation):
    """The fields that edits of memories and of proposals share. A field that is not given keeps its value."""

    content: Content | None = Field(None, description=FACT)
    dimension: DimensionName | None = None
    confidence: ConfidenceName | None = None
    entity_urns: Urns | None = Field(None, description=ABOUT)
    related_columns: Columns | None = Field(None, description=COLUMNS)
    tags: Tags | None = Field(None, description=TAGS)
    valid_from: ValidFrom | None = Field(None, description=VALID_FROM)
    valid_until: ValidUntil | None = Field(None, description=VALID_UNTIL)
    valid_while: ValidWhile | None = Field(None, description=VALID_WHILE)
    scope: Scope | None = Field(None, description=HOLDS)


MEMORY_FIELDS = tuple(MemoryFields.model_fields)
# those with one value, which a table has in a cell
MEMORY_CELLS = tuple(name for name in MEMORY_FIELDS if name not in ("entity_urns", "related_columns"))


class Remember(MemoryFields):
    """Remember a fact"""

    content: Content = Field(description=FACT)
    dimension: DimensionName = Dimension.KNOWLEDGE.value
    category: CategoryName = Category.BUSINESS_CONTEXT.value
    confidence: ConfidenceName = Confidence.MEDIUM.value
    source: SourceName = Source.USER.value
    summary: Summary = Field("", description=SUMMARY)
    tags: Tags = Field([], description=TAGS)
    language: LanguageCode | None = Field(None, description=LANGUAGE)
    visibility: VisibilityName = Field(Visibility.PERSONA.value, description=READERS)
    metadata: Metadata = Field({}, description=METADATA)
    check: CheckInput = Field({}, description=CHECK_OF_MEMORY)


class Revise(MemoryChanges, OfMemory):
    """Update your own memory"""

    synonyms: ClassVar = {"note": "reason"}

    category: CategoryName | None = None
    summary: Summary | None = Field(None, description=SUMMARY)
    language: LanguageCode | None = Field(None, description=LANGUAGE)
    visibility: VisibilityName | None = Field(None, description=READERS)
    metadata: Metadata | None = Field(None, description=METADATA)
    reason: Reason = Field("", description=WHY)
    check: CheckInput = Field({}, description=CHECK_OF_MEMORY)


EDITABLE = tuple(name for name in Revise.model_fields if name not in ("record_id", "metadata", "reason", "check"))


class Supersede(Revise):
    """Correct a memory, keeping the old text"""

    content: Content = Field(description=FACT)
    keep_checks: bool = Field(False, description="Check the new text by the same queries.")


class Forget(OfMemory):
    """Archive a memory"""

    synonyms: ClassVar = {"note": "reason"}

    reason: Reason = Field("", description=WHY)


class Restore(Forget):
    """Restore an archived or stale memory"""


class Verify(OfMemory):
    """Confirm that it is still true"""

    synonyms: ClassVar = {"reason": "note"}

    note: Reason = Field("", description=NOTE)


class MarkFeedback(OfMemory):
    """Mark it as useful or wrong"""

    synonyms: ClassVar = {"reason": "note"}

    verdict: Annotated[str, OneOf([*Verdict.values, WITHDRAW])] = Field(
        description="withdraw removes your earlier verdict."
    )
    note: Annotated[str, Text(0, 500)] = Field("", description=NOTE)


class ReportMemories(Operation):
    """Report which recalled memories were used, and which were wrong or outdated"""

    used: MemoryIds = Field([], description="Ids of memories that an answer relied on.")
    wrong: MemoryIds = Field([], description="Ids of memories that are not true.")
    outdated: MemoryIds = Field([], description="Ids of memories that were true and no longer are.")
    note: Annotated[str, Text(0, 500)] = Field("", description="What is wrong or outdated, for the owner.")
    withdraw: MemoryIds = Field([], description="Ids whose reports of yours are removed.")
    cited_in: Address | None = Field(None, description="URL of a document that cites `used`: you learn of changes.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        reported = {*self.used, *self.wrong, *self.outdated}
        if not reported and not self.withdraw:
            raise validation_error(
                gettext("is missing"), gettext("ids in used, wrong, outdated or withdraw"), field="used"
            )
        if both := [pk for pk in self.withdraw if pk in reported]:
            raise validation_error(
                gettext("%(memory)s is also reported") % {"memory": both[0].hex},
                gettext("ids that are in no other list"),
                field="withdraw",
            )
        if self.note and not (self.wrong or self.outdated):
            raise validation_error(
                gettext("tells what is wrong or outdated"), gettext("together with wrong or outdated"), field="note"
            )
        if self.cited_in and not self.used:
            raise validation_error(gettext("names no memories"), gettext("together with used"), field="cited_in")
        return self


class Share(OfMemory):
    """Share a memory with others, or no longer"""

    synonyms: ClassVar = {"note": "reason"}

    visibility: VisibilityName = Field(description=READERS)
    reason: Reason = Field("", description=WHY)


class Reassign(OfMemory):
    """Move a memory to another persona"""

    persona: Annotated[str, Text(1, 60)] = Field(description="The persona it belongs to from now on.")
    reason: Reason = Field("", description=WHY)


class Extend(OfMemory):
    """Extend the validity of a memory"""

    by: Annotated[str, OneOf(("month", "quarter", "no_end"))] = Field(description="no_end removes the end.")
    reason: Reason = Field("", description=WHY)


class PeriodOperation(Operation):
    name: Annotated[str, Text(1, 100)] = Field(description="For example FY2026-Q3 or release-42.")


class OpenPeriod(PeriodOperation):
    """Open a period, such as a release or a fiscal period, on which memories may depend"""

    note: Annotated[str, Text(0, 500)] = Field("", description="What it is.")


class EndPeriod(PeriodOperation):
    """End a period, and with it the validity of the memories that depend on it"""


class ReopenPeriod(PeriodOperation):
    """Open an ended period again"""


class Retag(OfMemory):
    """Add and remove tags of a memory"""

    add: Tags = Field([], description="Tags to add.")
    remove: Tags = Field([], description="Tags to remove.")
    reason: Reason = Field("", description=WHY)


class Rescope(OfMemory):
    """Say where a memory holds"""

    scope: Scope = Field("", description=HOLDS)
    reason: Reason = Field("", description=WHY)


class AssignEntities(OfMemory):
    """Say which entities an unsettled memory is about; without any, it is about none"""

    synonyms: ClassVar = {"note": "reason"}

    entity_urns: Urns = Field([], description=ABOUT)
    related_columns: Columns = Field([], description=COLUMNS)
    reason: Reason = Field("", description=WHY)


class ChooseAttachment(OfMemory):
    """Choose when it is attached to answers"""

    synonyms: ClassVar = {"note": "reason"}

    attachment: Annotated[str, OneOf(Attachment.values)] = Field(description="Automatic: while people use it.")
    reason: Reason = Field("", description=WHY)


class DismissEntity(OfMemory):
    """Remove an entity that was detected in a memory's text; it is not detected again"""

    urn: EntityUrn


class Erase(OfMemory):
    """Erase a memory and its history for good"""

    confirm: bool = Field(False, description="Must be true: this can't be undone.")


class ShowHistory(OfMemory):
    """History of a memory: its edits and corrections"""


class GetMemory(OfMemory):
    """Get a memory in full"""


class ListMemories(Operation):
    """List memories, newest first"""

    dimension: DimensionName | None = Field(None, alias="filter_dimension", description="For list.")
    category: CategoryName | None = Field(None, alias="filter_category", description="For list.")
    status: Annotated[str, OneOf([*Status.values, EXPIRED, NOT_YET])] = Field(
        Status.ACTIVE.value, alias="filter_status", description="For list."
    )
    entity_urn: EntityUrn | None = Field(None, alias="filter_entity_urn", description="For list: URN or name.")
    limit: Annotated[int, ResultLimit(MAX_LIST)] = Field(20, description=AT_MOST)
    offset: Offset = Field(0, description=SKIPPED)


class ReviewStale(Operation):
    """List memories that may be outdated"""

    limit: Annotated[int, ResultLimit(MAX_LIST)] = Field(20, description=AT_MOST)
    offset: Offset = Field(0, description=SKIPPED)


class StoreNote(Operation):
    """Store a private note"""

    text: Annotated[str, Text(1, CONTENT_MAX)] = Field(description="The note.")
    metadata: Metadata = Field({}, description=METADATA)


class PruneNotes(Operation):
    """Archive old notes of your own"""

    days: Annotated[int, Field(ge=0, le=36_500)] = Field(30, description="Minimum age of notes to archive.")
    keep: Annotated[int, Field(ge=0, le=1_000_000)] = Field(0, description="How many of them to keep, most used first.")
    near_duplicates: bool = Field(False, description="Only those that say nearly the same as a newer note.")
    dry_run: bool = Field(True, description="Only count.")


class RecallMemories(Operation):
    """Find memories"""

    synonyms: ClassVar = {"k": "limit"}

    query: Annotated[str, Text(0, MAX_QUERY)] = Field(
        "", description="Question or topic. Required by semantic and lexical."
    )
    strategy: Annotated[str, OneOf(STRATEGIES)] = Field("auto", description=STRATEGY)
    entity_urns: Urns = Field([], description="URNs or names of catalog entities. Required by entity and graph.")
    dimension: DimensionName | None = Field(None, description="Kind of memory.")
    tags: Tags = Field([], description="Tags that all results have.")
    include_stale: bool = Field(False, description="Include outdated memories.")
    as_of: Moment | None = Field(None, description="What was believed at this time (ISO 8601).")
    limit: Annotated[int, ResultLimit(MAX_RECALL)] = Field(10, description=AT_MOST)
    explain: bool = Field(False, description="Also return scores.")
