"""Services that create and change memories.

The web pages, REST API, MCP tools and commands all call these functions. Each service checks the permission of the
caller and writes in one transaction. Every change of a memory keeps the earlier state as a revision. Embedding and
network requests run outside of the transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation import embedding
from foundation.database import identity
from foundation.embedding import Vectors
from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.operations.fields import JsonObject
from foundation.operations.operation import validate
from foundation.people.caller import Caller, require_user
from foundation.people.models import Persona
from memories import extensions, operations
from memories.models import IN_USE, Attachment, Category, MemoryRecord, MemoryRevision, Source, Status, Visibility
from memories.models.index_job import Trigger
from memories.models.record import EDITED_BY
from memories.models.validity import VALIDITY_FIELDS
from memories.operations import EDITABLE, SESSION_KEY
from memories.retrieval import indexing, passages
from memories.retrieval.near_duplicates import Similar, similar_to, with_differences
from memories.retrieval.passages import Stamped
from memories.texts.language import language_of
from memories.validity import rules
from memories.validity.scopes.choices import scope_for
from memories.writing import entity_assignment, feedback, quotations
from memories.writing.checks import NOT_ADDED, pass_on_checks, prepare_check
from memories.writing.correction_chains import (
    activate,
    active_correction,
    locked_with_predecessor,
    mark_superseded,
    reactivate,
    reference,
    require_in_use,
    superseded_by,
)
from memories.writing.exact_duplicates import (
    find_duplicate,
    lock_duplicates,
    normalized_key,
    proposals,
    require_new_text,
)
from memories.writing.revision import keep_secret_private, locked, locked_to_verify, revised, save_new
from memories.writing.staleness import require_unchanged, with_current_status
from memories.writing.text_places import REASONS
from memories.writing.verification import record_verification

# Fields of conversation memories that a correction copies from the corrected memory.
CONVERSATION_FIELDS = (
    "tier", "conversation_id", "role", "author", "thread_position", "derived_from", "importance", "enrichment_status",
    "expires_at",
)  # fmt: skip
UNSAID: tuple[Any, ...] = ([], None, "")  # values of optional fields that were not given


@dataclass(frozen=True)
class Remembered:
    record: MemoryRecord
    existing: bool = False  # true if the same text was already stored; then no new memory was stored
    similar: list[Similar] = field(default_factory=list)
    note: str = ""  # message about a missing vector, a pending approval, or differences to the existing record


# -- creating memories -----------------------------------------------------------------------------------


def remember(caller: Caller, operation: operations.Remember, *, created_at: datetime | None = None) -> Remembered:
    """Store a fact.

    If the caller already has an active or stale fact with the same text in the active persona, that record is returned.
    A near-duplicate is stored, because two similar sentences may be two facts. Similar memories are returned in
    `similar`.
    """

    def find_existing() -> MemoryRecord | None:
        return lock_duplicates(caller, [operation.content]).get(normalized_key(operation.content))

    return store(caller, operation, created_at=created_at, find_existing=find_existing)


def store(
    caller: Caller,
    operation: operations.Remember,
    *,
    created_at: datetime | None = None,
    find_existing: Callable[[], MemoryRecord | None],
    after_save: Callable[[MemoryRecord], object] | None = None,
) -> Remembered:
    """Store a record, or return the one that `find_existing` finds.

    Both functions are called inside the transaction. `after_save` is called with a new record, to write rows that
    belong to it.
    """
    prepared = prepare_check(caller, operation.check)
    fields = operation.values() | {"language": operation.language or language_of(operation.content)}
    fields["metadata"] = _with_session(caller, operation.metadata)
    fields |= rules.validity_columns(fields)
    del fields["check"]
    if created_at:
        fields["created_at"] = fields["updated_at"] = created_at
    require_user(caller)
    fields["scope"] = scope_for(caller, operation.scope)
    encoded, problem = _encode(operation.content)
    with transaction.atomic():
        if existing := find_existing():
            notes = [_describe_differences(existing, fields), NOT_ADDED if prepared else ""]
            return Remembered(existing, existing=True, note="; ".join(filter(None, notes)))
        record = MemoryRecord(created_by=caller.email, persona=caller.persona, **fields)
        record.unsettled = record.lacks_entities and entity_assignment.asks()
        save_new(record, encoded)
        if after_save:
            after_save(record)
        checked = prepared(record) if prepared else ""
    unknown = unknown_entities(operation.entity_urns)
    remembered = _with_similar(caller, record, encoded.passages.vectors if encoded else None, problem)
    return replace(remembered, note="; ".join(filter(None, [secret_note(record), unknown, checked, remembered.note])))


def unknown_entities(urns: Sequence[str]) -> str:
    """Return what to tell somebody who states entities that the catalog lacks, or ""."""
    return extensions.unknown_entities(urns) if urns else ""


def secret_note(record: MemoryRecord) -> str:
    if not record.was_made_private:
        return ""
    return gettext(
        "the text looks as if it states a password, a token or a key, so it is private: remove the secret, or share "
        "the memory if it is none"
    )


def store_note(caller: Caller, operation: operations.StoreNote) -> Remembered:
    """Store a private note. If the same text is already stored, the existing record is returned, as by `remember`."""
    # model_construct skips validation, because a note may be shorter than a fact.
    fact = operations.Remember.model_construct(
        content=operation.text,
        metadata=operation.metadata,
        source=Source.NOTE.value,
        visibility=Visibility.PRIVATE.value,
        category=Category.GENERAL.value,
    )
    return remember(caller, fact)


def supersede(caller: Caller, operation: operations.Supersede, *, created_at: datetime | None = None) -> Remembered:
    """Correct a memory: store a new record and mark the old one as superseded.

    EDITABLE fields that are not given are copied from the old record, except the summary. If the correction needs
    approval, it is stored as a private proposal, and the old record stays in force. Raises Conflict if the memory was
    already corrected or is archived, or if its owner has another memory with the new text, and Invalid if the text is
    the same.
    """
    language = operation.language or language_of(operation.content)
    prepared = prepare_check(caller, operation.check)
    with transaction.atomic():
        old = locked(caller, operation.record_id, deciding=True)
        _require_correctable(caller, old, operation.content)
        _require_same_readers(caller, old, operation)
        moment = created_at or timezone.now()  # the time is read after locking, so that no state ends before it begins
        inherited = {name: getattr(old, name) for name in EDITABLE} | {"summary": ""}
        fields = {**inherited, **operation.explicit_values(*EDITABLE), "language": language or old.language}
        bounds, note = rules.inherited_validity(old, operation.explicit_values(*VALIDITY_FIELDS))
        fields |= bounds
        fields["scope"] = scope_for(caller, fields["scope"], of=old)
        pending = extensions.defer_correction(caller, old, fields) or ""
        if not pending:
            require_new_text(caller, old, fields["content"])
        if pending:
            fields["visibility"] = Visibility.PRIVATE
        new = _correction_of(caller, old, operation, fields, moment)
        new.supersedes = None if pending else old
        keep_secret_private(new)
        with _in_the_name_of_its_owner(caller, new):
            save_new(new)
            if pending:
                extensions.correction_proposed(caller, new, old)
        if not pending:
            extensions.record_superseded(old)
            with revised(caller, old, "supersede", operation.reason, moment):
                mark_superseded(old, new)
            _note_quoting_reason(old, new, operation.reason)
        checked = pass_on_checks(old, new, prepared, keep=operation.keep_checks)
    with _in_the_name_of_its_owner(caller, new):
        remembered = index_now(caller, new)
    unknown = unknown_entities(operation.entity_urns or ())
    notes = [secret_note(new), pending, note, unknown, checked, remembered.note]
    return replace(remembered, note="; ".join(filter(None, notes)))


def _correction_of(
    caller: Caller, old: MemoryRecord, operation: operations.Supersede, fields: dict[str, Any], moment: datetime
) -> MemoryRecord:
    """Return the unsaved correction of a memory, in the name of its owner."""
    new = MemoryRecord(
        **fields,
        created_by=old.created_by,
        persona=old.persona,
        source=old.source,
        metadata=with_editor(caller, old, _with_session(caller, operation.metadata or {})),
        dismissed_urns=old.dismissed_urns,
        **{name: getattr(old, name) for name in CONVERSATION_FIELDS},
        created_at=moment,
        updated_at=moment,
    )
    new.unsettled = old.unsettled and new.lacks_entities  # what was settled is not asked again
    return new


def _require_correctable(caller: Caller, old: MemoryRecord, text: str) -> None:
    if successor := active_correction(old):
        raise superseded_by(caller, successor)
    if old.status == Status.ARCHIVED:
        require_in_use(caller, old)
    if text == old.content:
        raise Invalid(
            gettext("is identical to the current text"), field="content", allowed=gettext("the corrected text")
        )


def _require_same_readers(caller: Caller, old: MemoryRecord, operation: operations.Supersede) -> None:
    wanted = operation.explicit_values("visibility").get("visibility", old.visibility)
    if wanted != old.visibility and not caller.can_edit_for(old.created_by):
        raise Forbidden(gettext("is a matter of the owner: leave it out"), field="visibility")


def _in_the_name_of_its_owner(caller: Caller, record: MemoryRecord) -> AbstractContextManager[None]:
    """Let a curator write a private correction of another person's memory: a proposal, or a text with a secret.

    Row-level security would refuse it, because the curator may not read what they write.
    """
    is_hidden = record.visibility == Visibility.PRIVATE and not caller.can_edit_for(record.created_by)
    return identity.service("correction_chains") if is_hidden else nullcontext()


def _note_quoting_reason(old: MemoryRecord, new: MemoryRecord, reason: str) -> None:
    """Store that the reason for a correction, in the history of the corrected memory, quotes the correction."""
    if quotations.quotes_anything(new.content) and new.content in reason:
        revision = MemoryRevision.objects.filter(record=old, change="supersede").latest("pk")
        quotations.save_quotations([new.pk], REASONS, revision.pk)


# -- changing memories -----------------------------------------------------------------------------------


def revise(caller: Caller, operation: operations.Revise) -> MemoryRecord:
    """Edit a memory in place. `metadata` is merged key by key.

    A stale memory becomes active again if its text changes. If its entities or columns change, extensions compare it
    again after the transaction. An edit of a memory that a curator has approved may need approval. Then the record is
    returned unchanged, with a message in `pending_message`. `edit_note` tells if nothing has changed.

    Raises Invalid if the operation names no fields, and Conflict if the memory is archived or superseded, or if its
    owner has another memory with the new text.
    """
    changes = operation.explicit_values(*EDITABLE)
    language = operation.language or language_of(operation.content or "")
    if not changes and operation.metadata is None and not operation.check:
        raise Invalid(
            gettext("no fields to change; allowed: %(names)s") % {"names": ", ".join([*EDITABLE, "metadata", "check"])}
        )
    prepared = prepare_check(caller, operation.check, operation.record_id)
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        require_in_use(caller, record)
        if changes.get("visibility", record.visibility) != record.visibility:
            extensions.check_share(record)
        changes |= rules.validity_columns(changes, record)
        if "scope" in changes:
            changes["scope"] = scope_for(caller, changes["scope"], of=record)
        requested = changes if operation.metadata is None else {**changes, "metadata": operation.metadata}
        if pending := extensions.defer_edit(caller, record, requested):
            record.pending_message = "; ".join([pending, *([prepared(record)] if prepared else [])])
            return record
        updated_at = record.updated_at
        is_new_text = changes.get("content", record.content) != record.content
        if is_new_text and not proposals([record.pk]):
            require_new_text(caller, record, changes["content"])
        with revised(caller, record, "revise", operation.reason):
            for name, value in changes.items():
                setattr(record, name, value)
            record.language = language or record.language
            if operation.metadata is not None:
                record.metadata = validate(JsonObject, record.metadata | operation.metadata, "metadata")
            if is_new_text:
                _after_new_text(caller, record)
        checked = prepared(record) if prepared else ""
        text_changed = record.embedding_text_hash is None
    if record.updated_at == updated_at and not checked:
        record.edit_note = gettext("nothing to change: it has these values already")
    else:
        record.edit_note = _note_of_edit(record, changes, checked)
    if text_changed:
        index_now(caller, record)
    return with_current_status(record)


def _after_new_text(caller: Caller, record: MemoryRecord) -> None:
    """Note who has edited the text, and end the doubts about the old one."""
    record.metadata = with_editor(caller, record, record.metadata)
    feedback.stop_counting_wrong_marks(record)
    if record.status == Status.STALE:
        activate(record)


def _note_of_edit(record: MemoryRecord, changes: Mapping[str, Any], checked: str) -> str:
    """Return what an edit tells its caller besides that it was made, or ""."""
    unknown = unknown_entities(changes.get("entity_urns", ()))
    updated = "updated" if record.was_made_private or unknown else ""
    return "; ".join(filter(None, [updated, secret_note(record), unknown, checked]))


def forget(caller: Caller, operation: operations.Forget) -> MemoryRecord:
    """Archive a memory. An archived memory is not recalled and can be restored. Archiving it again changes nothing."""
    with transaction.atomic():
        record = locked(caller, operation.record_id, deciding=True)
        with revised(caller, record, "forget", operation.reason):
            record.status = Status.ARCHIVED
    return record


def restore(caller: Caller, operation: operations.Restore) -> MemoryRecord:
    """Make an archived memory active again, or stale if it was stale before. Make a stale memory active.

    Extensions may then make it stale, for example because its entities have changed: only a verification says that it
    is still true. A restored correction supersedes its predecessor again. An archived memory that has a correction
    becomes superseded. Raises Conflict in these cases: the memory is superseded by a correction, another memory has the
    same text, or the predecessor has another correction. Extensions may refuse, too.
    """
    with transaction.atomic():
        record, old = locked_with_predecessor(caller, operation.record_id)
        extensions.check_restore(record)
        successor = active_correction(record)
        if successor and record.status == Status.SUPERSEDED:
            raise superseded_by(caller, successor)
        other_correction = None if successor or old is None else active_correction(old)
        if record.status == Status.ARCHIVED and other_correction and other_correction.pk != record.pk:
            raise Conflict(
                gettext("the original memory already has a newer correction, %(memory)s: change that one instead")
                % {"memory": reference(caller, other_correction)},
                field="id",
            )
        duplicate = None if successor else find_duplicate(record)
        if duplicate:
            raise Conflict(
                gettext("the same text is already remembered, as %(memory)s: use that memory")
                % {"memory": duplicate.pk.hex},
                field="id",
            )
        with revised(caller, record, "restore", operation.reason):
            if successor:  # it was corrected before it was archived
                mark_superseded(record, successor)
            elif record.status == Status.STALE:
                activate(record)
            else:
                reactivate(record)
        if old and old.status in IN_USE:
            with revised(caller, old, "supersede", "its correction was restored"):
                mark_superseded(old, record)
    if record.embedding_text_hash is None:
        indexing.enqueue("memory", [record.pk], Trigger.WRITE)
    return with_current_status(record)


def share(caller: Caller, operation: operations.Share) -> MemoryRecord:
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        extensions.check_share(record)
        with revised(caller, record, "share", operation.reason):
            record.visibility = operation.visibility
    return record


def reassign(caller: Caller, operation: operations.Reassign) -> MemoryRecord:
    """Move a memory to another persona. Unless the memory is private, the members of that persona may read it.

    The owner of the memory may move it to any persona that the owner holds. Admins may move it to any persona.
    """
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        persona = Persona.objects.filter(name=operation.persona).first()
        if persona is None or not (caller.is_admin or persona.name in caller.personas):
            raise NotFound(
                gettext("no persona %(persona)r available to you") % {"persona": operation.persona}, field="persona"
            )
        if not caller.is_admin:
            extensions.check_share(record)
        is_living = record.status in IN_USE
        if is_living and (duplicate := find_duplicate(record, persona.name)):
            raise Conflict(
                gettext("that persona already has the same text, as %(duplicate)s") % {"duplicate": duplicate.pk.hex},
                field="persona",
            )
        with revised(caller, record, "reassign", operation.reason):
            record.persona = persona.name
    return record


def mark_stale(
    caller: Caller, *, record_id: UUID | str, reason: str, unchanged_since: datetime | None = None
) -> MemoryRecord:
    """Mark an active memory as stale because an entity it mentions has changed. By default, recall leaves it out.

    Raises Conflict if the memory is not active, or was changed after `unchanged_since`, its `updated_at` when the
    entity was compared.
    """
    with transaction.atomic():
        record = locked(caller, record_id)
        require_unchanged(record, unchanged_since)
        if record.status != Status.ACTIVE:
            raise Conflict(
                gettext("is %(status)s: only an active memory can go stale") % {"status": record.status}, field="id"
            )
        with revised(caller, record, "mark_stale", reason):
            record.status = Status.STALE
            record.stale_reason = reason
            record.stale_at = timezone.now()
    return record


def verify(caller: Caller, operation: operations.Verify) -> MemoryRecord:
    """Record that a person has checked a memory and found it true. A stale memory becomes active again.

    The verification is about the memory's present text, entities and readers.
    """
    with transaction.atomic():
        record = locked_to_verify(caller, operation.record_id)
        require_in_use(caller, record)
        rules.require_not_ended(record)
        with revised(caller, record, "verify", operation.note):
            activate(record)
            record.last_verified_at = timezone.now()
        record_verification(caller, record, record.last_verified_at)
    return record


def choose_attachment(caller: Caller, operation: operations.ChooseAttachment) -> MemoryRecord:
    """Set when a memory is attached to tool responses unasked. Only its owner or an admin may.

    `automatic` attaches a quiet memory again, and counts its use anew. Choosing what holds already changes nothing.
    """
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        with revised(caller, record, "choose_attachment", operation.reason):
            if operation.attachment == Attachment.AUTOMATIC and (
                record.is_quiet or record.attachment != operation.attachment
            ):
                record.counted_from = timezone.now()
            record.attachment = operation.attachment
            record.quiet_at = None
    return record


def dismiss_entity(caller: Caller, operation: operations.DismissEntity) -> MemoryRecord:
    """Remove an entity that was detected in the text. It is not detected again, also not in corrections of the memory.

    Raises NotFound if the entity is not among the detected ones, for example because the text has changed.
    """
    with transaction.atomic():
        record = locked(caller, operation.record_id)
        if operation.urn not in record.detected_urns:
            raise NotFound(gettext("was not detected in the text"), field="urn")
        with revised(caller, record, "dismiss_entity", ""):
            record.dismissed_urns = [*record.dismissed_urns, operation.urn]
    return record


# -- shared steps ----------------------------------------------------------------------------------------


def with_editor(caller: Caller, owner_of: MemoryRecord, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata with the caller's address as EDITED_BY, or without EDITED_BY if the caller is the owner."""
    remaining = {name: value for name, value in metadata.items() if name != EDITED_BY}
    return remaining if caller.email == owner_of.created_by else {**remaining, EDITED_BY: caller.email}


