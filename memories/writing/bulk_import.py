"""Bulk import of memories, embedded in batches and written in few statements."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation import embedding
from foundation.database import identity
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller, require_user
from memories import extensions
from memories.models import Citation, Feedback, MemoryRecord, MemoryRevision, Report, Status
from memories.models.index_job import Trigger
from memories.operations import Remember
from memories.retrieval import indexing, passages
from memories.retrieval.passages import Stamped
from memories.texts.language import language_of
from memories.validity import rules
from memories.validity.scopes.choices import scope_for
from memories.writing import entity_assignment
from memories.writing.exact_duplicates import lock_duplicates, normalized_key
from memories.writing.revision import revised, save_many

BATCH = 200  # number of memories saved in one transaction
# Changes that no person has made.
BY_THE_PRODUCT = ("mark_stale", "mark_fresh", "check_passed", "condition_ended", "condition_renewed")
AHEAD = 2  # number of batches that are encoded in advance


def remember_many(caller: Caller, *, facts: Sequence[Mapping[str, Any]]) -> list[tuple[MemoryRecord, bool]]:
    """Store facts, each with the fields of the operation Remember.

    Return for each fact its record, and whether the same text was already stored. All facts are checked before the
    first is stored. An Invalid error names the field as `facts[n].field`. Near-duplicates are not searched for. If the
    embedder is unavailable, jobs are queued. Batches stored before a crash remain, and a repeated import recognizes
    their facts as duplicates.
    """
    require_user(caller)
    operations = [_read(number, fact) for number, fact in enumerate(facts)]
    batches = [operations[start : start + BATCH] for start in range(0, len(operations), BATCH)]
    results: list[tuple[MemoryRecord, bool]] = []
    with ThreadPoolExecutor(1, thread_name_prefix="encoder") as encoder:  # encodes batches while others are saved
        encodings = deque(encoder.submit(_encode, batch) for batch in batches[:AHEAD])
        for number, batch in enumerate(batches):
            if number + AHEAD < len(batches):
                encodings.append(encoder.submit(_encode, batches[number + AHEAD]))
            results += _save(caller, batch, *encodings.popleft().result())
    return results


def remember_batch(
    caller: Caller, operations: Sequence[Remember], created: Sequence[datetime | None]
) -> list[tuple[MemoryRecord, bool]]:
    """Store facts in one transaction, as `remember_many`, and leave their vectors to workers.

    `created` has the time when each fact was learned, or None for now.
    """
    require_user(caller)
    return _save(caller, operations, [], "", created)


def take_back(caller: Caller, *, record_ids: Sequence[UUID], reason: str, since: datetime) -> dict[UUID, str]:
    """Archive memories that an import has stored, which began at `since`. They are purged after SOFT_DELETE_PURGE_DAYS.

    Return, by id, why a memory stays: somebody has changed it since, or added something to it, or it is gone already.
    """
    staying: dict[UUID, str] = {}
    purge_after = timezone.now() + timedelta(days=settings.SOFT_DELETE_PURGE_DAYS)
    with transaction.atomic():
        rows = MemoryRecord.objects.filter(created_by=caller.email, pk__in=record_ids).select_for_update()
        found = {row.pk: row for row in rows.order_by("pk")}
        changes = last_changes_by_people(record_ids, since)
        additions = additions_to(record_ids, since)
        for pk in record_ids:
            record = found.get(pk)
            if record is None:
                staying[pk] = "is erased, or belongs to somebody else now"
            elif record.status in (Status.ARCHIVED, Status.SUPERSEDED):
                staying[pk] = f"is {record.status} already"
            elif last := changes.get(pk):
                staying[pk] = f"was changed since by {last.changed_by} ({last.change.replace('_', ' ')})"
            elif added := additions.get(pk):
                staying[pk] = added
            else:
                with revised(caller, record, "forget", reason):
                    record.status = Status.ARCHIVED
                    record.purge_after = purge_after
    return staying


@identity.service("history")
def additions_to(record_ids: Sequence[UUID], since: datetime) -> dict[UUID, str]:
    """Return what people and agents have added to memories since then, which an archived memory would lose."""
    rows: dict[str, QuerySet[Any]] = {
        "was cited in a document since": Citation.objects.filter(cited_at__gt=since),
        "was marked by a reader since": Feedback.objects.filter(at__gt=since),
        "was reported by an agent since": Report.objects.filter(at__gt=since),
    }
    rows |= extensions.additions_to_memories(since)
    return {
        pk: said
        for said, found in rows.items()
        for pk in found.filter(record__in=list(record_ids)).values_list("record_id", flat=True)
    }


@identity.service("history")
def last_changes_by_people(record_ids: Sequence[UUID], since: datetime) -> dict[UUID, MemoryRevision]:
    rows = MemoryRevision.objects.filter(record__in=list(record_ids), valid_to__gt=since)
    rows = rows.exclude(change__in=BY_THE_PRODUCT)
    return {row.record_id: row for row in rows.order_by("valid_to", "id")}


def _read(number: int, fact: Mapping[str, Any]) -> Remember:
    try:
        operation = Remember.read(fact)
        if operation.check:  # each would run a statement
            raise Invalid(gettext("is not available in an import"), field="check")
        rules.validity_columns(operation.values())
        return operation
    except Invalid as error:
        raise Invalid(error.fault, field=f"facts[{number}].{error.field}", allowed=error.allowed) from None


def _save(
    caller: Caller,
    operations: Sequence[Remember],
    encoded: Sequence[passages.Encoded],
    model: str,
    created: Sequence[datetime | None] = (),
) -> list[tuple[MemoryRecord, bool]]:
    scopes = {scope: scope_for(caller, scope) for scope in {operation.scope for operation in operations}}
    languages = [operation.language or language_of(operation.content) for operation in operations]
    results: list[tuple[MemoryRecord, bool]] = []
    new_records: list[tuple[MemoryRecord, Stamped | None]] = []
    with transaction.atomic():
        asks = entity_assignment.asks()
        record_of = lock_duplicates(caller, [operation.content for operation in operations])
        for position, operation in enumerate(operations):
            key = normalized_key(operation.content)
            record = record_of.get(key)
            if record is None:
                fields = operation.values() | {"language": languages[position]}
                fields["scope"] = scopes[operation.scope]
                del fields["check"]
                fields |= rules.validity_columns(fields)
                if created and (moment := created[position]):
                    fields |= {"created_at": moment, "updated_at": moment}
                record = MemoryRecord(created_by=caller.email, persona=caller.persona, **fields)
                record.unsettled = asks and record.lacks_entities
                new_records.append((record, Stamped(encoded[position], model) if encoded else None))
            results.append((record, key in record_of))
            record_of[key] = record
        save_many(new_records)
    if not encoded:
        indexing.enqueue("memory", [record.pk for record, _ in new_records], Trigger.WRITE)
    return results


def _encode(operations: Sequence[Remember]) -> tuple[list[passages.Encoded], str]:
    try:
        return passages.encode([operation.content for operation in operations], waiting=embedding.Waiting.BATCH)
    except embedding.EmbedderUnavailable:
        return [], ""
