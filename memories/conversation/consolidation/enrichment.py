"""Enrichment of new long-term memories with importance, summary, tags, type and the catalog entities they mention.

If a new memory is similar to an older one, the older one becomes more important, or a merge of the two is proposed.

A worker claims jobs and classifies the memories outside of any transaction. All changes for one memory and the end of
its job are saved in one transaction. If a worker is killed, its unfinished memories are classified again later. No
change is made twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Least
from pgvector.django import CosineDistance

from foundation.operations.fields import MAX_URNS
from memories import extensions
from memories.conversation import heuristics
from memories.conversation.consolidation import classification
from memories.conversation.heuristics import WORD, TurnReading
from memories.conversation.models import MergeProposal
from memories.conversation.turns import COMPLETED, ENRICHMENT, PENDING
from memories.models import IndexJob, MemoryRecord, Passage, Status, Tier
from memories.models.index_job import JobStatus, Trigger
from memories.retrieval import indexing
from memories.texts.comparison import is_same_fact
from memories.writing.entity_detection import detect_entities

ATTEMPTS = 3  # of a language model, after which a memory stays unclassified
# A new long-term memory is compared with the most similar older one of the same owner. From REINFORCE_COSINE on, the
# importance of the older memory is raised. From MERGE_COSINE on, a merge of the two is proposed if both share at least
# MERGE_WORDS of the words of the text that has fewer. On the scale (1 + cosine) / 2 the cosines equal .85 and .70.
REINFORCE_COSINE = 0.70
MERGE_COSINE = 0.40
MERGE_WORDS = 0.5

FAILED = "failed"
BATCH = 50
REINFORCEMENT = 1.1  # factor on the importance of a memory that is repeated
MAX_SIMILAR_PASSAGES = 5  # maximum number of nearest passages whose memories are considered


@dataclass(frozen=True)
class SimilarMemory:
    record: MemoryRecord
    cosine: float


def enrich_batch(worker: str) -> tuple[int, int]:
    """Claim and run one batch of jobs; return how many were completed, and how many were put back or failed."""
    jobs = indexing.claim(worker, BATCH, [ENRICHMENT])
    records = MemoryRecord.objects.filter(pk__in=[job.source_id for job in jobs]).defer("search").in_bulk()
    completed = failed = 0
    for job in jobs:
        record = records.get(job.source_id)
        try:
            result = classification.read(record.content) if record else None
            urns = mentioned_entities(record.content) if record else []
        except classification.ReaderUnavailable as error:
            indexing.put_back(worker, [job], str(error), ATTEMPTS)
            if job.attempts >= ATTEMPTS:
                MemoryRecord.objects.filter(pk=job.source_id).update(enrichment_status=FAILED)
            failed += 1
        else:
            completed += _save_result(worker, job, result, urns)
    return completed, failed


def mentioned_entities(text: str) -> list[str]:
    mentions = [mention for extension in extensions.EXTENSIONS.all() for mention in extension.entities_in([text])[0]]
    return list(dict.fromkeys(mention.urn for mention in mentions))


def reopen() -> int:
    """Open jobs for memories that wait for enrichment and have neither an open job nor an unresolved failed one.

    Returns the number of these memories. One call handles at most 1,000.
    """
    pending = MemoryRecord.objects.filter(tier=Tier.LONG_TERM, enrichment_status=PENDING).exclude(
        pk__in=IndexJob.objects.filter(source_kind=ENRICHMENT)
        .filter(Q(status__in=[JobStatus.PENDING, JobStatus.RUNNING]) | Q(status=JobStatus.FAILED, resolved_at=None))
        .values("source_id")
    )
    return indexing.enqueue(ENRICHMENT, pending.values_list("pk", flat=True)[:1_000], Trigger.RECONCILER)


def _save_result(worker: str, job: IndexJob, result: TurnReading | None, urns: Sequence[str]) -> bool:
    """Save the result and close the job. Return False if another worker has taken over the job."""
    with transaction.atomic():
        row = IndexJob.objects.select_for_update().filter(pk=job.pk, worker_id=worker, status=JobStatus.RUNNING)
        if not row.first():
            return False
        rows = MemoryRecord.objects.select_for_update().filter(pk=job.source_id).exclude(enrichment_status=COMPLETED)
        record = rows.defer("search").first()
        if record is not None and result is not None:
            _save(record, result, urns)
            _reinforce_or_propose_merge(record)
        indexing.close(worker, [job])
    return True


def _save(record: MemoryRecord, result: TurnReading, urns: Sequence[str]) -> None:
    before = {
        field.attname: getattr(record, field.attname) for field in record._meta.concrete_fields if not field.generated
    }
    record.importance = result.importance
    record.dimension = result.dimension
    record.summary = record.summary or (result.summary if result.summary != record.content else "")
    record.tags = list(dict.fromkeys([*record.tags, *result.tags]))
    record.entity_urns = list(dict.fromkeys([*record.entity_urns, *urns]))[:MAX_URNS]
    detect_entities([record])  # the entities that are stated now are no longer only detected
    record.enrichment_status = COMPLETED
    fields = ["importance", "dimension", "summary", "tags", "entity_urns", "enrichment_status"]
    record.save(update_fields=[*fields, "detected_urns", "entities_detected_at"])
    extensions.record_saved(record, created=False)
    extensions.record_changed(record, "enrich", before)
    if record.derived_from:
        MemoryRecord.objects.filter(pk=record.derived_from, tier=Tier.SHORT_TERM).update(importance=record.importance)


def _reinforce_or_propose_merge(record: MemoryRecord) -> None:
    """Compare the record with its owner's most similar older memory.

    If the older memory says nearly the same, its importance is raised. If it is less similar and shares enough words,
    a merge is proposed. Memories that differ in a fact are left alone, as they can't both stand in one text.
    """
    older = similar_older_memories(record)
    similar = next((match for match in older if is_same_fact(match.record.content, record.content)), None)
    if similar is None or similar.cosine < MERGE_COSINE:
        return
    if similar.cosine >= REINFORCE_COSINE:
        MemoryRecord.objects.filter(pk=similar.record.pk).update(
            importance=Least(F("importance") * REINFORCEMENT, 1.0), access_count=F("access_count") + 1
        )
    elif common_words(record.content, similar.record.content) >= MERGE_WORDS:
        MergeProposal.objects.get_or_create(
            record=record,
            target=similar.record,
            defaults={"cosine": similar.cosine, "text": merged(similar.record.content, record.content)},
        )


def similar_older_memories(record: MemoryRecord) -> list[SimilarMemory]:
    """Return active long-term memories of the same owner that were last changed before this one, most similar first."""
    vectors = list(Passage.objects.filter(record=record).order_by("start").values_list("vector", flat=True)[:1])
    if not vectors:
        return []
    candidates = Passage.objects.filter(
        record__created_by=record.created_by, record__tier=Tier.LONG_TERM, record__status=Status.ACTIVE
    ).exclude(record=record.pk)
    before = Q(record__updated_at__lt=record.updated_at) | Q(
        record__updated_at=record.updated_at, record__thread_position__lt=record.thread_position or 0
    )
    nearest = (
        candidates.filter(before)
        .annotate(distance=CosineDistance("vector", vectors[0]) + 0.0)
        .order_by("distance", "pk")
    )
    distances: dict[UUID, float] = {}
    for pk, distance in nearest.values_list("record_id", "distance")[:MAX_SIMILAR_PASSAGES]:
        distances.setdefault(pk, float(distance))
    records = MemoryRecord.objects.defer("search").in_bulk(distances)
    return [SimilarMemory(records[pk], 1 - distance) for pk, distance in distances.items() if pk in records]


def common_words(one_text: str, other_text: str) -> float:
    """Return how much the words of two texts overlap, from 0 to 1.

    This is the number of distinct words in both texts, divided by the number of distinct words in the text that has
    fewer. Words of one or two characters are ignored.
    """
    words = [{word.lower() for word in WORD.findall(text) if len(word) > 2} for text in (one_text, other_text)]
    return len(words[0] & words[1]) / (min(len(words[0]), len(words[1])) or 1)


def merged(older_text: str, newer_text: str) -> str:
    """Return the sentences of both texts without repetitions, those of the older text first."""
    sentences = [s.strip() for text in (older_text, newer_text) for s in heuristics.SENTENCES.split(text) if s.strip()]
    return " ".join(dict.fromkeys(sentences))
