"""Every change of a memory. Doors translate their input to these calls; permission, transaction and revision
are here and nowhere else. Inference and network stay outside the transactions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from memories import embedding, extensions, operations
from memories.contract.errors import Conflict, Forbidden, Invalid, NotFound
from memories.contract.fields import JsonObject
from memories.contract.operations import validate
from memories.embedding import Vectors
from memories.identity.caller import Caller
from memories.models import (
    Category,
    MemoryRecord,
    Persona,
    Source,
    Status,
    Visibility,
)
from memories.models.index_job import Trigger
from memories.operations import EDITABLE, EDITED_BY, SESSION_KEY
from memories.retrieval import indexing, passages
from memories.retrieval.language import language_of
from memories.retrieval.near_duplicates import Similar, similar_to
from memories.retrieval.passages import Stamped
from memories.writing.correction_chains import activate, active_correction, locked_with_predecessor, mark_superseded
from memories.writing.duplicates import lock_duplicates, normalized_key
from memories.writing.revision import locked, revised, save_new

# What a correction of a conversation's memory takes over.
OF_CONVERSATIONS = (
    "tier", "conversation_id", "role", "author", "thread_position", "derived_from", "importance", "enrichment_status",
    "expires_at",
)  # fmt: skip


@dataclass(frozen=True)
class Remembered:
    """`existing`: this very text was there already, and nothing was written. `note` says what is degraded."""

    record: MemoryRecord
    existing: bool = False
    similar: list[Similar] = field(default_factory=list)
    note: str = ""


# -- writing something new -------------------------------------------------------------------------------


def remember(
    operation: operations.Remember,
    *,
    caller: Caller,
    created_at: datetime | None = None,
    within: Callable[[MemoryRecord], None] | None = None,
) -> Remembered:
    """Keeps a fact. The same text of the same owner and persona brings back the record that exists; a text that is
    nearly the same is kept and the near ones are named, since two like sentences may be two facts. `within` writes
    what belongs to the record, in its transaction."""
    fields = operation.values() | {"language": operation.language or language_of(operation.content)}
    fields["metadata"] = _with_session(caller, operation.metadata)
    if created_at:
        fields["created_at"] = fields["updated_at"] = created_at
    _require_identity(caller)
    encoded, away = _encoded(operation.content)
    with transaction.atomic():
        if twin := lock_duplicates(caller, [operation.content]).get(normalized_key(operation.content)):
            if within:
                within(twin)
            return Remembered(twin, existing=True, note=_what_differs(twin, fields))
        record = MemoryRecord(created_by=caller.email, persona=caller.persona, **fields)
        save_new(record, encoded)
        if within:
            within(record)
    return _with_likes(caller, record, encoded.passages.vectors if encoded else None, away)


def store_note(operation: operations.StoreNote, *, caller: Caller) -> Remembered:
    """Keeps one text of one character or more, for its owner alone; the same text again brings back the record."""
    fact = operations.Remember.model_construct(
        content=operation.text,
        metadata=operation.metadata,
        source=Source.NOTE.value,
        visibility=Visibility.PRIVATE.value,
        category=Category.GENERAL.value,
    )
    return remember(fact, caller=caller)


def supersede(operation: operations.Supersede, *, caller: Caller, created_at: datetime | None = None) -> Remembered:
    """Corrects a memory: a new record takes its place and the old one is kept as what was believed before.

    What is not named is taken over. Raises Conflict, naming the successor, if somebody was quicker.
    """
    language = operation.language or language_of(operation.content)
    with transaction.atomic():
        old = locked(caller, operation.record_id, deciding=True)
        if successor := active_correction(old):
            raise Conflict(f"was already corrected, by {successor.pk.hex}: correct that one", field="id")
        if old.status == Status.ARCHIVED:
            raise Conflict("is archived: restore it before correcting it", field="id")
        moment = created_at or timezone.now()  # read once the lock is ours, so that no state ends before it begins
        inherited = {name: getattr(old, name) for name in EDITABLE} | {"summary": ""}
        fields = {**inherited, **operation.explicit_values(*EDITABLE), "language": language or old.language}
        if fields["content"] == old.content:
            raise Invalid("is what the memory already says", field="content", allowed="the corrected text")
        deferrals = [extension.defer_correction(caller, old, fields) for extension in extensions.registered()]
        waits = next(filter(None, deferrals), "")
        new = MemoryRecord(
            **{**fields, "visibility": Visibility.PRIVATE if waits else fields["visibility"]},
            created_by=old.created_by,
            persona=old.persona,
            source=old.source,
            metadata=written_by(caller, old, _with_session(caller, operation.metadata or {})),
            supersedes=None if waits else old,
            **{name: getattr(old, name) for name in OF_CONVERSATIONS},
            created_at=moment,
            updated_at=moment,
        )
        save_new(new)
        for extension in extensions.registered():
            if waits:
                extension.correction_proposed(caller, new, old)
            else:
                extension.record_superseded(old)
        if not waits:
            with revised(caller, old, "supersede", operation.reason, moment):
                mark_superseded(old, new)
    answer = index_now(caller, new)
    return replace(answer, note="; ".join(filter(None, [waits, answer.note])))


# -- changing what is there ------------------------------------------------------------------------------


def revise(operation: operations.Revise, *, caller: Caller) -> MemoryRecord:
    """Edits a memory in place; the earlier state is kept as a revision. `metadata` is merged, key by key.

    A stale memory that is revised is true again. What a curator has approved stays in force until the edit is
    approved too: then the record comes back unchanged, and its `waits` says so. Raises Invalid without any change to
    make.
    """
    changes = operation.explicit_values(*EDITABLE)
    language = operation.language or language_of(operation.content or "")
    if not changes and operation.metadata is None:
        raise Invalid(f"no fields to change; allowed: {', '.join([*EDITABLE, 'metadata'])}")
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        if record.status not in (Status.ACTIVE, Status.STALE):
            raise Conflict(f"is {record.status}: restore it before changing it", field="id")
        if changes.get("visibility", record.visibility) != record.visibility:
            check_share(record)
        waits = ""
        if changes:
            deferrals = [extension.defer_edit(caller, record, changes) for extension in extensions.registered()]
            waits = next(filter(None, deferrals), "")
        if waits:
            record.waits = waits
            return record
        with revised(caller, record, "revise", operation.reason):
            for name, value in changes.items():
                setattr(record, name, value)
            record.language = language or record.language
            if operation.metadata is not None:
                record.metadata = validate(JsonObject, record.metadata | operation.metadata, "metadata")
            if changes and record.status == Status.STALE:
                activate(record)
        text_changed = record.embedding_text_hash is None
    if text_changed:
        index_now(caller, record)
    return record


def forget(operation: operations.Forget, *, caller: Caller) -> MemoryRecord:
    """Archives a memory: out of recall, kept, and to be restored. Forgetting twice changes nothing."""
    with transaction.atomic():
        record = locked(caller, operation.record_id, deciding=True)
        with revised(caller, record, "forget", operation.reason):
            record.status = Status.ARCHIVED
    return record


def restore(operation: operations.Restore, *, caller: Caller) -> MemoryRecord:
    """Makes an archived or stale memory active again; a superseded one only when no correction of it lives. A
    restored correction corrects again."""
    with transaction.atomic():
        record, old = locked_with_predecessor(caller, operation.record_id)
        for extension in extensions.registered():
            extension.check_restore(record)
        successor = active_correction(record)
        if successor and record.status == Status.SUPERSEDED:
            raise Conflict(f"is superseded by {successor.pk.hex}: forget that one first", field="id")
        rival = old and active_correction(old)
        if record.status == Status.ARCHIVED and rival and rival.pk != record.pk:
            raise Conflict(f"what it corrected is corrected by {rival.pk.hex} now", field="id")
        twin = None if successor else find_duplicate(record)
        if twin:
            raise Conflict(f"the same text is already remembered, as {twin.pk.hex}", field="id")
        with revised(caller, record, "restore", operation.reason):
            if successor:  # it was corrected, and only then forgotten
                mark_superseded(record, successor)
            else:
                activate(record)
        if old and old.status in (Status.ACTIVE, Status.STALE):
            with revised(caller, old, "supersede", "its correction was restored"):
                mark_superseded(old, record)
    if record.embedding_text_hash is None:
        indexing.enqueue("memory", [record.pk], Trigger.WRITE)
    return record


def share(operation: operations.Share, *, caller: Caller) -> MemoryRecord:
    """Sets who may read it: its owner alone, its persona, or everyone."""
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        check_share(record)
        with revised(caller, record, "share", operation.reason):
            record.visibility = operation.visibility
    return record


def reassign(operation: operations.Reassign, *, caller: Caller) -> MemoryRecord:
    """Moves a memory to another persona, whose members read it and whose curators decide it from then on. Its owner
    moves it to a persona that they hold, an admin to any."""
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        persona = Persona.objects.filter(name=operation.persona).first()
        if persona is None or not (caller.is_admin or persona.name in caller.personas):
            raise NotFound(f"there is no persona {operation.persona!r} of yours", field="persona")
        if not caller.is_admin:
            check_share(record)
        was = record.persona
        record.persona = persona.name
        if record.status in (Status.ACTIVE, Status.STALE) and (twin := find_duplicate(record)):
            raise Conflict(f"the same text is remembered there already, as {twin.pk.hex}", field="persona")
        record.persona = was
        with revised(caller, record, "reassign", operation.reason):
            record.persona = persona.name
    return record


def mark_stale(*, caller: Caller, record_id: UUID | str, reason: str) -> MemoryRecord:
    """Takes an active memory out of default recall because something it speaks of has changed; says what."""
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
            activate(record)
    return record


def verify(operation: operations.Verify, *, caller: Caller) -> MemoryRecord:
    """Somebody looked and it is still true: a stale memory is active again, and the time is kept."""
    with transaction.atomic():
        record = locked(caller, operation.record_id, deciding=True)
        if record.status not in (Status.ACTIVE, Status.STALE):
            raise Conflict(f"is {record.status}: restore it before verifying it", field="id")
        with revised(caller, record, "verify", operation.note):
            activate(record)
            record.last_verified_at = timezone.now()
    return record


# -- parts -----------------------------------------------------------------------------------------------


def check_share(record: MemoryRecord) -> None:
    for extension in extensions.registered():
        extension.check_share(record)


def _require_identity(caller: Caller) -> None:
    if not caller.email:
        raise Forbidden("this connection has no identity, so nothing can be owned")


def written_by(caller: Caller, owner_of: MemoryRecord, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata that says who wrote the text, where that is not its owner."""
    remaining = {name: value for name, value in metadata.items() if name != EDITED_BY}
    return remaining if caller.email == owner_of.created_by else {**remaining, EDITED_BY: caller.email}


