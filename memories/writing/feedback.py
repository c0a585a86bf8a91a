"""Readers' feedback on recalled memories.

A memory that a reader has marked as wrong is no longer recalled for that reader. For other people, a mark counts only
if its author owns the memory, holds its persona, or is a curator. Other marks are kept for their authors and shown to
those who may decide about the memory, and have no further effect.

Of the marks that count, one by the owner, a curator of the persona or an admin makes the memory stale for everyone, and
so does a second one by anyone else. Whether a mark counts is stored when it is made, like every decision: it is not
taken back if its author later loses the persona, and gains no weight if its author gets it. A verification outweighs
all earlier marks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from memories.models import Feedback, MemoryRecord, Status, Verdict
from memories.operations import MarkFeedback
from memories.writing.correction_chains import activate, require_in_use
from memories.writing.revision import revised

MAX_SHOWN = 50
MARKED = "marked it wrong"
BY_MARK = re.compile(rf"\S+ {MARKED}")  # the beginning of a stale reason that a mark gave


def mark(caller: Caller, operation: MarkFeedback) -> Feedback:
    """Mark a memory as `useful` or `wrong`. Every reader may do this. A new mark replaces the reader's earlier mark.

    A decisive mark also becomes the reason of a memory that is stale already, so that the memory stays stale if its
    other causes go away.
    """
    verdict = operation.verdict
    note = operation.note
    with transaction.atomic():
        record = _readable(caller, operation.record_id)
        counts = counts_for_others(caller, record)
        require_in_use(caller, record)
        _remove_mark(caller, record)
        reason = ""
        if verdict == Verdict.WRONG and _is_decisive(caller, record):
            reason = f"{caller.email} {MARKED}" + (f": {note}" if note else "")
            with revised(caller, record, "mark_wrong", note):
                record.status = Status.STALE
                record.stale_reason = reason
                record.stale_at = record.stale_at or timezone.now()
        return Feedback.objects.create(
            record=record, by=caller.email, verdict=verdict, note=note, made_stale=reason, counts=counts
        )


def withdraw(caller: Caller, *, record_id: UUID | str) -> None:
    """Remove the caller's mark.

    If the mark is the reason that the memory is stale, the memory becomes active again, unless another decisive mark
    is left, which then is the reason.
    """
    with transaction.atomic():
        _remove_mark(caller, _readable(caller, record_id))


def stop_counting_wrong_marks(record: MemoryRecord) -> None:
    """Let marks as wrong count for nobody but their authors any more, because they are about an earlier text."""
    Feedback.objects.filter(record=record, verdict=Verdict.WRONG, counts=True).update(counts=False)


def drop_withdrawn_reason(record: MemoryRecord) -> None:
    """Replace the stale reason that an undo has given back to a locked record, if its mark was withdrawn meanwhile.

    Another decisive mark gives the reason then. Without one, the memory is not stale.
    """
    if record.status != Status.STALE or not BY_MARK.match(record.stale_reason):
        return
    marks = _since_verified(record, Feedback.objects.filter(record=record).exclude(made_stale=""))
    if marks.filter(made_stale=record.stale_reason).exists():
        return
    if other := marks.order_by("-at").first():
        record.stale_reason = other.made_stale
    else:
        activate(record)


def useful_count(record: MemoryRecord, newest: Sequence[Feedback]) -> int:
    """Return the number of marks as useful that count for others. `newest` are the marks of `feedback_for`."""
    if len(newest) < MAX_SHOWN:  # these are all
        return sum(1 for mark in newest if mark.counts and mark.verdict == Verdict.USEFUL)
    return Feedback.objects.filter(record=record, verdict=Verdict.USEFUL, counts=True).count()


def feedback_for(caller: Caller, record: MemoryRecord) -> tuple[list[Feedback], Feedback | None]:
    """Return the MAX_SHOWN newest marks of a memory that the caller may see, and the caller's own mark.

    Marks that don't count for others are shown to their authors and to those who may decide about the memory.
    """
    may_decide = caller.can_edit_for(record.created_by) or caller.can_review_for(record.persona)
    marks = record.feedback.all() if may_decide else record.feedback.filter(Q(counts=True) | Q(by=caller.email))
    newest = list(marks[:MAX_SHOWN])
    own = next((mark for mark in newest if mark.by == caller.email), None)
    if own is None and len(newest) == MAX_SHOWN:
        own = marks.filter(by=caller.email).first()
    return newest, own


def counts_for_others(caller: Caller, record: MemoryRecord) -> bool:
    """Return whether a mark of the caller counts for other readers of the memory."""
    return caller.can_edit_for(record.created_by) or caller.is_curator or record.persona in caller.personas


def _is_decisive(caller: Caller, record: MemoryRecord) -> bool:
    if caller.can_edit_for(record.created_by) or caller.can_review_for(record.persona):
        return True
    if not counts_for_others(caller, record):
        return False
    # A single reader who may not decide about the memory can't remove it from everyone's recall.
    marks = Feedback.objects.filter(record=record, verdict=Verdict.WRONG, counts=True).exclude(by=caller.email)
    return _since_verified(record, marks).exists()


def _since_verified(record: MemoryRecord, marks: QuerySet[Feedback]) -> QuerySet[Feedback]:
    return marks.filter(at__gt=record.last_verified_at) if record.last_verified_at else marks


def _readable(caller: Caller, record_id: UUID | str) -> MemoryRecord:
    pk = validate(Id, record_id, "id")
    record = MemoryRecord.objects.visible_to(caller).select_for_update().filter(pk=pk).first()
    if record is None:
        raise NotFound(gettext("no such memory"), field="id")
    return record


def _remove_mark(caller: Caller, record: MemoryRecord) -> None:
    previous = Feedback.objects.filter(record=record, by=caller.email).first()
    if previous is None:
        return
    if previous.made_stale and record.stale_reason == previous.made_stale:
        _drop_reason(caller, record, previous)
    Feedback.objects.filter(pk=previous.pk).delete()


def _drop_reason(caller: Caller, record: MemoryRecord, mark: Feedback) -> None:
    """Replace the reason that a mark gave by that of another decisive mark. Without one, the memory is not stale."""
    others = Feedback.objects.filter(record=record).exclude(pk=mark.pk).exclude(made_stale="")
    other = _since_verified(record, others).order_by("-at").first()
    if record.status != Status.STALE:
        # The reason would take effect again when the memory is restored. Dropping it is no change of the memory, so
        # its last change can still be undone.
        values = {"stale_reason": other.made_stale} if other else {"stale_reason": "", "stale_at": None}
        MemoryRecord.objects.filter(pk=record.pk).update(**values)
        return
    with revised(caller, record, "withdraw_feedback", ""):
        if other:
            record.stale_reason = other.made_stale
        else:
            activate(record)