def _with_session(caller: Caller, metadata: dict[str, Any]) -> dict[str, Any]:
    return {**metadata, SESSION_KEY: caller.session} if caller.session else metadata


def _describe_differences(existing: MemoryRecord, fields: Mapping[str, Any]) -> str:
    # Nothing was saved, so the caller must not expect the new values.
    compared = [name for name in EDITABLE if name not in ("content", "language")]
    differences = [name for name in compared if fields[name] != getattr(existing, name) and fields[name] not in UNSAID]
    details = ", ".join(f"{name} is {_shown(getattr(existing, name))}" for name in differences)
    kept = f"kept as it was ({details}): update it to change that" if differences else ""
    return "; ".join(filter(None, [_stale_note(existing), rules.outside_note(existing), kept]))


def _stale_note(existing: MemoryRecord) -> str:
    if existing.status != Status.STALE:
        return ""
    return gettext("it is stale, so it is not recalled: verify it if it is true (%(reason)s)") % {
        "reason": existing.stale_reason
    }


def _shown(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)


def index_now(caller: Caller, record: MemoryRecord) -> Remembered:
    """Embed a saved record and find similar memories. If the embedder is unavailable, queue an index job instead."""
    try:
        vectors = indexing.index("memory", {record.pk: record.spoken}).get(record.pk)
    except embedding.EmbedderUnavailable as error:
        return _with_similar(caller, record, None, str(error))
    if vectors is None:  # somebody has changed the text since, and their write embeds it
        return Remembered(record)
    return _with_similar(caller, record, vectors, "")


def _encode(text: str) -> tuple[Stamped | None, str]:
    try:
        (encoded,), model = passages.encode([text])
    except embedding.EmbedderUnavailable as error:
        return None, str(error)
    return Stamped(encoded, model), ""


def _with_similar(caller: Caller, record: MemoryRecord, vectors: Vectors | None, problem: str) -> Remembered:
    if vectors is None:
        indexing.enqueue("memory", [record.pk], Trigger.WRITE)
        return Remembered(record, note=f"saved; {problem}; only word search finds it until its vector is computed")
    similar = similar_to(caller, vectors, threshold=settings.NEAR_DUPLICATE_COSINE, besides=record)
    return Remembered(record, similar=with_differences(similar, record.content))
