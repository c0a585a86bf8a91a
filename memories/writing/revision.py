"""Steps shared by the functions that change memories: check permission, lock, save, keep the earlier state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity, prepared_statements
from foundation.operations.errors import Forbidden, NotFound
from foundation.operations.fields import Id, Reason
from foundation.operations.operation import validate
from foundation.operations.secrets import states_secret
from foundation.people.caller import Caller
from memories import extensions
from memories.models import MemoryRecord, MemoryRevision, Passage, Status, Tier, Visibility
from memories.models.verification import VERIFIED_FIELDS
from memories.portability import to_json
from memories.queries import open_reports, unresolved_marks
from memories.retrieval.passages import Stamped, keep, stamp_of
from memories.use.citations.changes import note_change
from memories.writing.entity_detection import detect_entities
from memories.writing.verification import notify_outdated, verifiers_of

# Columns of a memory that a revision does not keep in `details`. A column that is not listed is kept when it changes.
NOT_IN_DETAILS = frozenset(
    {
        "content", "status", "visibility",  # the revision has columns of its own for them
        "id", "created_at",  # never change
        "updated_at",  # changes with every revision, which has valid_to
        "embedding_model", "embedding_text_hash", "detected_urns", "entities_detected_at",  # derived from the text
        "access_count", "last_accessed_at", "counted_from",  # usage counters, which change without a revision
    }
)  # fmt: skip
DETECTION_FIELDS = ("content", "entity_urns", "dismissed_urns")  # fields that detected entities depend on
COUNTED_FIELDS = ("content", "entity_urns")  # a change of one of these starts the count of attachments anew
STATEMENT_FIELDS = {"content", "entity_urns", "related_columns"}  # the text of a memory, and what it is about
READER_FIELDS = {"visibility", "persona", "created_by"}  # fields that decide who may read the memory
WIDTH: dict[str, int] = {Visibility.PRIVATE: 0, Visibility.PERSONA: 1, Visibility.EVERYONE: 2}


def can_review(caller: Caller, record: MemoryRecord) -> bool:
    """Return whether the caller may decide about a memory.

    Its owner and admins always may. Curators of its persona may if the memory is stale and not private.
    """
    if caller.can_edit_for(record.created_by):
        return True
    shared = record.visibility != Visibility.PRIVATE
    return record.status == Status.STALE and shared and caller.can_review_for(record.persona)


def may_verify(caller: Caller, record: MemoryRecord) -> bool:
    """Return whether the caller, who can read the memory, may say that it is true.

    Whoever may decide about it may, and curators of its persona. Other readers may while it is shared, active and
    doubted by nobody: they can't overrule the catalog, or the doubts of another reader.
    """
    if can_review(caller, record):
        return True
    if record.visibility == Visibility.PRIVATE:
        return False
    return caller.can_review_for(record.persona) or (record.status == Status.ACTIVE and not is_doubted(record))


def is_doubted(record: MemoryRecord) -> bool:
    """Return whether a mark as wrong, or a report as wrong or outdated, is still open."""
    doubts = Q(Exists(unresolved_marks())) | Q(Exists(open_reports().filter(record=OuterRef("pk"))))
    return MemoryRecord.objects.filter(doubts, pk=record.pk).exists()


def locked_to_verify(caller: Caller, record_id: UUID | str) -> MemoryRecord:
    """Return the record, locked for update. Raises NotFound, and Forbidden if the caller may not verify it."""
    record = _locked(caller, record_id)
    if not may_verify(caller, record):
        raise Forbidden(
            gettext(
                "is stale, private or doubted by a reader: its owner, a curator of its persona or an admin decides"
            ),
            field="id",
        )
    return record


def locked(caller: Caller, record_id: UUID | str, *, deciding: bool = False) -> MemoryRecord:
    """Return the record, locked for update.

    Raises NotFound if the caller may not see it, and Forbidden if the caller may not change it. With `deciding`,
    curators may change it too (see `can_review`).
    """
    record = _locked(caller, record_id)
    if not (can_review(caller, record) if deciding else caller.can_edit_for(record.created_by)):
        if record.status == Status.ARCHIVED:  # it can be neither corrected nor marked
            raise Forbidden(
                gettext("belongs to another user, and is archived: its owner or an admin can restore it"), field="id"
            )
        raise Forbidden(
            gettext(
                "belongs to another user: only its owner or an admin can change it. Propose a correction "
                "(capture_insight with supersedes), or mark it as wrong (memory_manage feedback)"
            ),
            field="id",
        )
    return record


def _locked(caller: Caller, record_id: UUID | str) -> MemoryRecord:
    pk = validate(Id, record_id, "id")
    record: MemoryRecord | None = MemoryRecord.objects.visible_to(caller).select_for_update().filter(pk=pk).first()
    if record is None:
        raise NotFound(gettext("no such memory"), field="id")
    return record


def stored_columns() -> list[Any]:
    """Return the columns of a memory that PostgreSQL does not compute."""
    return [field for field in MemoryRecord._meta.concrete_fields if not field.generated]


@identity.service("history")
def last_revision(record_id: UUID, **conditions: Any) -> MemoryRevision | None:
    """Return a record's last revision that fits the conditions, even if the caller could not read its state."""
    return MemoryRevision.objects.filter(record=record_id, **conditions).order_by("-valid_to", "-id").first()


