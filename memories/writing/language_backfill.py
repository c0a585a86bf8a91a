"""The language of memories that were kept before it was told."""

from __future__ import annotations

from django.db import transaction

from memories.models import MemoryRecord
from memories.retrieval.language import language_of

TOGETHER = 500


def backfill_languages() -> int:
    """Tells the language of each memory that has none, from its text; returns how many have one now."""
    rows = MemoryRecord.objects.filter(language="").values_list("pk", "content")
    count = 0
    together: list[MemoryRecord] = []
    for pk, content in rows.iterator(chunk_size=TOGETHER):
        if language := language_of(content):
            together.append(MemoryRecord(pk=pk, language=language))
        if len(together) == TOGETHER:
            count += _save(together)
            together = []
    return count + _save(together)


def _save(records: list[MemoryRecord]) -> int:
    with transaction.atomic():
        return MemoryRecord.objects.bulk_update(records, ["language"]) if records else 0
