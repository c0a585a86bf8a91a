"""Effects of a change of a memory on the failures of its checks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import takewhile
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from analysis.checks import running
from analysis.models import CheckState, MemoryCheck
from foundation.database.identity import service
from memories import services
from memories.models import MemoryRecord, Status


def after_change(record: MemoryRecord, change: str, before: Mapping[str, Any]) -> None:
    """Count failures anew after a person's decision, and after its undo as before.

    A memory that becomes active in another way, such as by the withdrawal of a mark, becomes stale again after the
    transaction if a check has failed twice.
    """
    is_restored = change == "restore" and before["status"] == Status.STALE
    if change == "verify" or is_restored or before["content"] != record.content:
        _count_anew(record.pk)
    is_stale_again = record.status == Status.STALE and before["status"] == Status.ACTIVE
    if change == "undo" and (is_stale_again or before["last_verified_at"] != record.last_verified_at):
        _count_again(record.pk)
    if record.status == Status.ACTIVE and before["status"] != Status.ACTIVE:
        transaction.on_commit(partial(mark_if_refuted, record.pk))


@service("checks")
def mark_if_refuted(record_id: UUID) -> None:
    with transaction.atomic():
        record = MemoryRecord.objects.select_for_update().filter(pk=record_id, status=Status.ACTIVE).first()
        check = MemoryCheck.objects.filter(record=record_id, failures__gt=1).first() if record else None
        if check:
            services.mark_stale(running.CHECKER, record_id=record_id, reason=running.reason_of(check))


@service("checks")
def _count_anew(record_id: UUID) -> None:
    rows = MemoryCheck.objects.filter(record=record_id, failures__gt=0)
    rows.update(failures=0, failed_at=None, next_run_at=timezone.now() + running.USED)


@service("checks")
def _count_again(record_id: UUID) -> None:
    for check in MemoryCheck.objects.filter(record=record_id, state=CheckState.FAILED):
        in_a_row = list(takewhile(lambda run: run["state"] == CheckState.FAILED, check.runs))
        values = {"failures": min(len(in_a_row), 2), "failed_at": in_a_row[-1]["at"]}
        MemoryCheck.objects.filter(pk=check.pk).update(**values)
