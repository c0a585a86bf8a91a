"""Detection of the catalog entities that memories mention in their texts.

Detected entities are derived from the text, so storing them keeps `updated_at` and writes no revision of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from foundation.database import identity
from memories import extensions
from memories.extensions import Mention
from memories.models import MemoryRecord, Status, Tier
from memories.models.record import MemoryRecordQuerySet

BATCH = 500  # number of memories saved in one transaction
MAX_DETECTED = 20  # maximum number of detected entities of one memory
MAX_NAMES = 100  # maximum number of names that are looked for; if there are more, all texts with dotted names are read
DOTTED_OR_URN = r"""[\w"`\]]\.["`[\w]|urn:li:"""


def detect_entities(records: Sequence[MemoryRecord]) -> None:
    """Set the detected entities of unsaved records or changed texts. Turns of conversations are left out."""
    texts = [record for record in records if record.tier != Tier.SHORT_TERM]
    now = timezone.now()
    for record, mentions in zip(texts, _mentions_in([record.content for record in texts]), strict=True):
        excluded = {*record.entity_urns, *record.dismissed_urns}
        record.mentions = [mention for mention in mentions if mention.urn not in excluded][:MAX_DETECTED]
        record.detected_urns = [mention.urn for mention in record.mentions]
        record.entities_detected_at = now


def undetected() -> MemoryRecordQuerySet:
    rows = MemoryRecord.objects.filter(entities_detected_at__isnull=True)
    return rows.exclude(status=Status.ARCHIVED).exclude(tier=Tier.SHORT_TERM)


@identity.service("entity_detection")
def detect_batch() -> int:
    """Detect the entities of at most BATCH stored memories, and return the number of memories."""
    with transaction.atomic():
        # A locked memory is being changed, which detects its entities, or it is left to the next batch.
        rows = list(undetected().select_for_update(skip_locked=True).defer("search").order_by("pk")[:BATCH])
        detect_entities(rows)
        MemoryRecord.objects.bulk_update(rows, ["detected_urns", "entities_detected_at"])
    return len(rows)


@identity.service("entity_detection")
def detect_again(names: Sequence[str] | None = None) -> int:
    """Mark memories for another detection: those whose texts contain one of these words, or all if `names` is None.

    Returns the number of memories that may mention an entity.
    """
    rows = MemoryRecord.objects.filter(entities_detected_at__isnull=False).exclude(tier=Tier.SHORT_TERM)
    condition = Q(content__iregex=DOTTED_OR_URN)
    if names is not None and len(names) <= MAX_NAMES:
        condition &= Q(content__iregex=rf"\y({'|'.join(map(re.escape, names))})\y") if names else Q(pk__in=[])
    return rows.filter(condition).update(entities_detected_at=None)


def _mentions_in(texts: Sequence[str]) -> list[list[Mention]]:
    if not texts:
        return []
    found: list[dict[str, Mention]] = [{} for _ in texts]
    for extension in extensions.EXTENSIONS.all():
        for by_urn, mentions in zip(found, extension.entities_in(texts), strict=True):
            by_urn |= {mention.urn: mention for mention in mentions if mention.urn not in by_urn}
    return [list(by_urn.values()) for by_urn in found]
