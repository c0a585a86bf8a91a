"""Events about memories, and personal data of webhooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memories.extensions import MemoryExtension
from memories.models import MemoryRecord, Status
from memory_project.notifications.webhooks.events import emit


class WebhooksMemoryExtension(MemoryExtension):
    def record_changed(self, record: MemoryRecord, change: str, before: Mapping[str, Any]) -> None:
        if change == "verify":
            emit("memory.verified", [record.pk])
        if record.status == before["status"]:
            return
        if record.status == Status.STALE:
            emit("memory.stale", [record.pk])
        elif record.status == Status.SUPERSEDED and record.superseded_by:
            emit("memory.corrected", [record.pk], correction_id=record.superseded_by.hex)
        elif record.status == Status.ACTIVE and change != "verify":
            emit("memory.restored", [record.pk])
