"""Verifications: who has checked which version of a memory, and whether it has changed since.

A verification counts while the memory has the version that was verified, so undoing a change renews it. Entities
detected in the text are no part of the version, because nobody states them. Those that are detected after a
verification are not covered by it (see knowledge/context/attachable.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from foundation.people.caller import Caller
from memories import extensions
from memories.models import MemoryRecord, Verification
from memories.models.verification import version_of


@dataclass(frozen=True)
class LastVerification:
    by: str
    at: datetime
    is_current: bool  # false if the memory has been changed since


def record_verification(caller: Caller, record: MemoryRecord, at: datetime) -> None:
    """Record that the caller has verified the locked memory as it is now."""
    (version,) = MemoryRecord.objects.filter(pk=record.pk).values_list(version_of(), flat=True)
    Verification.objects.create(
        record=record,
        by=caller.email,
        at=at,
        version=version,
        is_own=caller.email in (record.created_by, record.edited_by),
        detected_urns=record.detected_urns,
    )


def remove_verification(record: MemoryRecord, *, by: str, at: datetime | None) -> None:
    """Remove the verification that is undone."""
    if at is not None:
        Verification.objects.filter(record=record, by=by, at=at).delete()


def last_verifications(record_ids: Sequence[UUID]) -> dict[UUID, LastVerification]:
    """Return each memory's last verification of its current version, or else its last one. Others are missing."""
    rows = Verification.objects.filter(record__in=record_ids).annotate(current_version=version_of("record__"))
    found: dict[UUID, LastVerification] = {}
    for row in rows.order_by("at", "id").values_list("record_id", "by", "at", "version", "current_version"):
        pk, by, at, version, current_version = row
        is_current = version == current_version
        if is_current or pk not in found or not found[pk].is_current:
            found[pk] = LastVerification(by, at, is_current)
    return found


def verifiers_of(record: MemoryRecord) -> set[str]:
    """Return the people who have verified the version of the memory that is stored now."""
    if record.last_verified_at is None:
        return set()
    return set(Verification.objects.filter(record=record).current().values_list("by", flat=True))


def notify_outdated(caller: Caller, record: MemoryRecord, verifiers: set[str]) -> None:
    """Notify the owner of a changed memory, and the people whose verifications no longer count."""
    if outdated := verifiers - verifiers_of(record):
        extensions.verification_outdated(record, caller, sorted(outdated))
