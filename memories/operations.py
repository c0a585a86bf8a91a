"""Operations on memories. They are performed by services.py, queries.py, writing/ and retrieval/."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from django.conf import settings
from pydantic import AfterValidator, Field

from memories.contract.fields import (
    CONTENT_MAX,
    Columns,
    Content,
    EntityUrn,
    Id,
    JsonObject,
    Moment,
    Offset,
    OneOf,
    Reason,
    ResultLimit,
    Summary,
    Tags,
    Text,
    Urns,
    validation_error,
)
from memories.contract.operations import Operation
from memories.models import Category, Confidence, Dimension, Source, Status, Verdict, Visibility
from memories.models.record import EDITED_BY

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
        raise validation_error(f"{', '.join(reserved)} can't be set", "any other key")
    return metadata


Metadata = Annotated[JsonObject, AfterValidator(_check_reserved)]
DimensionName = Annotated[str, OneOf(Dimension.values)]
CategoryName = Annotated[str, OneOf(Category.values)]
ConfidenceName = Annotated[str, OneOf(Confidence.values)]
SourceName = Annotated[str, OneOf([source for source in Source.values if source != Source.NOTE])]
VisibilityName = Annotated[str, OneOf(Visibility.values)]
LanguageCode = Annotated[str, OneOf(settings.RECALL_LANGUAGES)]
MemoryId = Annotated[Id, Field(alias="id", description="The memory's id.")]

ABOUT = "URNs or names of the entities it is about."
READERS = "Who may read it."
WHY = "Why, for the history."
LANGUAGE = "Of the content, where it can't be told from it."


class Remember(Operation):
    """Keep a fact"""

    content: Content = Field(description="The fact.")
    dimension: DimensionName = Dimension.KNOWLEDGE.value
    category: CategoryName = Category.BUSINESS_CONTEXT.value
    confidence: ConfidenceName = Confidence.MEDIUM.value
    source: SourceName = Source.USER.value
    summary: Summary = ""
    entity_urns: Urns = Field([], description=ABOUT)
    related_columns: Columns = []
    tags: Tags = []
    language: LanguageCode | None = Field(None, description=LANGUAGE)
    visibility: VisibilityName = Field(Visibility.PERSONA.value, description=READERS)
    metadata: Metadata = {}


class Revise(Operation):
    """Edit your own memory; the earlier state is kept"""

    synonyms: ClassVar = {"note": "reason"}

    record_id: MemoryId
    content: Content | None = Field(None, description="The fact.")
    dimension: DimensionName | None = None
    category: CategoryName | None = None
    confidence: ConfidenceName | None = None
    summary: Summary | None = None
    entity_urns: Urns | None = Field(None, description=ABOUT)
    related_columns: Columns | None = None
    tags: Tags | None = None
    language: LanguageCode | None = Field(None, description=LANGUAGE)
    visibility: VisibilityName | None = Field(None, description=READERS)
    metadata: Metadata | None = Field(None, description="Merged, key by key, when updating.")
    reason: Reason = Field("", description=WHY)


EDITABLE = tuple(name for name in Revise.model_fields if name not in ("record_id", "metadata", "reason"))


class Supersede(Revise):
    """Correct a memory, and keep what was believed before"""

    content: Content = Field(description="The fact.")


class Forget(Operation):
    """Archive a memory"""

    synonyms: ClassVar = {"note": "reason"}

    record_id: MemoryId
    reason: Reason = Field("", description=WHY)


class Restore(Forget):
    """Make an archived or stale memory active again"""


class Verify(Operation):
    """Say that a memory is still true"""

    synonyms: ClassVar = {"reason": "note"}

    record_id: MemoryId
    note: Reason = Field("", description="What you checked, or what is wrong.")


class MarkFeedback(Operation):
    """Mark a recalled memory as useful or wrong, or withdraw that; a wrong one leaves your recall"""

    synonyms: ClassVar = {"reason": "note"}

    record_id: MemoryId
    verdict: Annotated[str, OneOf([*Verdict.values, WITHDRAW])]
    note: Annotated[str, Text(0, 500)] = Field("", description="What you checked, or what is wrong.")


class Share(Operation):
    """Set who may read a memory"""

    synonyms: ClassVar = {"note": "reason"}

    record_id: MemoryId
    visibility: VisibilityName = Field(description=READERS)
    reason: Reason = Field("", description=WHY)


class Reassign(Operation):
    """Move a memory to another persona"""

    record_id: MemoryId
    persona: Annotated[str, Text(1, 60)] = Field(description="The persona it belongs to from now on.")
    reason: Reason = Field("", description=WHY)


class DismissEntity(Operation):
    """Remove an entity that was detected in a memory's text; it is not detected again"""

    record_id: MemoryId
    urn: EntityUrn


class Erase(Operation):
    """Remove a text for good; confirm must be true"""

    record_id: MemoryId
    confirm: bool = Field(False, description="Must be true.")


class ShowHistory(Operation):
    """Edits and corrections of a memory in one list"""

    record_id: MemoryId


class GetMemory(Operation):
    """Show one memory whole"""

    record_id: MemoryId


class ListMemories(Operation):
    """List what you may read, newest first"""

    dimension: DimensionName | None = Field(None, alias="filter_dimension")
    category: CategoryName | None = Field(None, alias="filter_category")
    status: Annotated[str, OneOf(Status.values)] = Field(Status.ACTIVE.value, alias="filter_status")
    entity_urn: EntityUrn | None = Field(None, alias="filter_entity_urn", description="URN or name.")
    limit: Annotated[int, ResultLimit(MAX_LIST)] = 20
    offset: Offset = 0


class ReviewStale(Operation):
    """List memories whose subject has changed"""

    limit: Annotated[int, ResultLimit(MAX_LIST)] = 20
    offset: Offset = 0


class StoreNote(Operation):
    """Keep one text for yourself"""

    text: Annotated[str, Text(1, CONTENT_MAX)] = Field(description="What to keep.")
    metadata: Metadata = {}


class PruneNotes(Operation):
    """Clear out your own notes"""

    days: Annotated[int, Field(ge=0, le=36_500)] = Field(30, description="Notes older than this are looked at.")
    keep: Annotated[int, Field(ge=0, le=1_000_000)] = Field(0, description="Of those, the most used ones that stay.")
    near_duplicates: bool = Field(False, description="Only those that say nearly the same as a newer note.")
    dry_run: bool = Field(True, description="Count only; false prunes.")


class RecallMemories(Operation):
    """Find what is known"""

    synonyms: ClassVar = {"k": "limit"}

    query: Annotated[str, Text(0, MAX_QUERY)] = Field(
        "", description="What to find, in words. Needed for semantic and lexical."
    )
    strategy: Annotated[str, OneOf(STRATEGIES)] = "auto"
    entity_urns: Urns = Field([], description="URNs or names to look up. Needed for entity and graph.")
    dimension: DimensionName | None = None
    tags: Tags = Field([], description="All of them must be set.")
    include_stale: bool = Field(False, description="Also memories whose subject has changed since.")
    as_of: Moment | None = Field(None, description="ISO 8601: what was believed at that time.")
    limit: Annotated[int, ResultLimit(MAX_RECALL)] = Field(10, description="k is accepted too.")
    explain: bool = Field(False, description="Also the scores.")
