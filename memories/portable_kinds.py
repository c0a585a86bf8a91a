"""The kinds of rows of this app that people take along: memories, their history, verdicts and verifications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q, UUIDField
from django.utils import timezone

from foundation.database import identity
from foundation.operations.errors import Forbidden, Invalid, check_count
from foundation.operations.fields import CONTENT_MAX, CONTENT_MIN, TEXT_MAX, URN_PATTERN, Columns, Id, JsonObject
from foundation.operations.operation import validate
from foundation.operations.secrets import states_secret
from foundation.people.caller import Caller
from memories import extensions
from memories.models import (
    DOUBTS,
    Citation,
    CitingDocument,
    Feedback,
    MemoryRecord,
    MemoryRevision,
    Quotation,
    Report,
    Source,
    Tombstone,
    Verification,
    Visibility,
)
from memories.models.record import EDITED_BY
from memories.operations import MEMORY_CELLS, Scope
from memories.portability import IMPORTED, ExportKind, Parent, Values, of_record, parse_value, shared
from memories.use.citations.operations import Address
from memories.validity.rules import check_imported
from memories.writing import text_places
from memories.writing.hand_overs import DUPLICATE_OF

RECORD = Parent("record_id", MemoryRecord, "created_by")
PROPOSAL = "is_proposal"
MAX_ENTRIES = 100  # of a list of texts; services allow fewer, but merging memories joins lists
# Keys of the metadata in which services record what other people did. A person's own import can't state that.
STATED_IN_METADATA = ("reviewed_by", "applied_by", "insight_status", "changeset_ref", "legacy_created_by", EDITED_BY)


def adapt_memory(caller: Caller, values: Values, remarks: list[str]) -> None:
    """Make a memory one that the caller may write: in a persona that they hold, with limits as for `remember`.

    A proposal for review stays private until a curator has approved it here.
    """
    _check_content(values)
    if values["created_at"] > timezone.now():
        raise Invalid("is in the future", field="created_at")
    if values["persona"] not in caller.personas:
        remarks.append(f"You do not hold the persona {values['persona']!r}: it is stored privately.")
        values["persona"] = caller.persona
        values["visibility"] = Visibility.PRIVATE
    if values.get(PROPOSAL):
        values["visibility"] = Visibility.PRIVATE
    if values["visibility"] != Visibility.PRIVATE and states_secret(values["content"]):
        remarks.append("The text looks as if it states a password, a token or a key: it is stored privately.")
        values["visibility"] = Visibility.PRIVATE
    if remark := check_imported(values):
        remarks.append(remark)
    values["metadata"] = without_statements(caller, values["metadata"])
    if _is_of_another(caller, values["superseded_by"]):
        values["superseded_by"] = None
        remarks.append("superseded_by was dropped: it isn't among your rows.")
    if _is_of_another(caller, values["metadata"].get(DUPLICATE_OF)):
        del values["metadata"][DUPLICATE_OF]
        remarks.append("duplicate_of was dropped: it isn't among your rows.")


def _is_of_another(caller: Caller, memory_id: object) -> bool:
    """Return whether a text or UUID from a file is the id of another person's memory, which the caller may not know."""
    try:
        pk = UUID(str(memory_id))
    except ValueError:
        return False
    with identity.service("correction_chains"):
        return MemoryRecord.objects.filter(pk=pk).exclude(created_by=caller.email).exists()


def _check_content(values: Values) -> None:
    is_note = values["tier"] or values["source"] == Source.NOTE
    low, high = (1, TEXT_MAX) if is_note else (CONTENT_MIN, CONTENT_MAX)
    if not low <= len(values["content"]) <= high:
        raise Invalid(
            f"has {len(values['content'])} characters", field="content", allowed=f"{low} to {high} characters"
        )
    validate(JsonObject, values["metadata"], "metadata")
    validate(Columns, values["related_columns"], "related_columns")
    values["scope"] = validate(Scope, values["scope"], "scope")
    for key in ("tags", "entity_urns", "dismissed_urns"):
        check_count(key, values[key], MAX_ENTRIES)
    for urn in (*values["entity_urns"], *values["dismissed_urns"]):
        if not URN_PATTERN.fullmatch(urn):
            raise Invalid(f"{urn[:80]!r} is not a URN", field="entity_urns")


