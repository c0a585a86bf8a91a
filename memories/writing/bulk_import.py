"""Bulk import of memories, embedded in batches and written in few statements."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import transaction

from memories import embedding
from memories.contract.errors import Invalid
from memories.identity.caller import Caller, require_user
from memories.models import MemoryRecord
from memories.models.index_job import Trigger
from memories.operations import Remember
from memories.retrieval import indexing, passages
from memories.retrieval.language import language_of
from memories.retrieval.passages import Stamped
from memories.writing.duplicates import lock_duplicates, normalized_key
from memories.writing.revision import save_many

BATCH = 200  # number of memories saved in one transaction
AHEAD = 2  # number of batches that are encoded in advance


def remember_many(*, caller: Caller, facts: Sequence[Mapping[str, Any]]) -> list[tuple[MemoryRecord, bool]]:
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


def _read(number: int, fact: Mapping[str, Any]) -> Remember:
    try:
        return Remember.read(fact)
    except Invalid as error:
        raise Invalid(error.fault, field=f"facts[{number}].{error.field}", allowed=error.allowed) from None


def _save(
    caller: Caller, operations: Sequence[Remember], encoded: Sequence[passages.Encoded], model: str
) -> list[tuple[MemoryRecord, bool]]:
    languages = [operation.language or language_of(operation.content) for operation in operations]
    results: list[tuple[MemoryRecord, bool]] = []
    new_records: list[tuple[MemoryRecord, Stamped | None]] = []
    with transaction.atomic():
        record_of = lock_duplicates(caller, [operation.content for operation in operations])
        for position, operation in enumerate(operations):
            key = normalized_key(operation.content)
            record = record_of.get(key)
            if record is None:
                fields = operation.values() | {"language": languages[position]}
                record = MemoryRecord(created_by=caller.email, persona=caller.persona, **fields)
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
