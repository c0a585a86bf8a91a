"""New long-term memories get their importance, summary, tags and type, and strengthen or propose to join an older one.

A worker claims jobs, reads outside of any transaction, and writes all that follows of one memory in one transaction
together with the end of its job: a killed worker's memory is read again, and nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Least
from pgvector.django import CosineDistance

from memories import extensions
from memories.contract.fields import MAX_URNS
from memories.conversation import heuristics
from memories.conversation.consolidation import classification
from memories.conversation.heuristics import WORD, Reading
from memories.conversation.models import MergeProposal
from memories.conversation.turns import COMPLETED, ENRICHMENT, PENDING
from memories.models import IndexJob, MemoryRecord, Passage, Status, Tier
from memories.models.index_job import JobStatus, Trigger
from memories.retrieval import indexing

FAILED = "failed"
BATCH = 50
STRONGER = 1.1  # factor on the importance of a memory that is said again
LIKES_LOOKED_AT = 5


@dataclass(frozen=True)
class SimilarMemory:
    record: MemoryRecord
    cosine: float


def enrich_batch(worker: str) -> tuple[int, int]:
    """Claims and does one batch: (memories enriched, put back or failed); (0, 0) when none is due."""
    jobs = indexing.claim(worker, BATCH, [ENRICHMENT])
    records = MemoryRecord.objects.filter(pk__in=[job.source_id for job in jobs]).defer("search").in_bulk()
    completed = failed = 0
    for job in jobs:
        record = records.get(job.source_id)
        try:
            result = classification.read(record.content) if record else None
            urns = subjects_of(record.content) if record else []
        except classification.ReaderUnavailable as error:
            indexing.put_back(worker, [job], str(error), settings.ENRICHMENT_ATTEMPTS)
            if job.attempts >= settings.ENRICHMENT_ATTEMPTS:
                MemoryRecord.objects.filter(pk=job.source_id).update(enrichment_status=FAILED)
            failed += 1
        else:
            completed += _finish(worker, job, result, urns)
    return completed, failed


def subjects_of(text: str) -> list[str]:
    """The catalog entities that a text speaks of, so that it comes to mind where one of them is named."""
    return list(dict.fromkeys(urn for extension in extensions.registered() for urn in extension.entities_in(text)))


def reopen() -> int:
    """Opens jobs for memories that wait for enrichment and have none: a retry, or a job that was lost."""
    waiting = MemoryRecord.objects.filter(tier=Tier.LONG_TERM, enrichment_status=PENDING).exclude(
        pk__in=IndexJob.objects.filter(source_kind=ENRICHMENT)
        .filter(Q(status__in=[JobStatus.PENDING, JobStatus.RUNNING]) | Q(status=JobStatus.FAILED, resolved_at=None))
        .values("source_id")
    )
    return indexing.enqueue(ENRICHMENT, waiting.values_list("pk", flat=True)[:1_000], Trigger.RECONCILER)


def _finish(worker: str, job: IndexJob, result: Reading | None, urns: Sequence[str]) -> bool:
    """Writes what was read, once: whoever lost the job meanwhile writes nothing."""
    with transaction.atomic():
        row = IndexJob.objects.select_for_update().filter(pk=job.pk, worker_id=worker, status=JobStatus.RUNNING)
        if not row.first():
            return False
        rows = MemoryRecord.objects.select_for_update().filter(pk=job.source_id).exclude(enrichment_status=COMPLETED)
        record = rows.defer("search").first()
        if record is not None and result is not None:
            _write(record, result, urns)
            _evolve(record)
        indexing.close(worker, [job])
    return True


def _write(record: MemoryRecord, result: Reading, urns: Sequence[str]) -> None:
    record.importance, record.dimension = result.importance, result.dimension
    record.summary = record.summary or (result.summary if result.summary != record.content else "")
    record.tags = list(dict.fromkeys([*record.tags, *result.tags]))
    record.entity_urns = list(dict.fromkeys([*record.entity_urns, *urns]))[:MAX_URNS]
    record.enrichment_status = COMPLETED
    record.save(update_fields=["importance", "dimension", "summary", "tags", "entity_urns", "enrichment_status"])
    for extension in extensions.registered():
        extension.record_saved(record, created=False)
    if record.derived_from:
        MemoryRecord.objects.filter(pk=record.derived_from, tier=Tier.SHORT_TERM).update(importance=record.importance)


def _evolve(record: MemoryRecord) -> None:
    """The nearest older memory of the same person is strengthened, or a merge with it is proposed."""
    like = next(iter(older_likes(record)), None)
    if like is None or like.cosine < settings.MERGE_COSINE:
        return
    if like.cosine >= settings.REINFORCE_COSINE:
        MemoryRecord.objects.filter(pk=like.record.pk).update(
            importance=Least(F("importance") * STRONGER, 1.0), access_count=F("access_count") + 1
        )
    elif common_words(record.content, like.record.content) >= settings.MERGE_WORDS:
        MergeProposal.objects.get_or_create(
            record=record,
            target=like.record,
            defaults={"cosine": like.cosine, "text": merged(like.record.content, record.content)},
        )


def older_likes(record: MemoryRecord) -> list[SimilarMemory]:
    """The owner's long-term memories that were stored before this one and are like it, the likest first; never
    itself."""
    vectors = list(Passage.objects.filter(record=record).order_by("start").values_list("vector", flat=True)[:1])
    if not vectors:
        return []
    candidates = Passage.objects.filter(
        record__created_by=record.created_by, record__tier=Tier.LONG_TERM, record__status=Status.ACTIVE
    ).exclude(record=record.pk)
    before = Q(record__updated_at__lt=record.updated_at) | Q(
        record__updated_at=record.updated_at, record__thread_position__lt=record.thread_position or 0
    )
    near = (
        candidates.filter(before)
        .annotate(distance=CosineDistance("vector", vectors[0]) + 0.0)
        .order_by("distance", "pk")
    )
    distances: dict[UUID, float] = {}
    for pk, distance in near.values_list("record_id", "distance")[:LIKES_LOOKED_AT]:
        distances.setdefault(pk, float(distance))
    records = MemoryRecord.objects.defer("search").in_bulk(distances)
    return [SimilarMemory(records[pk], 1 - distance) for pk, distance in distances.items() if pk in records]


def common_words(one_text: str, other_text: str) -> float:
    """The share of the shorter text's words that the other has too, 0 to 1."""
    words = [{word.lower() for word in WORD.findall(text) if len(word) > 2} for text in (one_text, other_text)]
    return len(words[0] & words[1]) / (min(len(words[0]), len(words[1])) or 1)


def merged(older_text: str, newer_text: str) -> str:
    """Both texts' sentences, each once, the older first."""
    sentences = [s.strip() for text in (older_text, newer_text) for s in heuristics.SENTENCES.split(text) if s.strip()]
    return " ".join(dict.fromkeys(sentences))
