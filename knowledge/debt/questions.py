"""Reads of interview questions: a person's own, and those that a curator has asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import NotFound
from foundation.people.caller import Caller
from knowledge.debt.experts import Expert, experts
from knowledge.debt.wording import question_text
from knowledge.models import CatalogEntity, InterviewQuestion
from knowledge.models import QuestionState as State
from memories.models import IN_USE, MemoryRecord
from memories.rendering import entity_name

MAX_DECIDED = 20  # decided questions that a page lists


@dataclass(frozen=True)
class ShownQuestion:
    """A question as its reader sees it. `records` are the memories that it is about and that the reader may read."""

    question: InterviewQuestion
    name: str  # of the entity
    text: str
    records: Sequence[MemoryRecord] = ()
    is_answered_by_others: bool = False  # since then, the debt is lower
    others: Sequence[Expert] = field(default_factory=tuple)  # who might know it, too


def own(caller: Caller) -> QuerySet[InterviewQuestion]:
    """Return the questions to the caller."""
    return InterviewQuestion.objects.filter(owner=caller.email).exclude(owner="")


def open_questions(caller: Caller) -> QuerySet[InterviewQuestion]:
    return own(caller).filter(state=State.OPEN).order_by("created_at", "pk")


def decided(caller: Caller) -> QuerySet[InterviewQuestion]:
    """Return the questions that the caller has answered or passed over, newest first."""
    rows = own(caller).exclude(state__in=[State.OPEN, State.CLOSED]).select_related("record").defer("record__search")
    return rows.order_by("-decided_at", "pk")


def asked_by(caller: Caller, person: str) -> QuerySet[InterviewQuestion]:
    """Return the questions that the caller has asked a person. Admins see what others have asked, too."""
    rows = InterviewQuestion.objects.filter(owner=person)
    rows = rows if caller.is_admin else rows.filter(asked_by=caller.email)
    return rows.order_by("-created_at", "pk")


def own_question(caller: Caller, question_id: UUID, *, or_asked: bool = False, lock: bool = False) -> InterviewQuestion:
    """Return a question to the caller, or with `or_asked` one that the caller has asked. Raises NotFound."""
    rule = Q(owner=caller.email) | Q(asked_by=caller.email) if or_asked else Q(owner=caller.email)
    rows = InterviewQuestion.objects.filter(rule, pk=question_id).exclude(owner="")
    question = (rows.select_for_update() if lock else rows).first()
    if question is None:
        raise NotFound(gettext("you have no such question"), field="question_id")
    return question


def shown(caller: Caller, rows: Sequence[InterviewQuestion], *, with_experts: bool = False) -> list[ShownQuestion]:
    """Return the questions with their texts, as far as the caller may read what they are about."""
    urns = list({row.urn for row in rows})
    named = CatalogEntity.objects.filter(urn__in=urns).values_list("urn", "qualified_name", "name")
    names = {urn: qualified or name for urn, qualified, name in named}
    ids = [pk for row in rows for pk in row.record_ids]
    records = MemoryRecord.objects.visible_to(caller).defer("search").in_bulk(ids) if ids else {}
    answered = _answered_by_others(rows)
    others: Mapping[str, Sequence[Expert]] = experts(caller, urns) if with_experts and urns else {}
    result = []
    for row in rows:
        name = names.get(row.urn) or entity_name(row.urn)
        result.append(
            ShownQuestion(
                row,
                name,
                question_text(row, name),
                [records[pk] for pk in row.record_ids if pk in records],
                (row.urn, row.reason, row.owner) in answered,
                [expert for expert in others.get(row.urn, ()) if expert.email != row.owner],
            )
        )
    return result


def _answered_by_others(rows: Sequence[InterviewQuestion]) -> set[tuple[str, str, str]]:
    """Return (entity, reason, owner) of the open questions that somebody else has answered since they were asked."""
    waiting = [row for row in rows if row.state == State.OPEN]
    if not waiting:
        return set()
    with identity.service("debt"):  # only whether there is an answer, neither whose nor which
        same = InterviewQuestion.objects.filter(urn__in={row.urn for row in waiting}, state=State.ANSWERED)
        found = list(same.filter(record__status__in=IN_USE).values_list("urn", "reason", "owner", "decided_at"))
    return {
        (row.urn, row.reason, row.owner)
        for row in waiting
        for urn, reason, owner, at in found
        if (urn, reason) == (row.urn, row.reason) and owner != row.owner and at and at >= row.created_at
    }
