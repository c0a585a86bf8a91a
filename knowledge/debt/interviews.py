"""Interviews: questions to one person about what is missing, and what became of them.

A person has at most MAX_OPEN open questions. Each answer is an insight of the person that a curator reviews.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.db import connection, transaction
from django.utils import timezone
from django.utils.translation import gettext

from foundation.database import identity
from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller, require_user
from foundation.people.permissions import build_caller
from knowledge import extensions
from knowledge.debt import candidates, closing, wording
from knowledge.debt.candidates import QuestionCandidate
from knowledge.debt.operations import PASS, UNKNOWN, AnswerInterview, AskQuestions, PassOver, UndoAnswer
from knowledge.debt.questions import own_question
from knowledge.insights.capture import Captured, capture
from knowledge.models import Insight, InsightState, InterviewQuestion
from knowledge.models import QuestionState as State
from knowledge.operations import Capture
from memories import services
from memories.models import MemoryRecord, MemoryRevision, Status
from memories.operations import Forget

MAX_OPEN = 10  # open questions of a person
# Days after which the same question may be asked again, by what became of it.
AGAIN_AFTER = {State.ANSWERED: 90, State.SKIPPED: 30, State.UNKNOWN: 180, State.PASSED: 180, State.CLOSED: 0}


def ask(caller: Caller, operation: AskQuestions) -> list[InterviewQuestion]:
    """Ask what the caller, or as a curator another person, may know. Return the new questions, at most MAX_OPEN.

    Raises Forbidden unless the caller is a curator or asks themselves, NotFound if the person has no active account or
    shares no persona with the caller, and Conflict if nothing can be asked about `entity_urn`.
    """
    require_user(caller)
    person = caller if operation.person.strip().lower() in ("", caller.email) else _person(caller, operation.person)
    urn = operation.entity_urn or ""
    # The memories are read before the transaction, because comparing texts takes time.
    possible = candidates.candidates(caller, person, urn)
    with transaction.atomic():
        chosen = [candidates.with_memories(caller, person, each) for each in _choose(person, possible)]
        asked = [_store(person.email, each, caller.email) for each in chosen]
    if urn and not asked:
        raise Conflict(
            gettext("can't be asked about: nothing is missing, or this person has been asked"), field="entity_urn"
        )
    return asked


def _person(caller: Caller, email: str) -> Caller:
    """Return the Caller of another person whom the caller may ask."""
    if not caller.is_curator:
        raise Forbidden(gettext("only curators can ask other people"))
    return _colleague(caller, email, "person")


def _colleague(caller: Caller, email: str, field: str) -> Caller:
    account = get_user_model().objects.filter(email=email.strip().lower(), is_active=True).first()
    person = build_caller(account, channel="command") if account else None
    if person is None or not (caller.is_admin or caller.personas & person.personas):
        raise NotFound(
            gettext("%(email)r has no active account with one of your personas") % {"email": email.strip()[:80]},
            field=field,
            allowed=gettext("the e-mail address of a colleague"),
        )
    return person


def _choose(person: Caller, possible: Sequence[QuestionCandidate]) -> list[QuestionCandidate]:
    """Return the best candidates for the room that the person has, one for each entity."""
    now = timezone.now()
    with identity.service("debt"):  # the caller may not read what others have asked the person
        room = MAX_OPEN - _lock_and_count(person.email)
        urns = list({candidate.urn for candidate in possible})
        earlier = list(InterviewQuestion.objects.filter(owner=person.email, urn__in=urns))
    blocked = {(row.urn, row.reason) for row in earlier if not _may_ask_again(row, now)}
    busy = {row.urn for row in earlier if row.state == State.OPEN}
    states: dict[str, list[str]] = {}
    for row in earlier:
        states.setdefault(row.urn, []).append(row.state)
    lower = candidates.penalties(states)
    ranked = sorted(possible, key=lambda each: -each.rank * lower.get(each.urn, 1.0))
    chosen: dict[str, QuestionCandidate] = {}
    for each in ranked:
        if each.urn not in busy and (each.urn, each.reason) not in blocked:
            chosen.setdefault(each.urn, each)
    return list(chosen.values())[: max(room, 0)]


def _may_ask_again(row: InterviewQuestion, now: datetime) -> bool:
    days = AGAIN_AFTER.get(State(row.state))
    return days is not None and row.decided_at is not None and row.decided_at + timedelta(days=days) <= now


def _lock_and_count(email: str) -> int:
    """Let one transaction at a time open questions of a person, and return how many are open."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 3))", [email])
    return InterviewQuestion.objects.filter(owner=email, state=State.OPEN).count()


def _store(owner: str, candidate: QuestionCandidate, asked_by: str) -> InterviewQuestion:
    values = {
        "record_ids": list(candidate.record_ids), "since": candidate.since, "asked_by": asked_by, "state": State.OPEN,
        "created_at": timezone.now(), "decided_at": None, "record": None, "stored_new": False,
    }  # fmt: skip
    with identity.service("debt"):  # the row may be one that somebody else has asked before
        question, _ = InterviewQuestion.objects.update_or_create(
            owner=owner, urn=candidate.urn, reason=candidate.reason, defaults=values
        )
    extensions.question_asked(question)
    return question


