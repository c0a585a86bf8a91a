"""What readers say of recalled memories. A wrong one leaves the reader's recall at once, and everybody's when its
owner, a curator of its persona or a second reader agrees; then it waits in the stale review."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction
from django.utils import timezone

from memories.contract.errors import Conflict, NotFound
from memories.contract.fields import Id
from memories.contract.operations import validate
from memories.identity.caller import Caller
from memories.models import Feedback, MemoryRecord, Status, Verdict
from memories.operations import MarkFeedback
from memories.writing.correction_chains import activate
from memories.writing.revision import revised


def mark(operation: MarkFeedback, *, caller: Caller) -> Feedback:
    """Says `useful` or `wrong` of a memory, as anybody may who reads it; a later word replaces an earlier one.

    A wrong one is not recalled for this reader any more. It goes stale for everybody where the reader decides on it,
    or where another reader has said so before: one reader's word does not take it from all.
    """
    verdict, note = operation.verdict, operation.note
    with transaction.atomic():
        record = _readable(caller, operation.record_id)
        if record.status not in (Status.ACTIVE, Status.STALE):
            raise Conflict(f"is {record.status}: there is nothing to rate", field="id")
        _take_back(caller, record)
        reason = ""
        if verdict == Verdict.WRONG and record.status == Status.ACTIVE and _counts(caller, record):
            reason = f"{caller.email} marked it wrong" + (f": {note}" if note else "")
            with revised(caller, record, "mark_wrong", note):
                record.status, record.stale_reason, record.stale_at = Status.STALE, reason, timezone.now()
        return Feedback.objects.create(record=record, by=caller.email, verdict=verdict, note=note, made_stale=reason)


def withdraw(*, caller: Caller, record_id: UUID | str) -> None:
    """Takes one's word back; a memory that is stale for nothing but that is recalled again."""
    with transaction.atomic():
        _take_back(caller, _readable(caller, record_id))


def feedback_for(caller: Caller, record: MemoryRecord) -> tuple[list[Feedback], Feedback | None]:
    """What was said of a memory that the caller sees, newest first, and the caller's own word."""
    marks = list(record.feedback.all()[:50])
    return marks, next((word for word in marks if word.by == caller.email), None)


def _counts(caller: Caller, record: MemoryRecord) -> bool:
    if caller.can_edit_for(record.created_by) or caller.can_review_for(record.persona):
        return True
    return Feedback.objects.filter(record=record, verdict=Verdict.WRONG).exclude(by=caller.email).exists()


def _readable(caller: Caller, record_id: UUID | str) -> MemoryRecord:
    pk = validate(Id, record_id, "id")
    record = MemoryRecord.objects.visible_to(caller).select_for_update().filter(pk=pk).first()
    if record is None:
        raise NotFound("no such memory", field="id")
    return record


def _take_back(caller: Caller, record: MemoryRecord) -> None:
    before = Feedback.objects.filter(record=record, by=caller.email).first()
    if before is None:
        return
    if before.made_stale and record.status == Status.STALE and record.stale_reason == before.made_stale:
        with revised(caller, record, "withdraw_feedback", ""):
            activate(record)
    Feedback.objects.filter(pk=before.pk).delete()
