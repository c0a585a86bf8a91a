from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy

from foundation.cases.kinds import Case, CaseKind, CaseVerdict, Decided
from foundation.people.caller import Caller
from memories.models import MemoryRecord, Status
from memories.operations import Retag
from memories.writing.retagging import retag
from memories.writing.undo import undo

TAG = "to-do"


def _done(caller: Caller, case_id: str, seen: str, values: Mapping[str, str]) -> Decided:
    retag(caller, Retag.read({"record_id": case_id, "remove": [TAG]}))
    return Decided("Done.", case_id, case_id)


class ToDoCases(CaseKind):
    """The caller's memories with the tag to-do."""

    name = "to_do"
    title = label = gettext_lazy("To do")
    verdicts = (CaseVerdict("done", gettext_lazy("Done"), _done, key="d", takes_many=True),)

    def waiting(self, caller: Caller) -> QuerySet[Any]:
        own = MemoryRecord.objects.visible_to(caller).filter(created_by=caller.email)
        return own.filter(status=Status.ACTIVE, tags__contains=[TAG])

    def cases(self, caller: Caller, rows: Sequence[MemoryRecord]) -> list[Case]:
        return [Case(self, row.pk.hex, row.created_at, row.content) for row in rows]

    def undo(self, caller: Caller, undo_token: str) -> None:
        undo(caller, record_id=undo_token, change="retag")
