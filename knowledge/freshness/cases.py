"""Stale memories, and active ones that somebody should verify, as cases of the inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy

from foundation.cases.kinds import Case, CaseKind, CaseVerdict, Given
from foundation.operations.errors import Conflict, NotFound
from foundation.operations.fields import Id
from foundation.operations.operation import validate
from foundation.people.caller import Caller
from knowledge.freshness import stale_review
from memories import services
from memories.models import Feedback, MemoryRecord
from memories.operations import Forget, MarkFeedback, Verify
from memories.queries import reviewable_stale
from memories.writing import feedback
from memories.writing.seen import unchanged
from memories.writing.undo import undo

WRONG = "wrong"


def _verify(caller: Caller, case_id: str, values: Mapping[str, str]) -> Given:
    record_id: UUID = validate(Id, case_id, "cases")
    with unchanged(caller, record_id, values["seen"]):
        services.verify(caller, Verify.read({"record_id": record_id, "note": values.get("note", "")}))
    return Given(gettext("Verified as still true."), f"verify {record_id.hex}", record_id.hex)


def _forget(caller: Caller, case_id: str, values: Mapping[str, str]) -> Given:
    record_id: UUID = validate(Id, case_id, "cases")
    with unchanged(caller, record_id, values["seen"]):
        services.forget(caller, Forget.read({"record_id": record_id, "reason": values.get("note", "")}))
    text = gettext("Forgotten. The memory is kept, but it is no longer recalled.")
    return Given(text, f"forget {record_id.hex}", record_id.hex)


def _mark_wrong(caller: Caller, case_id: str, values: Mapping[str, str]) -> Given:
    record_id: UUID = validate(Id, case_id, "cases")
    with unchanged(caller, record_id, values["seen"]):
        before = _own_mark(caller, record_id)
        operation = {"record_id": record_id, "verdict": WRONG, "note": values.get("note", "")}
        feedback.mark(caller, MarkFeedback.read(operation))
    undo_by = "" if before == WRONG else f"{WRONG} {record_id.hex} {before}"
    return Given(gettext("Marked as wrong."), undo_by, record_id.hex)


def _own_mark(caller: Caller, record_id: UUID) -> str:
    """Return the caller's verdict on a memory, or "" if there is none."""
    mark = Feedback.objects.filter(record=record_id, by=caller.email).first()
    return mark.verdict if mark else ""


def _take_back_mark(caller: Caller, record_id: UUID, before: str) -> None:
    if _own_mark(caller, record_id) != WRONG:
        raise Conflict(gettext("was undone already"), field="verdicts")
    if before:
        feedback.mark(caller, MarkFeedback.read({"record_id": record_id, "verdict": before}))
    else:
        feedback.withdraw(caller, record_id=record_id)


VERIFY = CaseVerdict(
    "verify",
    gettext_lazy("Still true"),
    _verify,
    fields=("note",),
    key="t",
    takes_many=True,
    tool="memory_manage",
    command="verify",
)
FORGET = CaseVerdict(
    "forget",
    gettext_lazy("Forget"),
    _forget,
    fields=("note",),
    key="f",
    takes_many=True,
    tool="memory_manage",
    command="forget",
)
MARK_WRONG = CaseVerdict(
    WRONG,
    gettext_lazy("Mark as wrong"),
    _mark_wrong,
    fields=("note",),
    key="w",
    takes_many=True,
    tool="memory_manage",
    command="feedback",
)


class _MemoryCases(CaseKind):
    """Cases whose rows are memories. A verdict is named by what was done, the memory, and the mark that was there."""

    def undo(self, caller: Caller, given: str) -> None:
        act, _, rest = given.partition(" ")
        text, _, before = rest.partition(" ")
        record_id: UUID = validate(Id, text, "verdicts")
        if act == WRONG:
            _take_back_mark(caller, record_id, before)
        elif act in (VERIFY.name, FORGET.name):
            undo(caller, record_id=record_id, change=act)
        else:
            raise NotFound(gettext("no such verdict"), field="verdicts")


class StaleCases(_MemoryCases):
    name = "stale"
    title = gettext_lazy("Stale memories")
    label = gettext_lazy("Stale memory")
    by = "stale_at"
    verdicts = (VERIFY, FORGET)

    def waiting(self, caller: Caller) -> QuerySet[Any]:
        return reviewable_stale(caller)

    def about(self, rows: QuerySet[Any], subject: str) -> QuerySet[Any]:
        return rows.filter(stale_reason=subject)

    def summary(self, caller: Caller) -> Mapping[str, Any]:
        return {"causes": stale_review.causes(caller)}

    def cases(self, caller: Caller, rows: Sequence[MemoryRecord]) -> list[Case]:
        # A note about the catalog is part of each case, because a page can have cases of other kinds as well.
        shown, note = stale_review.cases(caller, rows)
        names = [verdict.name for verdict in self.verdicts]
        return [
            Case(
                self,
                each.record.pk.hex,
                each.record.stale_at or each.record.updated_at,
                each.record.content,
                {"shown": each, "note": note},
                names,
                each.seen,
            )
            for each in shown
        ]


class VerificationCases(_MemoryCases):
    name = "verification"
    title = gettext_lazy("To verify")
    label = gettext_lazy("To verify")
    verdicts = (VERIFY, MARK_WRONG)
    is_counted = False

    def waiting(self, caller: Caller) -> QuerySet[Any]:
        return stale_review.to_verify(caller)

    def cases(self, caller: Caller, rows: Sequence[MemoryRecord]) -> list[Case]:
        return [
            Case(
                self,
                request.record.pk.hex,
                request.record.created_at,
                request.record.content,
                request,
                [VERIFY.name, MARK_WRONG.name] if request.may_verify else [MARK_WRONG.name],
                request.seen,
            )
            for request in stale_review.verification_requests(caller, rows)
        ]
