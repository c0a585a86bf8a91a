"""Stale memories, and active ones that somebody should verify, as cases of the inbox."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_lazy

from foundation.cases.kinds import MAX_PAST, Case, CaseKind, CaseVerdict, Decided, PastVerdict, parse_case_id
from foundation.operations.errors import Conflict, NotFound
from foundation.people.caller import Caller
from knowledge.freshness import stale_review
from memories import services
from memories.models import Feedback, MemoryRecord, MemoryRevision, Status
from memories.operations import Forget, MarkFeedback, Verify
from memories.queries import reviewable_stale
from memories.writing import feedback
from memories.writing.revision import last_revision
from memories.writing.seen import unchanged
from memories.writing.undo import undo

WRONG = "wrong"


def _verify(caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    pk = parse_case_id(case_id)
    with unchanged(caller, pk, seen):
        services.verify(caller, Verify.read({"record_id": pk, "note": values.get("note", "")}))
        return Decided(gettext("Verified as still true."), _token("verify", pk), pk.hex)


def _forget(caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    pk = parse_case_id(case_id)
    with unchanged(caller, pk, seen):
        services.forget(caller, Forget.read({"record_id": pk, "reason": values.get("note", "")}))
        text = gettext("Forgotten. The memory is kept, but it is no longer recalled.")
        return Decided(text, _token("forget", pk), pk.hex)


def _token(change: str, pk: UUID) -> str:
    """Name a change by its revision, so that a later change of the same kind is not undone."""
    last = last_revision(pk)
    return f"{change} {pk.hex} {last.pk if last else 0}"


def _mark_wrong(caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    pk = parse_case_id(case_id)
    with unchanged(caller, pk, seen):
        before = _own_mark(caller, pk)
        if before is not None and before.verdict == WRONG:
            raise Conflict(gettext("is marked as wrong by you already"), field="id")
        mark = feedback.mark(
            caller, MarkFeedback.read({"record_id": pk, "verdict": WRONG, "note": values.get("note", "")})
        )
    earlier = f" {before.verdict} {before.note}" if before is not None else ""
    return Decided(gettext("Marked as wrong."), f"{WRONG} {pk.hex} {mark.pk}{earlier}", pk.hex)


def _own_mark(caller: Caller, pk: UUID) -> Feedback | None:
    return Feedback.objects.filter(record=pk, by=caller.email).first()


def _take_back_mark(caller: Caller, pk: UUID, mark_id: str, earlier: str) -> None:
    """Take a mark back, and give the one that the caller had made before it again."""
    mark = _own_mark(caller, pk)
    if mark is None or str(mark.pk) != mark_id:
        raise Conflict(gettext("was undone already, or has another mark of yours since"), field="id")
    verdict, _, note = earlier.partition(" ")
    if verdict:
        feedback.mark(caller, MarkFeedback.read({"record_id": pk, "verdict": verdict, "note": note}))
    else:
        feedback.withdraw(caller, record_id=pk)


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
    """Cases whose rows are memories."""

    undo_tool = "memory_manage"
    undo_command = "update"
    past_changes: Sequence[str] = ()  # changes that are verdicts on such a case
    status_before: str  # of a memory that was such a case

    def past(self, caller: Caller) -> list[PastVerdict]:
        own = MemoryRevision.objects.filter(
            changed_by=caller.email,
            change__in=self.past_changes,
            status=self.status_before,
            record__in=MemoryRecord.objects.visible_to(caller),
        )
        rows = list(own.select_related("record").defer("record__search").order_by("-valid_to", "-pk")[:MAX_PAST])
        last = MemoryRevision.objects.filter(record__in=[row.record_id for row in rows])
        newest = set(last.order_by("record_id", "-valid_to", "-pk").distinct("record_id").values_list("pk", flat=True))
        labels = {verdict.name: str(verdict.label) for verdict in self.verdicts}
        return [
            PastVerdict(
                row.record.content,
                labels[row.change],
                row.valid_to,
                f"{row.change} {row.record_id.hex} {row.pk}" if row.pk in newest else "",
                row.record_id.hex,
            )
            for row in rows
        ]

    def undo(self, caller: Caller, undo_token: str) -> None:
        act, _, rest = undo_token.partition(" ")
        text, _, rest = rest.partition(" ")
        number, _, earlier = rest.partition(" ")
        pk = parse_case_id(text, "undo")
        if act == WRONG:
            _take_back_mark(caller, pk, number, earlier)
        elif act in (VERIFY.name, FORGET.name) and number.isascii() and number.isdecimal() and len(number) < 19:
            undo(caller, record_id=pk, change=act, revision=int(number))
        else:
            raise NotFound(gettext("no such verdict"), field="undo")


class StaleCases(_MemoryCases):
    name = "stale"
    title = gettext_lazy("Stale memories")
    label = gettext_lazy("Stale memory")
    waiting_since = "stale_at"
    verdicts = (VERIFY, FORGET)
    past_changes = (VERIFY.name, FORGET.name)
    status_before = Status.STALE

    def waiting(self, caller: Caller) -> QuerySet[Any]:
        return reviewable_stale(caller)

    def about(self, rows: QuerySet[Any], subject: str) -> QuerySet[Any]:
        return rows.filter(stale_reason=subject)

    def summary(self, caller: Caller) -> Mapping[str, Any]:
        return {"causes": stale_review.causes(caller)}

    def cases(self, caller: Caller, rows: Sequence[MemoryRecord]) -> list[Case]:
        shown, note = stale_review.cases(caller, rows)
        return [
            Case(
                self,
                each.record.pk.hex,
                cast("datetime", each.record.stale_at),  # as a constraint says
                each.record.content,
                # The note is about the catalog, not about this memory, so the first case alone has it.
                {"stale": each, "note": note if each is shown[0] else ""},
                seen=each.seen,
            )
            for each in shown
        ]


class VerificationCases(_MemoryCases):
    name = "verification"
    title = gettext_lazy("To verify")
    label = gettext_lazy("To verify")
    verdicts = (VERIFY, MARK_WRONG)
    past_changes = (VERIFY.name,)
    status_before = Status.ACTIVE
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
                None if request.may_verify else [MARK_WRONG.name],
                request.seen,
            )
            for request in stale_review.verification_requests(caller, rows)
        ]
