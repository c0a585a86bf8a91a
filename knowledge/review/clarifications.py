"""Clarification requests from a curator to an insight's author, and reassignment of insights to other curators.

While the author's answer is pending, the insight is not in the review queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from knowledge.insights import events
from knowledge.insights.lifecycle import locked_insight
from knowledge.insights.reviewers import has_right, reviewer
from knowledge.insights.seen import overridden
from knowledge.models import Decision, DecisionKind, Insight, InsightState
from knowledge.operations import AnswerQuestion
from knowledge.review.decisions import record_decision, reopen, step_values, under_review
from memories.models import IN_USE

MAX_COLLEAGUES = 100


def request_changes(
    caller: Caller, *, insight_id: UUID | str, notes: str, seen: str = "", override: bool = False
) -> Insight:
    """Ask the author for more information before deciding. `notes` is the question.

    An insight that was decided meanwhile returns to review, if the caller saw the decision or overrides it.
    """
    if not notes.strip():
        raise Invalid(gettext("is missing: write what the author should clarify"), field="review_notes")
    with under_review(caller, insight_id, notes, seen, override) as insight:
        overturned = reopen(caller, insight) if seen or override else ""
        _require_pending(insight)
        before = step_values(insight, "question_at", "snoozed_until")
        insight.question_at = timezone.now()
        insight.snoozed_until = None
        insight.save(update_fields=["question_at", "snoozed_until"])
        others = overridden(caller, insight, seen)
        decision = record_decision(caller, insight, DecisionKind.NEEDS_MORE, notes, before=before, overturns=overturned)
        events.announce_decision(insight, decision, to=[insight.record.created_by], overridden=others)
    return insight


def answer(caller: Caller, operation: AnswerQuestion) -> Insight:
    with transaction.atomic():
        insight = locked_insight(caller, operation.insight_id)
        if not caller.can_edit_for(insight.record.created_by):
            raise Forbidden(
                gettext("belongs to another user: only its author or an admin can answer"), field="insight_id"
            )
        if insight.question_at is None:
            raise Conflict(gettext("has no open question"), field="insight_id")
        insight.question_at = None
        insight.save(update_fields=["question_at"])
        asker = insight.decisions.filter(kind=DecisionKind.NEEDS_MORE).last()
        decision = record_decision(caller, insight, DecisionKind.ANSWERED, operation.notes)
        events.announce_decision(insight, decision, to=[asker.by if asker else "", insight.assignee])
    return insight


def reassign(
    caller: Caller, *, insight_id: UUID | str, to: str, notes: str = "", seen: str = "", override: bool = False
) -> Insight:
    """Ask a colleague to decide. Other curators of the persona can still decide, too.

    Raises NotFound if the colleague can't review insights of this persona, and Conflict if the colleague is the author
    and not an admin.
    """
    with under_review(caller, insight_id, notes, seen, override) as insight:
        _require_pending(insight)
        colleague = reviewer(to, insight.record.persona)
        if colleague is None:
            curators = f"a curator of the persona {insight.record.persona}"
            raise NotFound(
                gettext("%(to)r can't decide on this insight") % {"to": to.strip()[:80]}, field="to", allowed=curators
            )
        if colleague.email == insight.record.created_by and not colleague.is_admin:
            raise Conflict(
                gettext("%(email)s is the author and can't review their own insight") % {"email": colleague.email},
                field="to",
            )
        before = step_values(insight, "assignee", "snoozed_until")
        insight.assignee = colleague.email
        insight.snoozed_until = None
        insight.save(update_fields=["assignee", "snoozed_until"])
        notes = notes or _handed_to(colleague.email)
        decision = record_decision(caller, insight, DecisionKind.HANDED_OVER, notes, before=before)
        events.announce_decision(insight, decision, to=[colleague.email])
    return insight


def open_questions(caller: Caller) -> QuerySet[Insight]:
    rows = Insight.objects.filter(question_at__isnull=False, record__created_by=caller.email, record__status__in=IN_USE)
    return rows.select_related("record").defer("record__search").order_by("question_at")


def conversation(decisions: Iterable[Decision]) -> list[Decision]:
    """Return the decisions whose notes are messages: questions, answers, handovers and appeals."""
    kinds = [DecisionKind.NEEDS_MORE, DecisionKind.ANSWERED, DecisionKind.HANDED_OVER, DecisionKind.APPEALED]
    return [decision for decision in decisions if decision.kind in kinds]


def question_of(insight: Insight) -> Decision | None:
    if insight.question_at is None:
        return None
    return insight.decisions.filter(kind=DecisionKind.NEEDS_MORE).last()


def colleagues(caller: Caller, *, persona: str = "", author: str = "") -> QuerySet[Any]:
    """Return at most MAX_COLLEAGUES users to whom the caller may reassign an insight.

    These are the admins, and the curators who share a persona with the caller. An admin may choose any curator. With
    `persona` and `author`, these are only the users who can review this author's insights of the persona.
    """
    rows = get_user_model().objects.filter(has_right()).exclude(email=caller.email).distinct()
    if not caller.is_admin:
        rows = rows.filter(Q(personas__name__in=caller.personas) | Q(is_superuser=True))
    if persona:
        rows = rows.filter(Q(personas__name=persona) | Q(is_superuser=True))
    if author:
        rows = rows.exclude(email=author, is_superuser=False)
    return rows.order_by("email")[:MAX_COLLEAGUES]


def _require_pending(insight: Insight) -> None:
    if insight.state != InsightState.PENDING:
        raise Conflict(gettext("is %(state)s already") % {"state": insight.state}, field="insight_id")


def _handed_to(email: str) -> str:
    return f"to {email}"


def forget_assignee(email: str, pseudonym: str) -> None:
    """Take a person off the insights that wait for them, and replace their address in the steps of the reviews."""
    Insight.objects.filter(assignee=email).update(assignee="")
    Decision.objects.filter(notes=_handed_to(email)).update(notes=_handed_to(pseudonym))
    for decision in Decision.objects.filter(before__assignee=email):
        Decision.objects.filter(pk=decision.pk).update(before=decision.before | {"assignee": ""})
