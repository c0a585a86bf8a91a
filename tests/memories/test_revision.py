from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from foundation.people.caller import Caller
from memories.models import MemoryRecord, MemoryRevision
from memories.models.revision import value_of
from memories.writing.revision import NOT_IN_DETAILS, revised, stored_columns

pytestmark = pytest.mark.django_db
NOW = timezone.now()
# A new value for every column whose earlier values revisions keep in `details`.
NEW_VALUES: dict[str, Any] = {
    "created_by": "bob@example.org",
    "persona": "supply",
    "dimension": "event",
    "category": "correction",
    "confidence": "high",
    "source": "automation",
    "summary": "in short",
    "language": "de",
    "tags": ["refunds"],
    "entity_urns": ["urn:li:tag:x"],
    "related_columns": [{"urn": "urn:li:tag:x", "column": "amount"}],
    "dismissed_urns": ["urn:li:tag:y"],
    "unsettled": True,
    "metadata": {"ticket": "A-1"},
    "stale_reason": "the table changed",
    "stale_at": NOW,
    "last_verified_at": NOW,
    "supersedes_id": UUID(int=2),
    "superseded_by": UUID(int=1),
    "superseded_at": NOW + timedelta(days=1),
    "scope": "purpose:board",
    "valid_from": NOW,
    "valid_until": NOW + timedelta(days=2),
    "valid_while": "period:FY2026",
    "condition_ended_at": NOW,
    "tier": "ltm",
    "conversation_id": "another thread",
    "role": "ai",
    "author": "Bob",
    "thread_position": 7,
    "derived_from": UUID(int=3),
    "importance": 0.9,
    "enrichment_status": "completed",
    "attachment": "never",
    "quiet_at": NOW,
    "expires_at": NOW + timedelta(days=7),
    "purge_after": NOW + timedelta(days=30),
}


@pytest.mark.parametrize("name", [f.attname for f in stored_columns() if f.name not in NOT_IN_DETAILS])
def test_a_revision_keeps_the_earlier_value_of_each_column(alice: Caller, fact: MemoryRecord, name: str) -> None:
    MemoryRecord.objects.create(pk=UUID(int=2), created_by=alice.email, persona="sales", content="An older fact.")
    MemoryRecord.objects.filter(pk=fact.pk).update(
        conversation_id="a thread", expires_at=NOW, valid_while="period:FY2025"
    )
    record = MemoryRecord.objects.get(pk=fact.pk)
    before = getattr(record, name)
    with revised(alice, record, "test", ""):
        setattr(record, name, NEW_VALUES[name])
    revision = MemoryRevision.objects.get(record=record)
    assert set(revision.details) == {name}
    assert value_of(name, revision.details[name]) == before


def test_a_revision_keeps_no_value_twice(alice: Caller, fact: MemoryRecord) -> None:
    record = MemoryRecord.objects.get(pk=fact.pk)
    with revised(alice, record, "test", ""):
        record.content, record.status, record.visibility = "Revenue includes refunds.", "archived", "private"
    assert MemoryRevision.objects.get(record=record).details == {}


def test_no_change_leaves_no_revision(alice: Caller, fact: MemoryRecord) -> None:
    record = MemoryRecord.objects.get(pk=fact.pk)
    with revised(alice, record, "test", ""):
        record.tags = list(record.tags)
    assert not MemoryRevision.objects.exists()
