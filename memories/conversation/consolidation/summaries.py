"""Consolidation of conversation memories before turns expire.

compress  A conversation gets a long-term summary if some of its turns expire within CONSOLIDATE_BEFORE and at
          least MIN_TURNS turns are not summarized yet. The summary has the most important sentences of these turns, in
          their original order.
promote   A turn becomes a long-term memory if its importance is at least PROMOTE_IMPORTANCE, it was used at least
          PROMOTE_USES times, and it was last changed at least PROMOTE_AGE ago. A turn from which a
          long-term memory was derived stays a turn, unless that memory is archived.
forget    An enriched long-term memory is archived if its importance is below FORGET_IMPORTANCE and it was never used,
          changed, shared, verified or corrected. It is purged after SOFT_DELETE_PURGE_DAYS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from foundation import embedding
from foundation.people.caller import system_caller
from memories.conversation import heuristics
from memories.conversation.turns import COMPLETED, ENRICHMENT, PENDING
from memories.models import Dimension, MemoryRecord, MemoryRevision, Passage, Source, Status, Tier, Visibility
from memories.models.index_job import Trigger
from memories.retrieval import indexing, passages
from memories.retrieval.passages import Stamped
from memories.texts.language import language_of
from memories.writing import quotations
from memories.writing.revision import revised, save_many
from memories.writing.text_places import MEMORIES

CONSOLIDATE_BEFORE = timedelta(hours=2)  # how long before a turn expires
PROMOTE_IMPORTANCE = 0.6
PROMOTE_USES = 2
PROMOTE_AGE = timedelta(hours=1)
FORGET_IMPORTANCE = 0.1

COMPRESSED = "compressed"  # enrichment_status of turns that compress() has handled, with or without a summary
MIN_TURNS = 4  # minimum number of turns that are summarized
MAX_SUMMARY = 1_000  # maximum length of a summary in characters
MAX_CONVERSATIONS = 200  # maximum number of conversations that one run summarizes
REASON = "forgotten: of little importance, and never used"


@dataclass(frozen=True)
class Consolidation:
    compressed: int
    promoted: int
    forgotten: int


def consolidate() -> Consolidation:
    return Consolidation(compress(), promote(), forget())


def compress() -> int:
    soon = timezone.now() + CONSOLIDATE_BEFORE
    turns = MemoryRecord.objects.filter(tier=Tier.SHORT_TERM, status=Status.ACTIVE, enrichment_status="")
    due = turns.filter(expires_at__lte=soon).order_by().values_list("created_by", "conversation_id").distinct()
    return sum(_compress(owner, conversation) for owner, conversation in due[:MAX_CONVERSATIONS])


def promote() -> int:
    now = timezone.now()
    long_term_copy = MemoryRecord.objects.filter(derived_from=OuterRef("pk")).exclude(status=Status.ARCHIVED)
    due = MemoryRecord.objects.filter(
        ~Exists(long_term_copy),
        tier=Tier.SHORT_TERM,
        status=Status.ACTIVE,
        importance__gte=PROMOTE_IMPORTANCE,
        access_count__gte=PROMOTE_USES,
        updated_at__lte=now - PROMOTE_AGE,
    )
    with transaction.atomic():
        pks = list(due.select_for_update(skip_locked=True, of=("self",)).values_list("pk", flat=True))
        MemoryRecord.objects.filter(pk__in=pks).update(
            tier=Tier.LONG_TERM, expires_at=None, enrichment_status=PENDING, updated_at=now
        )
        Passage.objects.filter(record__in=pks).update(short_term=False)
        indexing.enqueue(ENRICHMENT, pks, Trigger.RECONCILER)
    return len(pks)


def forget() -> int:
    purge_after = timezone.now() + timedelta(days=settings.SOFT_DELETE_PURGE_DAYS)
    corrected = Q(supersedes__isnull=False) | Q(superseded_by__isnull=False)
    due = MemoryRecord.objects.filter(
        tier=Tier.LONG_TERM,
        status=Status.ACTIVE,
        enrichment_status=COMPLETED,
        importance__lt=FORGET_IMPORTANCE,
        access_count=0,
        visibility=Visibility.PRIVATE,
        last_verified_at=None,
    ).exclude(corrected | Exists(MemoryRevision.objects.filter(record=OuterRef("pk"))))
    with transaction.atomic():
        records = list(due.select_for_update(skip_locked=True, of=("self",))[:500])
        for record in records:
            with revised(system_caller(), record, "forget", REASON):
                record.status = Status.ARCHIVED
                record.purge_after = purge_after
    return len(records)


def _compress(owner: str, conversation_id: str) -> bool:
    """Summarize one conversation; return whether a summary was saved.

    The summary is embedded before the transaction begins. If some turns are deleted, or summarized by another process,
    in the meantime, nothing is saved.
    """
    rows = MemoryRecord.objects.filter(
        created_by=owner, conversation_id=conversation_id, tier=Tier.SHORT_TERM, enrichment_status=""
    ).exclude(status=Status.ARCHIVED)
    turns = list(rows.order_by("thread_position").defer("search"))
    summary = _summary(turns) if len(turns) >= MIN_TURNS else None
    stamp: Stamped | None = None
    if summary:
        try:
            (encoded,), model = passages.encode([summary.content], waiting=embedding.Waiting.BATCH)
            stamp = Stamped(encoded, model)
        except embedding.EmbedderUnavailable:
            stamp = None  # the reconciler queues the summary for embedding
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"turns {owner} {conversation_id}"]
            )
        marked = rows.filter(pk__in=[turn.pk for turn in turns]).update(enrichment_status=COMPRESSED)
        if summary is None or marked < len(turns):
            # If some turns were deleted or summarized in the meantime, undo the update. The next run tries again.
            transaction.set_rollback(marked < len(turns))
            return False
        save_many([(summary, stamp)])
        quotations.save_quotations([turn.pk for turn in turns], MEMORIES, summary.pk, whole=True)
    return True


def _summary(turns: Sequence[MemoryRecord]) -> MemoryRecord:
    first = turns[0]
    last = turns[-1]
    lines = [(turn.importance + heuristics.importance_of(turn.content), n, _line(turn)) for n, turn in enumerate(turns)]
    picks: list[tuple[int, str]] = []
    length = 0
    for _, n, line in sorted(lines, key=lambda entry: (-entry[0], entry[1])):
        if length + len(line) + 1 <= MAX_SUMMARY:
            picks.append((n, line))
            length += len(line) + 1
    content = "\n".join(line for _, line in sorted(picks)) or _line(first)[:MAX_SUMMARY]
    return MemoryRecord(
        created_by=first.created_by,
        persona=first.persona,
        visibility=Visibility.PRIVATE,
        dimension=Dimension.EVENT,
        source=Source.AUTOMATION,
        content=content,
        language=language_of(content),
        summary=f"Summary of {len(turns)} messages",
        tier=Tier.LONG_TERM,
        conversation_id=first.conversation_id,
        importance=max(turn.importance for turn in turns),
        enrichment_status=COMPLETED,
        created_at=last.created_at,
        metadata={"messages": len(turns), "from": first.created_at.isoformat(), "until": last.created_at.isoformat()},
    )


def _line(turn: MemoryRecord) -> str:
    sentence = heuristics.summary_of(turn.content)
    return f"{turn.author or turn.role}: {sentence}" if turn.author or turn.role else sentence
