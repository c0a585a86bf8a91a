"""The third verdict: a curator needs more before deciding, and the author answers. The insight leaves the queue until
then. A curator may also hand one to a colleague, who finds it under their name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from knowledge.insights.lifecycle import locked_insight
from knowledge.models import Decision, DecisionKind, Insight, InsightState
from knowledge.operations import AnswerQuestion
from knowledge.review import events
from knowledge.review.decisions import record_decision, under_review
from memories.contract.errors import Conflict, DomainError, Forbidden, Invalid, NotFound
from memories.identity.caller import CURATE, Caller
from memories.identity.permissions import build_caller
from memories.models import Status

MAX_COLLEAGUES = 100


def request_changes(*, caller: Caller, insight_id: UUID | str, notes: str) -> Insight:
    """A curator asks the author for what is missing; `notes` is the question."""
    if not notes.strip():
        raise Invalid("is missing: the author needs to know what you need", field="review_notes")
    with under_review(caller, insight_id, notes) as insight:
        _require_pending(insight)
        insight.question_at = timezone.now()
        insight.save(update_fields=["question_at"])
        decision = record_decision(caller, insight, DecisionKind.NEEDS_MORE, notes)
        events.announce_decision(insight, decision, to=[insight.record.created_by])
    return insight


def answer(operation: AnswerQuestion, *, caller: Caller) -> Insight:
    """The author answers: the insight waits for a curator again."""
    with transaction.atomic():
        insight = locked_insight(caller, operation.insight_id)
        if not caller.can_edit_for(insight.record.created_by):
            raise Forbidden("belongs to somebody else: its author answers", field="insight_id")
        if insight.question_at is None:
            raise Conflict("has no open question", field="insight_id")
        insight.question_at = None
        insight.save(update_fields=["question_at"])
        asker = insight.decisions.filter(kind=DecisionKind.NEEDS_MORE).last()
        decision = record_decision(caller, insight, DecisionKind.ANSWERED, operation.notes)
        events.announce_decision(insight, decision, to=[asker.by if asker else "", insight.assignee])
    return insight


def reassign(*, caller: Caller, insight_id: UUID | str, to: str, notes: str = "") -> Insight:
    """Asks a colleague to decide; anyone who may can still do so. Raises NotFound for whom it can't be handed to."""
    with under_review(caller, insight_id, notes) as insight:
        _require_pending(insight)
        colleague = _curator(to)
        if colleague is None or not colleague.can_review_for(insight.record.persona):
            curators = f"a curator of the persona {insight.record.persona}"
            raise NotFound(f"{to.strip()[:80]!r} can't decide this", field="to", allowed=curators)
        if colleague.email == insight.record.created_by and not colleague.is_admin:
            raise Conflict(f"is {colleague.email}’s own: somebody else has to review it", field="to")
        insight.assignee = colleague.email
        insight.save(update_fields=["assignee"])
        decision = record_decision(caller, insight, DecisionKind.HANDED_OVER, notes or f"to {colleague.email}")
        events.announce_decision(insight, decision, to=[colleague.email])
    return insight


def open_questions(caller: Caller) -> QuerySet[Insight]:
    """The caller's insights that a curator needs more about, oldest question first."""
    living = [Status.ACTIVE, Status.STALE]
    rows = Insight.objects.filter(question_at__isnull=False, record__created_by=caller.email, record__status__in=living)
    return rows.select_related("record").defer("record__search").order_by("question_at")


def conversation(decisions: Iterable[Decision]) -> list[Decision]:
    """What curator and author said to each other, of all that was said in a review."""
    kinds = [DecisionKind.NEEDS_MORE, DecisionKind.ANSWERED, DecisionKind.HANDED_OVER, DecisionKind.APPEALED]
    return [decision for decision in decisions if decision.kind in kinds]


def question_of(insight: Insight) -> Decision | None:
    """The question that waits for its author."""
    if insight.question_at is None:
        return None
    return insight.decisions.filter(kind=DecisionKind.NEEDS_MORE).last()


def colleagues(caller: Caller) -> QuerySet[Any]:
    """The people whom the caller may hand an insight to: other curators of the same personas, and admins."""
    rights = Q(groups__permissions__codename=CURATE) | Q(user_permissions__codename=CURATE) | Q(is_superuser=True)
    rows = get_user_model().objects.filter(rights, is_active=True).exclude(email=caller.email).distinct()
    if not caller.is_admin:
        rows = rows.filter(Q(personas__name__in=caller.personas) | Q(is_superuser=True))
    return rows.order_by("email")[:MAX_COLLEAGUES]


def _require_pending(insight: Insight) -> None:
    if insight.state != InsightState.PENDING:
        raise Conflict(f"is {insight.state} already: nothing is decided any more", field="insight_id")


def _curator(email: str) -> Caller | None:
    person = get_user_model().objects.filter(email=email.strip().lower(), is_active=True).first()
    try:
        caller = build_caller(person, channel="portal") if person else None
    except DomainError:
        return None
    return caller if caller and caller.is_curator else None
