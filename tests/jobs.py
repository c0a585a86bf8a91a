"""Jobs in tests: worked off at once, as a worker does."""

from __future__ import annotations

from math import inf
from typing import Any
from uuid import UUID

from analysis.actions import ActionJobs
from foundation.people.caller import Caller
from foundation.work.jobs import JobKind, run_slices
from memories import services
from memories.models import MemoryRecord
from memories.operations import Remember
from memories.writing.bulk_actions import BulkActionJobs
from memory_project.exchange.exports.services import ExportJobs
from memory_project.exchange.imports.jobs import ImportJobs
from memory_project.exchange.subscriptions.services import SubscriptionJobs

__all__ = [
    "ActionJobs",
    "BulkActionJobs",
    "ExportJobs",
    "ImportJobs",
    "SubscriptionJobs",
    "create_memories",
    "work_off",
]


def work_off(kind: JobKind[Any], target: UUID, seconds: float = inf) -> None:
    """Do the work that is left about a row, for so many seconds. Does nothing if none is left."""
    if row := kind.unfinished().filter(pk=target).first():
        run_slices(kind, row, seconds)


def create_memories(caller: Caller, count: int) -> list[MemoryRecord]:
    return [services.remember(caller, Remember(content=f"Fact {n} about the tills.")).record for n in range(count)]
