"""Many new memories at once: embedded in batches, written in few statements."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django.db import connection, transaction
from django.db.models import TextField, Value

from memories import embedding
from memories.access import Caller
from memories.contract.errors import Forbidden, Invalid
from memories.models import MemoryRecord, Status
from memories.models.fields import ContentKey
from memories.models.index_job import Trigger
from memories.operations import Remember
from memories.retrieval import indexing, passages
from memories.retrieval.languages import language_of
from memories.retrieval.passages import Stamped
from memories.writing.revising import save_many

TOGETHER = 200  # memories of one transaction
AHEAD = 2  # parts whose vectors are made before their turn


def remember_many(*, caller: Caller, facts: Sequence[Mapping[str, Any]]) -> list[tuple[MemoryRecord, bool]]:
    """Keeps facts, each with the fields of `remember`; for each the record, and whether it was there already.

    All are checked before any is kept: raises Invalid naming `facts[n]`. Near-duplicates are not looked for. Without
    embedder, jobs are left for later. What was kept stays if the process ends in the middle; a repetition skips it.
    """
    if not caller.email:
        raise Forbidden("this connection has no identity, so nothing can be owned")
    asks = [_read(number, fact) for number, fact in enumerate(facts)]
    parts = [asks[start : start + TOGETHER] for start in range(0, len(asks), TOGETHER)]
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
    caller: Caller, asks: Sequence[Remember], encoded: Sequence[passages.Encoded], model: str
) -> list[tuple[MemoryRecord, bool]]:
    languages = [ask.language or language_of(ask.content) for ask in asks]
    answers: list[tuple[MemoryRecord, bool]] = []
    news: list[tuple[MemoryRecord, Stamped | None]] = []
    with transaction.atomic():
        record_of = _same_texts(caller, [ask.content for ask in asks])
        for position, ask in enumerate(asks):
            key = _key(ask.content)
            record = record_of.get(key)
            if record is None:
                fields = ask.values() | {"language": languages[position]}
                record = MemoryRecord(created_by=caller.email, persona=caller.persona, **fields)
                news.append((record, Stamped(encoded[position], model) if encoded else None))
            answers.append((record, key in record_of))
            record_of[key] = record
        save_many(news)
    if not encoded:
        indexing.enqueue("memory", [record.pk for record, _ in news], Trigger.WRITE)
    return answers


def _encoded(asks: Sequence[Remember]) -> tuple[list[passages.Encoded], str]:
    try:
        return passages.encode([ask.content for ask in asks], waiting=embedding.Waiting.BATCH)
    except embedding.EmbedderUnavailable:
        return [], ""


def _key(text: str) -> str:
    return " ".join(text.casefold().split())


def _same_texts(caller: Caller, texts: Sequence[str]) -> dict[str, MemoryRecord]:
    """The living records of this owner and persona with one of these texts, by their key; concurrent callers wait for
    each other, in one order."""
    turnstiles = sorted({f"{caller.email} {_key(text)}" for text in texts})
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(h) FROM (SELECT DISTINCT hashtextextended(t, 0) AS h"
            " FROM unnest(%s::text[]) AS t ORDER BY h) locks",
            [turnstiles],
        )
    rows = MemoryRecord.objects.visible_to(caller).facts().defer("search")
    rows = rows.filter(created_by=caller.email, persona=caller.persona, status__in=[Status.ACTIVE, Status.STALE])
    keys = [ContentKey(Value(text, output_field=TextField())) for text in texts]
    return {_key(row.content): row for row in rows.filter(content_key__in=keys).order_by("-created_at")}