def without_statements(caller: Caller, metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value for key, value in metadata.items() if key not in STATED_IN_METADATA or value in ("", caller.email)
    }


def adapt_revision(caller: Caller, values: Values, remarks: list[str]) -> None:
    """Leave only those earlier values that the caller may set: undoing the change sets them again."""
    details = values["details"]
    columns = {key: MEMORY.field_of(key) for key in MEMORY.columns}
    kept = {key: value for key, value in details.items() if key in columns}
    for key, value in kept.items():
        parse_value(f"details.{key}"[:80], columns[key], value)
    if kept.get("created_by", caller.email) != caller.email:
        del kept["created_by"]
    if kept.get("persona", caller.persona) not in caller.personas:
        del kept["persona"]
    if isinstance(kept.get("metadata"), Mapping):
        kept["metadata"] = without_statements(caller, kept["metadata"])
    values["details"] = kept
    for key in ("status", "visibility"):
        values[key] = parse_value(key, columns[key], values[key])


def adapt_quotation(caller: Caller, values: Values, remarks: list[str]) -> None:
    """Refuse a quotation in a row of somebody else: erasing the memory would erase that row, too."""
    place = text_places.places().get(values["place"])
    row = validate(Id, values["row"], "row")
    if place is None or not isinstance(place.model._meta.pk, UUIDField):
        raise Invalid(f"{values['place']!r} is unknown", field="place")
    if not place.model._default_manager.filter(pk=row, **{place.owner: caller.email}).exists():
        raise Forbidden("is not a row of yours", field="row")


def adapt_document(caller: Caller, values: Values, remarks: list[str]) -> None:
    validate(Address, values["address"], "address")


UNSTATED = MemoryRecord()  # has the defaults of all columns

MEMORY = ExportKind(
    name="memory",
    model=MemoryRecord,
    columns=(
        "id", "created_at", "updated_at", "created_by", "persona", "visibility", "dimension", "category",
        "confidence", "source", "content", "summary", "language", "tags", "entity_urns", "related_columns",
        "dismissed_urns", "metadata", "status", "stale_reason", "stale_at", "last_verified_at", "supersedes_id",
        "superseded_by", "superseded_at", "tier", "conversation_id", "role", "author", "thread_position",
        "derived_from", "importance", "access_count", "last_accessed_at", "enrichment_status", "attachment",
        "expires_at", "purge_after", "condition_ended_at", *MEMORY_CELLS,
    ),
    added={  # the first files had none of these
        name: getattr(UNSTATED, name)
        for name in ("condition_ended_at", "attachment", *MEMORY_CELLS)
    },
    owner="created_by",
    # A correction comes after the memory that it supersedes, and a long-term memory after its turn of the same time.
    order=("created_at", "-tier", "id"),
    parents=(
        Parent("supersedes_id", MemoryRecord, "created_by", is_optional=True),
        # not a foreign key, but erasing a memory also erases what it was derived from, so both must be one's own
        Parent("derived_from", MemoryRecord, "created_by", is_optional=True),
    ),
    counters=frozenset({"access_count", "last_accessed_at"}),
    of_persona=shared,
    adapt=adapt_memory,
    index="memory",
)  # fmt: skip

REVISION = ExportKind(
    name="revision",
    model=MemoryRevision,
    columns=(
        "record_id", "valid_from", "valid_to", "content", "status", "visibility", "details", "change", "changed_by",
        "reason",
    ),
    key=("record_id", "valid_from", "valid_to", "change"),
    owner="record__created_by",
    order=("record_id", "valid_to", "id"),
    parents=(RECORD,),
    names=frozenset({"changed_by"}),
    of_persona=lambda persona: of_record(persona) & ~Q(visibility=Visibility.PRIVATE),
    adapt=adapt_revision,
)  # fmt: skip

