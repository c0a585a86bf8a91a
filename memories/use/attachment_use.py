"""Use of attached memories, and memories that are quiet: attached on request only, because nobody used them.

An impression is used if a later call on its connection has a word of the memory that the call it was attached to did
not have (knowledge/context/uses.py), within AGAIN_AFTER. A report as used and a mark as useful are signs of use, too.

A memory becomes quiet after QUIET_AFTER impressions for MIN_PEOPLE people or more, without any sign of
use. At most MAX_A_PERSON impressions of one person count, so that nobody quiets a memory of others with calls of their
own. Impressions count for KEPT_DAYS days, from the last change of the memory's text or entities.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Coalesce
from django.utils import timezone

from memories.models import Attachment, Feedback, Impression, MemoryRecord, Report, ReportVerdict, Status, Verdict
from memories.models.impression import KEPT_DAYS
from memories.models.record import MemoryRecordQuerySet

QUIET_AFTER = 20  # impressions without a sign of use after which a memory is attached on request only

MIN_PEOPLE = 3
MAX_A_PERSON = 10

# Memories with enough impressions without a use. A person's impressions beyond the maximum don't count.
UNUSED = """
    WITH of_person AS (
        SELECT shown.record_id, least(count(*), %(of_person)s) AS shown, count(shown.used_at) AS used
        FROM memory_showings shown JOIN memory_records memory ON memory.id = shown.record_id
        WHERE shown.terms IS NOT NULL AND shown.at > %(since)s
        AND shown.at > coalesce(memory.counted_from, memory.created_at)
        AND memory.attachment = 'automatic' AND memory.quiet_at IS NULL AND memory.status = 'active'
        GROUP BY shown.record_id, shown."to"
    )
    SELECT record_id FROM of_person GROUP BY record_id
    HAVING sum(shown) >= %(least)s AND count(*) >= %(people)s AND sum(used) = 0"""


def quiet_unused(*, never: Q) -> int:
    """Make memories quiet that were attached often without a sign of use. Return their number.

    `never` is the condition for memories that stay as they are. A memory that changes meanwhile stays as it is, too.
    """
    now = timezone.now()
    with connection.cursor() as cursor:
        values: dict[str, datetime | int] = {
            "since": now - timedelta(days=KEPT_DAYS),
            "least": QUIET_AFTER,
            "people": MIN_PEOPLE,
            "of_person": MAX_A_PERSON,
        }
        cursor.execute(UNUSED, values)
        unused = [pk for (pk,) in cursor.fetchall()]
    since = Coalesce(OuterRef("counted_from"), OuterRef("created_at"))
    reported = Report.objects.filter(record=OuterRef("pk"), verdict=ReportVerdict.USED, at__gt=since)
    useful = Feedback.objects.filter(record=OuterRef("pk"), verdict=Verdict.USEFUL, at__gt=since)
    rows = MemoryRecord.objects.filter(~Exists(reported), ~Exists(useful), pk__in=unused, updated_at__lt=now)
    rows = rows.filter(attachment=Attachment.AUTOMATIC, quiet_at__isnull=True)
    return rows.exclude(pk__in=MemoryRecord.objects.filter(never, pk__in=unused).values("pk")).update(quiet_at=now)


def quiet(rows: MemoryRecordQuerySet) -> MemoryRecordQuerySet:
    return rows.filter(attachment=Attachment.AUTOMATIC, quiet_at__isnull=False, status=Status.ACTIVE)


def mark_used(impression_ids: Sequence[int], at: datetime) -> int:
    return Impression.objects.filter(pk__in=impression_ids, used_at=None).update(used_at=at)