def _with_session(caller: Caller, metadata: dict[str, Any]) -> dict[str, Any]:
    return {**metadata, SESSION_KEY: caller.session} if caller.session else metadata


def _what_differs(twin: MemoryRecord, fields: Mapping[str, Any]) -> str:
    """A repeated text changes nothing; what was said otherwise this time is named, so that it isn't believed."""
    compared = ("visibility", "dimension", "category", "confidence", "tags", "entity_urns")
    differences = [name for name in compared if fields[name] != getattr(twin, name) and fields[name] != []]
    details = ", ".join(f"{name} is {getattr(twin, name)!r}" for name in differences)
    return f"kept as it was ({details}): update it to change that" if differences else ""


def find_duplicate(record: MemoryRecord) -> MemoryRecord | None:
    rows = MemoryRecord.objects.facts().filter(created_by=record.created_by, persona=record.persona)
    living = rows.filter(content_key=record.content_key, status__in=[Status.ACTIVE, Status.STALE])
    return None if record.tier else living.exclude(pk=record.pk).first()


def index_now(caller: Caller, record: MemoryRecord) -> Remembered:
    """Gives the saved record its vectors and names its near ones; without embedder a job is left for later."""
    try:
        vectors = indexing.index("memory", {record.pk: record.spoken})[record.pk]
    except embedding.EmbedderUnavailable as error:
        return _with_likes(caller, record, None, str(error))
    return _with_likes(caller, record, vectors, "")


def _encoded(text: str) -> tuple[Stamped | None, str]:
    """The passages of a text, before the transaction that needs them; or why there are none."""
    try:
        (encoded,), model = passages.encode([text])
    except embedding.EmbedderUnavailable as error:
        return None, str(error)
    return Stamped(encoded, model), ""


def _with_likes(caller: Caller, record: MemoryRecord, vectors: Vectors | None, away: str) -> Remembered:
    if vectors is None:
        indexing.enqueue("memory", [record.pk], Trigger.WRITE)
        return Remembered(record, note=f"saved; {away}; until its vector is computed it is found by its words")
    near = similar_to(caller, vectors, threshold=settings.NEAR_DUPLICATE_COSINE, besides=record)
    return Remembered(record, similar=near)
