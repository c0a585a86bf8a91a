"""Every change of a memory. Doors translate their input to these calls; permission, transaction and revision
are here and nowhere else. Inference and network stay outside the transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import TextField, Value
from django.utils import timezone

from memories import embedding, events, validation
from memories.access import Caller
from memories.contract.errors import Conflict, Forbidden, Invalid, check_choice
from memories.models import (
    Category,
    Confidence,
    Dimension,
    MemoryRecord,
    Source,
    Status,
    Visibility,
)
from memories.models.fields import ContentKey
from memories.models.index_job import Trigger
from memories.retrieval import indexing
from memories.retrieval.similar import Similar, similar_to
from memories.writing.chains import living_successor, locked_with_predecessor, make_active, mark_superseded
from memories.writing.revising import locked, revised

EDITABLE: dict[str, Callable[[Any], Any]] = {
    "content": validation.clean_content,
    "summary": lambda value: validation.clean_text("summary", value, 0, validation.SUMMARY_MAX),
    "dimension": lambda value: check_choice("dimension", value, Dimension.values),
    "category": lambda value: check_choice("category", value, Category.values),
    "confidence": lambda value: check_choice("confidence", value, Confidence.values),
    "tags": validation.clean_tags,
    "entity_urns": validation.clean_urns,
    "related_columns": validation.clean_columns,
    "visibility": lambda value: check_choice("visibility", value, Visibility.values),
}


@dataclass(frozen=True)
class Remembered:
    """`existing`: this very text was there already, and nothing was written. `note` says what is degraded."""

    record: MemoryRecord
    existing: bool = False
    similar: list[Similar] = field(default_factory=list)
    note: str = ""


# -- writing something new -------------------------------------------------------------------------------


def remember(
    *,
    caller: Caller,
    content: str,
    dimension: str = Dimension.KNOWLEDGE,
    category: str = Category.BUSINESS_CONTEXT,
    confidence: str = Confidence.MEDIUM,
    source: str = Source.USER,
    summary: str = "",
    tags: Sequence[str] = (),
    entity_urns: Sequence[str] = (),
    related_columns: Sequence[Mapping[str, str]] = (),
    visibility: str = Visibility.PERSONA,
    metadata: Mapping[str, Any] | None = None,
    created_at: datetime | None = None,
    within: Callable[[MemoryRecord], None] | None = None,
) -> Remembered:
    """Keeps a fact. The same text by the same owner and persona answers the record that is there; a text that
    is nearly the same is kept and the near ones are named, since two like sentences may be two facts.
    `within` writes what belongs to the record, in its transaction."""
    given = {
        "content": content, "summary": summary, "dimension": dimension, "category": category,
        "confidence": confidence, "tags": list(tags), "entity_urns": list(entity_urns),
        "related_columns": list(related_columns), "visibility": visibility,
    }  # fmt: skip
    fields = {name: EDITABLE[name](value) for name, value in given.items()}
    fields["source"] = check_choice("source", source, Source.values)
    fields["metadata"] = _with_session(caller, validation.clean_metadata(dict(metadata or {})))
    if created_at:
        fields["created_at"] = fields["updated_at"] = created_at
    _require_identity(caller)
    with transaction.atomic():
        if twin := _same_text(caller, fields["content"]):
            if within:
                within(twin)
            return Remembered(twin, existing=True, note=_what_differs(twin, fields))
        record = MemoryRecord.objects.create(created_by=caller.email, persona=caller.persona, **fields)
        if within:
            within(record)
        events.grounded.send(sender=MemoryRecord, record=record)
    return index_now(caller, record)


def supersede(
    *,
    caller: Caller,
    record_id: UUID | str,
    content: str,
    reason: str = "",
    created_at: datetime | None = None,
    **changes: Any,
) -> Remembered:
    """Corrects a memory: a new record takes its place and the old one is kept as what was believed before.

    What `changes` does not name is taken over. Raises Conflict, naming the successor, if somebody was quicker.
    """
    metadata = validation.clean_metadata(dict(changes.pop("metadata", None) or {}))
    cleaned = clean_changes({"content": content, **changes})
    with transaction.atomic():
        old = locked(caller, record_id, deciding=True)
        if successor := living_successor(old):
            raise Conflict(f"was corrected already, by {successor.pk.hex}: correct that one", field="id")
        if old.status == Status.ARCHIVED:
            raise Conflict("is forgotten: restore it before correcting it", field="id")
        moment = created_at or timezone.now()  # read once the lock is ours, so that no state ends before it begins
        inherited = {name: getattr(old, name) for name in EDITABLE} | {"summary": ""}
        fields = {**inherited, **cleaned}
        if fields["content"] == old.content:
            raise Invalid("is what the memory says already", field="content", allowed="the corrected text")
        waits = events.review.propose_correction(caller, old, fields)
        new = MemoryRecord(
            **{**fields, "visibility": Visibility.PRIVATE if waits else fields["visibility"]},
            created_by=old.created_by,
            persona=old.persona,
            source=old.source,
            metadata=written_by(caller, old, _with_session(caller, metadata)),
            supersedes=None if waits else old,
            created_at=moment,
            updated_at=moment,
        )
        new.save(force_insert=True)
        if waits:
            events.review.proposed(caller, new, old)
        else:
            with revised(caller, old, "supersede", reason, moment):
                mark_superseded(old, new)
            events.corrected.send(sender=MemoryRecord, record=old)
        events.grounded.send(sender=MemoryRecord, record=new)
    answer = index_now(caller, new)
    return replace(answer, note="; ".join(filter(None, [waits, answer.note])))


# -- changing what is there ------------------------------------------------------------------------------


def revise(*, caller: Caller, record_id: UUID | str, reason: str = "", **changes: Any) -> MemoryRecord:
    """Edits a memory in place; the earlier state is kept as a revision. `metadata` is merged, key by key.

    A stale memory that is revised is true again. What a curator has approved stays in force until the edit is
    approved too: then the record comes back unchanged, and its `waits` says so. Raises Invalid without any change to
    make.
    """
    metadata = changes.pop("metadata", None)
    cleaned = clean_changes(changes)
    if not cleaned and metadata is None:
        raise Invalid(f"no fields to change; allowed: {', '.join([*EDITABLE, 'metadata'])}")
    with transaction.atomic():
        record = locked(caller, record_id)
        if record.status not in (Status.ACTIVE, Status.STALE):
            raise Conflict(f"is {record.status}: restore it before changing it", field="id")
        if cleaned.get("visibility", record.visibility) != record.visibility:
            events.sharing.send(sender=MemoryRecord, record=record)
        if cleaned and (waits := events.review.hold_edit(caller, record, cleaned)):
            record.waits = waits
            return record
        with revised(caller, record, "revise", reason):
            for name, value in cleaned.items():
                setattr(record, name, value)
            if metadata is not None:
                own_keys = frozenset(record.metadata)
                merged = record.metadata | validation.clean_metadata(dict(metadata))
                record.metadata = validation.clean_metadata(merged, own_keys=own_keys)
            if cleaned and record.status == Status.STALE:
                make_active(record)
        text_changed = record.embedding is None
    if text_changed:
        index_now(caller, record)
    return record


def forget(*, caller: Caller, record_id: UUID | str, reason: str = "") -> MemoryRecord:
    """Archives a memory: out of recall, kept, and to be restored. Forgetting twice changes nothing."""
    with transaction.atomic():
        record = locked(caller, record_id, deciding=True)
        with revised(caller, record, "forget", reason):
            record.status = Status.ARCHIVED
    return record


def restore(*, caller: Caller, record_id: UUID | str, reason: str = "") -> MemoryRecord:
    """Makes an archived or stale memory active again; a superseded one only when no correction of it lives. A
    restored correction corrects again."""
    with transaction.atomic():
        record, old = locked_with_predecessor(caller, record_id)
        events.restoring.send(sender=MemoryRecord, record=record)
        successor = living_successor(record)
        if successor and record.status == Status.SUPERSEDED:
            raise Conflict(f"is superseded by {successor.pk.hex}: forget that one first", field="id")
        rival = old and living_successor(old)
        if record.status == Status.ARCHIVED and rival and rival.pk != record.pk:
            raise Conflict(f"what it corrected is corrected by {rival.pk.hex} now", field="id")
        twin = None if successor else living_twin(record)
        if twin:
            raise Conflict(f"the same is remembered already, as {twin.pk.hex}", field="id")
        with revised(caller, record, "restore", reason):
            if successor:  # it was corrected, and only then forgotten
                mark_superseded(record, successor)
            else:
                make_active(record)
        if old and old.status in (Status.ACTIVE, Status.STALE):
            with revised(caller, old, "supersede", "its correction was restored"):
                mark_superseded(old, record)
        events.grounded.send(sender=MemoryRecord, record=record)
    if record.embedding is None:
        indexing.enqueue("memory", [record.pk], Trigger.WRITE)
    return record


def share(*, caller: Caller, record_id: UUID | str, visibility: str, reason: str = "") -> MemoryRecord:
    """Sets who may read it: its owner alone, its persona, or everyone."""
    check_choice("visibility", visibility, Visibility.values)
    with transaction.atomic():
        record = locked(caller, record_id)
        events.sharing.send(sender=MemoryRecord, record=record)
        with revised(caller, record, "share", reason):
            record.visibility = visibility
    return record


def mark_stale(*, caller: Caller, record_id: UUID | str, reason: str) -> MemoryRecord:
    """Takes an active memory out of default recall because something it speaks of has changed; says what."""
    reason = validation.clean_text("reason", reason, 1, validation.REASON_MAX)
    with transaction.atomic():
        record = locked(caller, record_id)
        if record.status != Status.ACTIVE:
            raise Conflict(f"is {record.status}: only an active memory can go stale", field="id")
        with revised(caller, record, "mark_stale", reason):
            record.status, record.stale_reason, record.stale_at = Status.STALE, reason, timezone.now()
    return record


def mark_fresh(*, caller: Caller, record_id: UUID | str, reason: str) -> MemoryRecord:
    """What had made a memory stale is as it was: it is recalled again, although nobody has looked at it."""
    with transaction.atomic():
        record = locked(caller, record_id)
        if record.status != Status.STALE:
            raise Conflict(f"is {record.status}: only a stale memory becomes fresh again", field="id")
        with revised(caller, record, "mark_fresh", reason):
            make_active(record)
    return record


def verify(*, caller: Caller, record_id: UUID | str, note: str = "") -> MemoryRecord:
    """Somebody looked and it is still true: a stale memory is active again, and the time is kept."""
    with transaction.atomic():
        record = locked(caller, record_id, deciding=True)
        if record.status not in (Status.ACTIVE, Status.STALE):
            raise Conflict(f"is {record.status}: restore it before verifying it", field="id")
        with revised(caller, record, "verify", note):
            make_active(record)
            record.last_verified_at = timezone.now()
        events.grounded.send(sender=MemoryRecord, record=record)
    return record


# -- parts -----------------------------------------------------------------------------------------------


def _require_identity(caller: Caller) -> None:
    if not caller.email:
        raise Forbidden("this connection has no identity, so nothing can be owned")


def clean_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    if unknown := sorted(set(changes) - set(EDITABLE)):
        raise Invalid(f"{', '.join(unknown)} can't be changed", allowed=", ".join(EDITABLE))
    return {name: EDITABLE[name](value) for name, value in changes.items() if value is not None}


def written_by(caller: Caller, owner_of: MemoryRecord, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata that says who wrote the text, where that is not its owner."""
    kept = {name: value for name, value in metadata.items() if name != validation.EDITED_BY}
    return kept if caller.email == owner_of.created_by else {**kept, validation.EDITED_BY: caller.email}


