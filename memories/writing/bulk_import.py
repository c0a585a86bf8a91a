"""Many new memories at once: embedded in batches, written in few statements."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import transaction

from memories import embedding
from memories.contract.errors import Forbidden, Invalid
from memories.identity.caller import Caller
from memories.models import MemoryRecord
from memories.models.index_job import Trigger
from memories.operations import Remember
from memories.retrieval import indexing, passages
from memories.retrieval.language import language_of
from memories.retrieval.passages import Stamped
from memories.writing.duplicates import lock_duplicates, normalized_key
from memories.writing.revision import save_many

TOGETHER = 200  # memories of one transaction
AHEAD = 2  # parts whose vectors are made before their turn


def remember_many(*, caller: Caller, facts: Sequence[Mapping[str, Any]]) -> list[tuple[MemoryRecord, bool]]:
    """Keeps facts, each with the fields of `remember`; for each the record, and whether it was there already.

    All are checked before any is kept: raises Invalid naming `facts[n]`. Near-duplicates are not looked for. Without
    embedder, jobs are left for later. What was kept stays if the process ends in the middle; a repetition skips it.
    """
    if not caller.email:
        raise Forbidden("this connection has no identity, so nothing can be owned")
    operations = [_read(number, fact) for number, fact in enumerate(facts)]
    parts = [operations[start : start + TOGETHER] for start in range(0, len(operations), TOGETHER)]
    answers: list[tuple[MemoryRecord, bool]] = []
    with ThreadPoolExecutor(1, thread_name_prefix="encoder") as ahead:  # one part is encoded while another is saved
        encodings = deque(ahead.submit(_encoded, part) for part in parts[:AHEAD])
        for number, part in enumerate(parts):
            if number + AHEAD < len(parts):
                encodings.append(ahead.submit(_encoded, parts[number + AHEAD]))
            answers += _keep(caller, part, *encodings.popleft().result())
    return answers


def _read(number: int, fact: Mapping[str, Any]) -> Remember:
    try:
        return Remember.read(fact)
    except Invalid as error:
        raise Invalid(error.fault, field=f"facts[{number}].{error.field}", allowed=error.allowed) from None


def _keep(
    caller: Caller, operations: Sequence[Remember], encoded: Sequence[passages.Encoded], model: str
) -> list[tuple[MemoryRecord, bool]]:
    languages = [operation.language or language_of(operation.content) for operation in operations]
    answers: list[tuple[MemoryRecord, bool]] = []
    news: list[tuple[MemoryRecord, Stamped | None]] = []
    with transaction.atomic():
        record_of = lock_duplicates(caller, [operation.content for operation in operations])
        for position, operation in enumerate(operations):
            key = normalized_key(operation.content)
            record = record_of.get(key)
            if record is None:
                fields = operation.values() | {"language": languages[position]}
                record = MemoryRecord(created_by=caller.email, persona=caller.persona, **fields)
                news.append((record, Stamped(encoded[position], model) if encoded else None))
            answers.append((record, key in record_of))
            record_of[key] = record
        save_many(news)
    if not encoded:
        indexing.enqueue("memory", [record.pk for record, _ in news], Trigger.WRITE)
    return answers


def _encoded(operations: Sequence[Remember]) -> tuple[list[passages.Encoded], str]:
    try:
        return passages.encode([operation.content for operation in operations], waiting=embedding.Waiting.BATCH)
    except embedding.EmbedderUnavailable:
        return [], ""