FEEDBACK = ExportKind(
    name="feedback",
    model=Feedback,
    columns=("record_id", "by", "verdict", "note", "made_stale", "counts", "at"),
    key=("record_id", "by"),
    owner="record__created_by",
    parents=(RECORD,),
    stated_by="by",
    of_persona=of_record,
)

REPORT = ExportKind(
    name="report",
    model=Report,
    columns=("record_id", "by", "verdict", "note", "day", "at", "content_key"),
    key=("record_id", "by", "verdict", "day"),
    owner="record__created_by",
    only=Q(verdict__in=DOUBTS),  # usage names nobody, and is kept for weeks only
    parents=(RECORD,),
    stated_by="by",
    of_persona=of_record,
)

VERIFICATION = ExportKind(
    name="verification",
    model=Verification,
    columns=("record_id", "by", "at", "version", "is_own", "detected_urns"),
    key=("record_id", "by", "at"),
    owner="record__created_by",
    parents=(RECORD,),
    stated_by="by",
    of_persona=of_record,
)

TOMBSTONE = ExportKind(
    name="tombstone",
    model=Tombstone,
    columns=("record_id", "created_by", "persona", "erased_by", "erased_at"),
    key=("record_id",),
    owner="",  # a file of a person could otherwise keep memories of others from being restored
)

QUOTATION = ExportKind(
    name="quotation",
    model=Quotation,
    columns=("record_id", "place", "row", "is_whole"),
    key=("record_id", "place", "row"),
    owner="record__created_by",
    only=Q(row__regex="^[0-9a-f-]{32,36}$"),  # other rows have numbers, which differ between installations
    parents=(RECORD,),
    adapt=adapt_quotation,
)


CITING_DOCUMENT = ExportKind(
    name="citing_document",
    model=CitingDocument,
    columns=("id", "created_by", "title", "address", "is_shared", "created_at", "registered_at", "erased", "erased_at"),
    owner="created_by",
    order=("created_at", "id"),
    adapt=adapt_document,
)

CITATION = ExportKind(
    name="citation",
    model=Citation,
    columns=(
        "document_id", "record_id", "cited_at", "content_key", "reason", "other_reason", "outdated_at",
        "acknowledged_at",
    ),
    key=("document_id", "record_id"),
    owner="document__created_by",
    parents=(Parent("document_id", CitingDocument, "created_by"), RECORD),
)  # fmt: skip


def kinds() -> dict[str, ExportKind]:
    """Return the kinds of all apps by name, those that others refer to first."""
    proposed = Q(pk__in=[])
    for extension in extensions.EXTENSIONS.all():
        proposed |= extension.is_proposal()
    extra = {PROPOSAL: ExpressionWrapper(proposed, output_field=BooleanField())}
    declared = [TOMBSTONE, replace(MEMORY, extra=extra), REVISION, FEEDBACK, REPORT, VERIFICATION]
    declared += [CITING_DOCUMENT, CITATION]
    declared += extensions.portable_kinds()
    declared.append(QUOTATION)  # it may refer to rows of every app
    return {kind.name: kind for kind in declared}


def marked(caller: Caller, name: str) -> str:
    """Return the name of a person in a row that somebody else imports, so that it can't pass for that person."""
    return name if name in ("", caller.email) or name.endswith(IMPORTED) else f"{name[: 254 - len(IMPORTED)]}{IMPORTED}"


# what a list of memories exports: title → lookup
MEMORY_COLUMNS = {
    name: name
    for name in (
        "id", "created_at", "updated_at", "created_by", "persona", "visibility", "status", "dimension", "category",
        "confidence", "source", "content", "summary", "tags", "entity_urns", "stale_reason", "last_verified_at",
        *MEMORY_CELLS,
    )
}  # fmt: skip
