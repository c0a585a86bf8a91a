from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from memories.identity.caller import Caller
from memories.models import MemoryRecord, MemoryRevision
from memories.writing.revision import revised

pytestmark = pytest.mark.django_db
NOW = timezone.now()
# A new value for every field that services change after a memory was created.
NEW_VALUES: dict[str, Any] = {
    "summary": "in short",
    "language": "de",
    "dimension": "event",
    "category": "correction",
    "confidence": "high",
    "persona": "supply",
    "created_by": "bob@example.org",
    "tags": ["refunds"],
    "entity_urns": ["urn:li:tag:x"],
    "related_columns": [{"urn": "urn:li:tag:x", "column": "amount"}],
    "metadata": {"ticket": "A-1"},
    "stale_reason": "the table changed",
    "stale_at": NOW,
    "last_verified_at": NOW,
    "superseded_by": UUID(int=1),
    "superseded_at": NOW + timedelta(days=1),
    "purge_after": NOW + timedelta(days=30),
}


@pytest.mark.parametrize("field", NEW_VALUES)
def test_a_revision_keeps_the_earlier_value_of_each_field(alice: Caller, fact: MemoryRecord, field: str) -> None:
    record = MemoryRecord.objects.get(pk=fact.pk)
    before = getattr(record, field)
    with revised(alice, record, "test", ""):
        setattr(record, field, NEW_VALUES[field])
    revision = MemoryRevision.objects.get(record=record)
    assert revision.details == {field: before}


def test_no_change_leaves_no_revision(alice: Caller, fact: MemoryRecord) -> None:
    record = MemoryRecord.objects.get(pk=fact.pk)
    with revised(alice, record, "test", ""):
        record.tags = list(record.tags)
    assert not MemoryRevision.objects.exists()