def answer(caller: Caller, operation: AnswerInterview) -> Captured:
    """Propose the answer as an insight of the caller about the entity. Raises NotFound, and Conflict if decided."""
    question = own_question(caller, operation.question_id)
    _require_open(question)
    proposal = Capture.read(
        {
            "insight_text": operation.content,
            "category": operation.category or wording.CATEGORIES[question.reason],
            "visibility": operation.visibility,
            "entity_urns": [question.urn],
        }
    )
    # The text is embedded outside of a transaction. If the process ends before the question is marked, answering again
    # finds the insight that is there already.
    captured = capture(caller, proposal)
    values = {"record": captured.insight.record, "stored_new": not captured.existing}
    closing.decide(question, State.ANSWERED, **values)
    return captured


def pass_over(caller: Caller, operation: PassOver) -> InterviewQuestion:
    """Leave a question without an answer, which lowers its rank for the caller. With `pass`, ask `to` instead.

    Raises NotFound, Invalid if `to` is missing, and Conflict if the other person can't be asked now.
    """
    question = own_question(caller, operation.question_id)
    _require_open(question)
    states = {UNKNOWN: State.UNKNOWN, PASS: State.PASSED}
    with transaction.atomic():
        closing.decide(question, states.get(operation.because, State.SKIPPED))
        if operation.because == PASS:
            _pass_on(caller, question, operation.to)
    return own_question(caller, question.pk)


def _pass_on(caller: Caller, question: InterviewQuestion, to: str) -> None:
    if not to.strip():
        raise Invalid(gettext("is missing"), field="to", allowed=gettext("the e-mail address of a colleague"))
    person = _colleague(caller, to, "to")
    if person.email == caller.email:
        raise Invalid(gettext("is yourself"), field="to", allowed=gettext("the e-mail address of a colleague"))
    candidate = QuestionCandidate(question.urn, question.reason, 0.0, question.record_ids, question.since)
    if not _choose(person, [candidate]):
        raise Conflict(
            gettext("%(email)s can't be asked now: too many open questions, or asked already")
            % {"email": person.email},
            field="to",
        )
    _store(person.email, candidate, caller.email)


def undo(caller: Caller, operation: UndoAnswer) -> InterviewQuestion:
    """Open a question of the caller again, and withdraw its answer. Take back a question that the caller has asked.

    Raises NotFound, and Conflict if a curator has decided about the answer or if MAX_OPEN others are open.
    """
    with transaction.atomic():
        question = own_question(caller, operation.question_id, or_asked=True, lock=True)
        if question.owner != caller.email:
            _require_open(question)
            closing.decide(question, State.CLOSED)
            return question
        if question.state in (State.OPEN, State.CLOSED):
            raise Conflict(_decided(question), field="question_id")
        if _lock_and_count(caller.email) >= MAX_OPEN:
            raise Conflict(
                gettext("can't be opened again: %(count)s other questions are open") % {"count": MAX_OPEN},
                field="question_id",
            )
        if question.state == State.ANSWERED and question.stored_new and question.record is not None:
            _withdraw(caller, question.record)
        if question.state == State.PASSED:
            _take_back_passed(caller, question)
        values = {"state": State.OPEN, "decided_at": None, "record": None, "stored_new": False}
        InterviewQuestion.objects.filter(pk=question.pk).update(**values)
    return own_question(caller, question.pk)


def _take_back_passed(caller: Caller, question: InterviewQuestion) -> None:
    same = InterviewQuestion.objects.filter(urn=question.urn, reason=question.reason, asked_by=caller.email)
    # The first one since then. What the caller has asked others before or later stays.
    passed_on = same.filter(created_at__gte=question.decided_at).exclude(owner=caller.email).order_by("created_at")
    closing.close_all(InterviewQuestion.objects.filter(pk__in=passed_on.values("pk")[:1]))


def _withdraw(caller: Caller, record: MemoryRecord) -> None:
    if record.status == Status.ARCHIVED:
        return
    insight = Insight.objects.filter(pk=record.pk).first()
    is_reviewed = insight is not None and insight.state != InsightState.PENDING
    if is_reviewed or MemoryRevision.objects.filter(record=record).exists():
        raise Conflict(
            gettext("has an answer that was changed or reviewed since, so it stays: correct %(memory)s if it is wrong")
            % {"memory": record.pk.hex},
            field="question_id",
        )
    services.forget(caller, Forget.read({"id": record.pk.hex}))


def _require_open(question: InterviewQuestion) -> None:
    if question.state != State.OPEN:
        raise Conflict(_decided(question), field="question_id")


def _decided(question: InterviewQuestion) -> str:
    messages = {
        State.OPEN: gettext("is open"),
        State.ANSWERED: gettext("was answered already"),
        State.CLOSED: gettext("is no longer needed"),
    }
    return messages.get(State(question.state), gettext("was skipped already"))