def _with_session(caller: Caller, metadata: dict[str, Any]) -> dict[str, Any]:
    return {**metadata, validation.SESSION_KEY: caller.session} if caller.session else metadata


def _what_differs(twin: MemoryRecord, given: Mapping[str, Any]) -> str:
    """A repeated text changes nothing; what was said otherwise this time is named, so that it isn't believed."""
    compared = ("visibility", "dimension", "category", "confidence", "tags", "entity_urns")
    other = [name for name in compared if given[name] != getattr(twin, name) and given[name] != []]
    listed = ", ".join(f"{name} is {getattr(twin, name)!r}" for name in other)
    return f"kept as it is there ({listed}): update it to change that" if other else ""


def living_twin(record: MemoryRecord) -> MemoryRecord | None:
    same = MemoryRecord.objects.facts().filter(created_by=record.created_by, persona=record.persona)
    living = same.filter(content_key=record.content_key, status__in=[Status.ACTIVE, Status.STALE])
    return None if record.tier else living.exclude(pk=record.pk).first()


def _same_text(caller: Caller, content: str) -> MemoryRecord | None:
    """The living record of this owner and persona with this text; concurrent callers wait for each other."""
    turnstile = f"{caller.email} {' '.join(content.casefold().split())}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [turnstile])
    return (
        MemoryRecord.objects.visible_to(caller)
        .facts()
        .filter(created_by=caller.email, persona=caller.persona, status__in=[Status.ACTIVE, Status.STALE])
        .filter(content_key=ContentKey(Value(content, output_field=TextField())))
        .order_by("created_at")
        .first()
    )


def index_now(caller: Caller, record: MemoryRecord) -> Remembered:
    """Gives the saved record its vector and names its near ones; without embedder a job is left for later."""
    try:
        vector, model = embedding.embed_one(record.content)
    except embedding.EmbedderUnavailable as error:
        indexing.enqueue("memory", [record.pk], Trigger.WRITE)
        return Remembered(record, note=f"saved; {error}; it is found by its words until its vector is made")
    indexing.store_vector("memory", record.pk, record.content, vector, model)
    near = similar_to(caller, vector, threshold=settings.NEAR_DUPLICATE_COSINE, besides=record)
    return Remembered(record, similar=near)