@contextmanager
def revised(
    caller: Caller, record: MemoryRecord, change: str, reason: str, moment: datetime | None = None
) -> Iterator[None]:
    """Save the changes that the block makes to the locked record, and keep the earlier state as a revision.

    If the block changes nothing, nothing is written. If the text changes, its passages and vectors are deleted.
    Extensions are notified of every change, and also if one of STATEMENT_FIELDS was changed, if the memory became
    stale, if a verification no longer counts, and if readers may have lost access.
    """
    reason = validate(Reason, reason, "reason")
    columns = stored_columns()
    before = {f.attname: getattr(record, f.attname) for f in columns}
    yield
    if any(getattr(record, name) != before[name] for name in DETECTION_FIELDS):
        detect_entities([record])
    if record.content != before["content"]:
        keep_secret_private(record)
    record.unsettled = record.unsettled and record.lacks_entities
    if any(getattr(record, name) != before[name] for name in COUNTED_FIELDS):
        record.quiet_at = None
        record.counted_from = moment or timezone.now()
    changed = [f for f in columns if getattr(record, f.attname) != before[f.attname]]
    if not changed:
        return
    if record.content != before["content"]:
        record.embedding_model = ""
        record.embedding_text_hash = None
        Passage.objects.filter(record=record).delete()
        changed += [f for f in columns if f.name.startswith("embedding")]
    now = moment or timezone.now()
    last = last_revision(record.pk)
    MemoryRevision.objects.create(
        record=record,
        valid_from=last.valid_to if last else before["created_at"],
        valid_to=now,
        content=before["content"],
        status=before["status"],
        visibility=before["visibility"],
        details={f.attname: to_json(before[f.attname]) for f in changed if f.name not in NOT_IN_DETAILS},
        change=change,
        changed_by=caller.email,
        reason=reason,
    )
    record.updated_at = now
    names = {f.name for f in changed}
    verifiers = verifiers_of(record) if names & VERIFIED_FIELDS else set()
    record.save(update_fields=names | {"updated_at"})
    if names & STATEMENT_FIELDS:
        extensions.record_saved(record, created=False)
    extensions.record_changed(record, change, before)
    note_change(caller, record, before)
    if verifiers:
        notify_outdated(caller, record, verifiers)
    if "status" in names and record.status == Status.STALE:
        extensions.record_stale(record, caller)
    if names & READER_FIELDS and not _is_only_wider(names, before, record):
        extensions.access_narrowed([record.pk])


def save_new(record: MemoryRecord, encoded: Stamped | None = None) -> MemoryRecord:
    """Save a new record, with its passages if they are already encoded, and notify the extensions.

    Every new record is saved by this function or by `save_many`, so that extensions are notified of all new records.
    """
    detect_entities([record])
    _complete(record, encoded)
    prepared_statements.insert([record])
    if encoded:
        keep({record.pk: encoded.passages}, [record.pk] if record.tier == Tier.SHORT_TERM else [])
    extensions.record_saved(record, created=True)
    return record


def save_many(records: Sequence[tuple[MemoryRecord, Stamped | None]]) -> None:
    """Save new records like `save_new`, in few statements."""
    detect_entities([record for record, _ in records])
    for record, encoded in records:
        _complete(record, encoded)
    prepared_statements.insert([record for record, _ in records])
    turns = {record.pk for record, _ in records if record.tier == Tier.SHORT_TERM}
    keep({record.pk: encoded.passages for record, encoded in records if encoded}, turns)
    for record, _ in records:
        extensions.record_saved(record, created=True)


def _complete(record: MemoryRecord, encoded: Stamped | None) -> None:
    """Set the columns of a new record that follow from its text."""
    record.unsettled = record.unsettled and record.lacks_entities
    keep_secret_private(record)
    for name, value in (stamp_of(record.spoken, encoded.model) if encoded else {}).items():
        setattr(record, name, value)


def keep_secret_private(record: MemoryRecord) -> None:
    """Make a record private whose text states a password, a token or a key. Its owner may share it all the same."""
    if record.visibility != Visibility.PRIVATE and states_secret(record.content):
        record.visibility = Visibility.PRIVATE
        record.was_made_private = True


def _is_only_wider(names: set[str], before: dict[str, Any], record: MemoryRecord) -> bool:
    return names & READER_FIELDS == {"visibility"} and WIDTH[record.visibility] > WIDTH[before["visibility"]]
