"""Language detection for stored memories without a language."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from memories.models import MemoryRecord
from memories.texts.language import language_of

Detected = tuple[UUID, str, str]  # a memory's id, its text when it was read, and the language of that text

BATCH = 500  # number of memories saved in one transaction


def backfill_languages() -> int:
    rows = MemoryRecord.objects.filter(language="").values_list("pk", "content")
    count = 0
    detected: list[Detected] = []
    for pk, content in rows.iterator(chunk_size=BATCH):
        if language := language_of(content):
            detected.append((pk, content, language))
        if len(detected) == BATCH:
            count += _save(detected)
            detected = []
    return count + _save(detected)


def _save(detected: list[Detected]) -> int:
    count = 0
    with transaction.atomic():
        # sorted, so that two runs lock the rows in the same order
        for pk, content, language in sorted(detected):
            # A memory that was edited since it was read has got the language of its new text.
            count += MemoryRecord.objects.filter(pk=pk, language="", content=content).update(language=language)
    return count
