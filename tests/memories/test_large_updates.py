"""The memory that PostgreSQL needs for an UPDATE does not grow with the number of memories."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from foundation.database import identity
from memories.models import MemoryRecord

pytestmark = pytest.mark.django_db
ROWS = 1_500
AT_MOST_MB = 60  # 150 MB more if each row took 100 kB


def peak_mb() -> float:
    """Return the most memory that the connection's process in PostgreSQL has had."""
    connection.ensure_connection()
    status = Path(f"/proc/{connection.connection.info.backend_pid}/status")
    if not status.exists():
        pytest.skip("PostgreSQL runs on another machine, or this is not Linux")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    assert found
    return int(found[1]) / 1024


def test_an_update_of_many_memories_needs_no_memory_for_each() -> None:
    with identity.service("command"):
        MemoryRecord.objects.bulk_create(
            MemoryRecord(content=f"Store {n} counts its till.", created_by="ana@example.org", persona="sales")
            for n in range(ROWS)
        )
        before = peak_mb()
        assert MemoryRecord.objects.update(last_accessed_at=timezone.now()) == ROWS
        assert peak_mb() - before < AT_MOST_MB
