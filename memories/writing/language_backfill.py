"""Language detection for stored memories without a language."""

from __future__ import annotations

from django.db import transaction

from memories.models import MemoryRecord
from memories.retrieval.language import language_of

BATCH = 500  # number of memories saved in one transaction


def backfill_languages() -> int:
    rows = MemoryRecord.objects.filter(language="").values_list("pk", "content")
    count = 0
    detected: list[MemoryRecord] = []
    for pk, content in rows.iterator(chunk_size=BATCH):
        if language := language_of(content):
            detected.append(MemoryRecord(pk=pk, language=language))
        if len(detected) == BATCH:
            count += _save(detected)
            detected = []
    return count + _save(detected)


def _save(records: list[MemoryRecord]) -> int:
    with transaction.atomic():
        return MemoryRecord.objects.bulk_update(records, ["language"]) if records else 0
