"""Knowledge debt: what is computed of an entity, who may know of it, and interviews about it."""

from __future__ import annotations

from datetime import timedelta
from math import log
from typing import Any

import pytest
from django.utils import timezone

from foundation.operations.errors import Conflict, Forbidden, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from knowledge.debt import computation, interviews, queries, questions, uses
from knowledge.debt.experts import experts
from knowledge.debt.operations import AnswerInterview, AskQuestions, PassOver, UndoAnswer
from knowledge.debt.queries import DebtFilter
from knowledge.models import CatalogEntity, Contradiction, EntityDebt, EntityUse, Insight, InterviewQuestion
from memories import services
from memories.models import Impression, MemoryRecord, Status, Visibility
from memories.operations import Erase, Remember
from memories.writing.erasure import erase
from memory_project import audit
from memory_project.audit import entity_uses
from memory_project.models import Notification, User
from tests.conftest import person
from tests.knowledge.conftest import MART, ORDERS, REFUNDS, column, put

pytestmark = pytest.mark.django_db
ANSWER = "Orders hold one row per order; refunds are separate rows."


@pytest.fixture(autouse=True)
def settled_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uses, "SETTLED", timedelta(0))


@pytest.fixture(autouse=True)
def catalog(db: None) -> None:
    for urn, description in ((ORDERS, ""), (REFUNDS, "Refunds by day."), (MART, "")):
        put(urn, "datasetProperties", {"description": description} if description else {})
        put(urn, "schemaMetadata", {"fields": [column("id")]})


@pytest.fixture
def carl(personas: dict[str, Persona]) -> Caller:
    return build_caller(person("carl@example.org", personas["sales"]), channel="test")


def call(caller: Caller, *, hits: int = 0, query: str = "", **arguments: Any) -> None:
    given = {"query": query, **arguments}
    answer = {"count": hits}
    audit.record(
        caller, tool=audit.RECALL, outcome="ok", duration_ms=1, arguments=given, answer=answer,
        request_chars=1, response_chars=1,
    )  # fmt: skip


def remember(caller: Caller, content: str, *urns: str, **fields: Any) -> MemoryRecord:
    fact = Remember.read({"content": content, "entity_urns": list(urns), **fields})
    return services.remember(caller, fact).record


def compute() -> None:
    entity_uses.count_new_calls()
    computation.compute()


def debt(caller: Caller, urn: str = ORDERS) -> queries.Debt | None:
    return queries.debts_of(caller, [urn]).get(urn)


def ask(caller: Caller, **fields: Any) -> list[InterviewQuestion]:
    return interviews.ask(caller, AskQuestions.read(fields))


def asked(caller: Caller) -> InterviewQuestion:
    """Let the caller ask themselves about ORDERS, of which they have written."""
    remember(caller, "Orders from Bern are late.", ORDERS)
    compute()
    (question,) = ask(caller)
    return question


# -- what is computed ----------------------------------------------------------------------------------------------


def test_calls_are_counted_once_and_only_if_enough_people_made_them(
    alice: Caller, bob: Caller, carl: Caller, ada: Caller
) -> None:
    for caller in (alice, bob):
        call(caller, entity_urns=[ORDERS])
    call(alice, query="What is in sales.orders about refunds?")
    compute()
    compute()
    assert EntityUse.objects.get(owner=alice.email).calls == 2
    found = debt(ada)
    assert found is not None
    assert (found.calls, found.unanswered, found.reasons) == (0, 0, ["no_description"])
    call(carl, entity_urns=[ORDERS])
    compute()
    found = debt(ada)
    assert found is not None
    assert (found.calls, found.unanswered, found.reasons) == (4, 4, ["unanswered", "no_description"])


def test_calls_and_memories_of_a_persona_are_unknown_to_outsiders(
    alice: Caller, bob: Caller, carl: Caller, olga: Caller
) -> None:
    record = remember(alice, "Orders from Bern are late.", ORDERS)
    remember(alice, "A private note about the refunds.", REFUNDS, visibility="private")
    MemoryRecord.objects.update(status=Status.STALE, stale_at=timezone.now(), stale_reason="x")
    for caller in (alice, bob, carl):
        call(caller, entity_urns=[ORDERS])
        Impression.objects.create(record=record, to=caller.email, connection="c", tool="t", version="v")
    compute()
    seen, outside = debt(bob), debt(olga)
    assert seen is not None
    assert outside is not None
    assert (seen.calls, seen.recalled, seen.stale, seen.unanswered) == (3, 3, 1, 3)
    assert (outside.calls, outside.recalled, outside.stale, outside.unanswered) == (0, 0, 0, 0)
    assert (outside.no_description, outside.score) == (1, queries.WEIGHTS["no_description"] * log(2))
    assert debt(alice, REFUNDS) is None  # a private memory is no debt of others


def test_only_curators_see_the_list_and_only_their_personas(alice: Caller, cora: Caller) -> None:
    with pytest.raises(Forbidden):
        queries.debt_page(alice, DebtFilter())
    compute()
    assert [row.urn for row in queries.debt_page(cora, DebtFilter()).rows] == [MART, ORDERS]
    assert [row.urn for row in queries.debt_page(cora, DebtFilter(text="ORD")).rows] == [ORDERS]
    with pytest.raises(Invalid, match="persona"):
        queries.debt_page(cora, DebtFilter(persona="supply"))
    with pytest.raises(Invalid, match="reason"):
        queries.debt_page(cora, DebtFilter(reason="nothing"))
    with pytest.raises(Invalid, match="after"):
        queries.debt_page(cora, DebtFilter(), "x~y")


def test_the_pages_of_the_list_neither_repeat_nor_leave_out(cora: Caller) -> None:
    EntityDebt.objects.bulk_create(
        EntityDebt(urn=f"urn:li:dataset:{n:03}", persona="*", name=str(n), stale=n % 7, no_description=1)
        for n in range(50)
    )
    seen, after = [], ""
    while True:
        page = queries.debt_page(cora, DebtFilter(), after)
        seen += [row.urn for row in page.rows]
        after = page.after
        if not after:
            break
    assert len(seen) == len(set(seen)) == 50


def test_removed_entities_have_no_debt(ada: Caller) -> None:
    compute()
    put(ORDERS, "status", {"removed": True})
    assert CatalogEntity.objects.get(pk=ORDERS).removed
    compute()
    assert debt(ada) is None


def test_experts_are_owners_and_authors_whose_memories_the_reader_may_read(
    alice: Caller, bob: Caller, olga: Caller, cora: Caller, settings: Any
) -> None:
    put(ORDERS, "ownership", {"owners": [{"owner": f"urn:li:corpuser:{bob.email}", "type": "DATAOWNER"}]})
    remember(alice, "Orders from Bern are late.", ORDERS)
    remember(olga, "Orders of the supply chain are late.", ORDERS)
    remember(cora, "My private note about orders.", ORDERS, visibility="private")
    call(cora, entity_urns=[ORDERS])
    compute()
    named = {expert.email: expert.why for expert in experts(cora, [ORDERS])[ORDERS]}
    assert named == {bob.email: "owner", alice.email: "author"}
    settings.DEBT_FREQUENT_CALLS = 1
    assert cora.email in {expert.email for expert in experts(alice, [ORDERS])[ORDERS]}
    User.objects.filter(email=bob.email).update(is_active=False)
    assert bob.email not in {expert.email for expert in experts(cora, [ORDERS])[ORDERS]}


# -- interviews ----------------------------------------------------------------------------------------------------


def test_an_answer_becomes_an_insight_about_the_entity_and_lowers_the_debt(alice: Caller, ada: Caller) -> None:
    question = asked(alice)
    before = debt(ada)
    interviews.answer(alice, AnswerInterview.read({"question_id": question.pk.hex, "content": ANSWER}))
    insight = Insight.objects.get(record__content=ANSWER)
    assert (insight.record.created_by, insight.record.entity_urns, insight.state) == (alice.email, [ORDERS], "pending")
    assert insight.record.visibility == Visibility.PRIVATE
    compute()
    after = debt(ada)
    assert before is not None
    assert after is not None
    assert after.score < before.score
    assert ask(alice) == []  # not the same again


def test_undoing_an_answer_withdraws_the_insight(alice: Caller) -> None:
    question = asked(alice)
    answered = interviews.answer(alice, AnswerInterview.read({"question_id": question.pk.hex, "content": ANSWER}))
    assert interviews.undo(alice, UndoAnswer(question_id=question.pk)).state == "open"
    answered.insight.record.refresh_from_db()
    assert answered.insight.record.status == Status.ARCHIVED
    with pytest.raises(Conflict):
        interviews.undo(alice, UndoAnswer(question_id=question.pk))


def test_erasing_the_answer_closes_the_question_and_the_debt_is_as_before(alice: Caller, ada: Caller) -> None:
    question = asked(alice)
    before = debt(ada)
    captured = interviews.answer(alice, AnswerInterview.read({"question_id": question.pk.hex, "content": ANSWER}))
    erase(alice, Erase(record_id=captured.insight.pk, confirm=True))
    question.refresh_from_db()
    assert (question.state, question.record_id) == ("closed", None)
    compute()
    assert debt(ada) == before
    assert [row.pk for row in ask(alice)] == [question.pk]


def test_nobody_else_reads_answers_or_undoes_a_question(alice: Caller, bob: Caller, cora: Caller, olga: Caller) -> None:
    question = asked(alice)
    for caller in (bob, cora, olga):
        assert questions.own(caller).count() == 0
        with pytest.raises(NotFound):
            interviews.answer(caller, AnswerInterview.read({"question_id": question.pk.hex, "content": ANSWER}))
        with pytest.raises(NotFound):
            interviews.pass_over(caller, PassOver(question_id=question.pk))
        with pytest.raises(NotFound):
            interviews.undo(caller, UndoAnswer(question_id=question.pk))
    assert not Insight.objects.exists()


def test_skipped_and_unknown_questions_are_not_asked_again_soon_and_lower_the_rank(alice: Caller) -> None:
    remember(alice, "Orders and the mart are late.", ORDERS, MART)
    record = remember(alice, "Orders from Basel are late.", ORDERS)
    compute()
    first, second = ask(alice)
    assert [first.urn, second.urn] == [MART, ORDERS]
    interviews.pass_over(alice, PassOver(question_id=first.pk, because="unknown"))
    interviews.pass_over(alice, PassOver(question_id=second.pk))
    assert ask(alice) == []
    MemoryRecord.objects.filter(pk=record.pk).update(status=Status.STALE, stale_at=timezone.now(), stale_reason="x")
    InterviewQuestion.objects.update(decided_at=timezone.now() - timedelta(days=31))
    compute()
    (again,) = ask(alice)  # skipped a month ago; what is unknown is asked after half a year
    assert (again.urn, again.reason) == (ORDERS, "stale")


def test_a_curator_asks_a_colleague_of_a_shared_persona_alone(
    alice: Caller, bob: Caller, cora: Caller, olga: Caller, olga_user: User
) -> None:
    compute()
    with pytest.raises(Forbidden):
        ask(bob, person=alice.email, entity_urn=ORDERS)
    with pytest.raises(NotFound):
        ask(cora, person=olga.email, entity_urn=ORDERS)
    with pytest.raises(NotFound):
        ask(cora, person="nobody@example.org", entity_urn=ORDERS)
    (question,) = ask(cora, person=alice.email, entity_urn=ORDERS)
    assert (question.owner, question.asked_by, question.reason) == (alice.email, cora.email, "no_description")
    with pytest.raises(Conflict):
        ask(cora, person=alice.email, entity_urn=ORDERS)
    with pytest.raises(Conflict):
        ask(cora, person=alice.email, entity_urn=REFUNDS)  # nothing is missing
    assert [shown.text for shown in questions.shown(alice, list(questions.open_questions(alice)))] == [
        "The catalog has no description of sales.orders. What is in it, and what is it used for?"
    ]
    told = Notification.objects.filter(kind="interviewed")
    assert list(told.values_list("person__email", "by")) == [(alice.email, cora.email)]
    assert interviews.undo(cora, UndoAnswer(question_id=question.pk)).state == "closed"
    assert not questions.open_questions(alice).exists()
    assert not told.exists()


def test_a_leaver_is_not_asked_by_what_only_the_leaver_may_read(alice: Caller, cora: Caller) -> None:
    remember(alice, "My private note about orders.", ORDERS, visibility="private")
    compute()
    assert ask(cora, person=alice.email) == []
    assert [question.urn for question in ask(alice)] == [ORDERS]


def test_a_person_has_at_most_ten_open_questions(alice: Caller, cora: Caller) -> None:
    urns = [f"urn:li:dataset:(urn:li:dataPlatform:snowflake,sales.t{n},PROD)" for n in range(12)]
    for urn in urns:
        put(urn, "datasetProperties", {"qualifiedName": urn})
        remember(alice, f"A note about {urn}.", urn)
    compute()
    assert len(ask(alice)) == 10
    assert ask(alice) == []
    with pytest.raises(Conflict):
        ask(cora, person=alice.email, entity_urn=ORDERS)


def test_a_passed_question_is_asked_of_the_other_and_taken_back_with_an_undo(
    alice: Caller, bob: Caller, olga: Caller
) -> None:
    question = asked(alice)
    for to, error in (("", Invalid), (alice.email, Invalid), (olga.email, NotFound)):
        with pytest.raises(error, match="to"):
            interviews.pass_over(alice, PassOver(question_id=question.pk, because="pass", to=to))
    question.refresh_from_db()
    assert question.state == "open"
    interviews.pass_over(alice, PassOver(question_id=question.pk, because="pass", to=bob.email))
    assert [row.urn for row in questions.open_questions(bob)] == [ORDERS]
    assert Notification.objects.filter(kind="interviewed", person__email=bob.email).count() == 1
    interviews.undo(alice, UndoAnswer(question_id=question.pk))
    assert not questions.open_questions(bob).exists()
    assert not Notification.objects.filter(kind="interviewed", person__email=bob.email).exists()


@pytest.mark.parametrize("is_first", [True, False])
def test_the_undo_of_a_pass_keeps_what_the_person_has_asked_others(
    alice: Caller, bob: Caller, cora: Caller, is_first: bool
) -> None:
    for caller in (alice, bob, cora):
        remember(caller, f"{caller.email} says that orders from Bern are late.", ORDERS)
    compute()
    (own,) = ask(cora)
    if is_first:
        ask(cora, person=bob.email, entity_urn=ORDERS)
    interviews.pass_over(cora, PassOver(question_id=own.pk, because="pass", to=alice.email))
    if not is_first:
        ask(cora, person=bob.email, entity_urn=ORDERS)
    (of_bob,) = questions.open_questions(bob)
    interviews.undo(cora, UndoAnswer(question_id=own.pk))
    assert [row.pk for row in questions.open_questions(bob)] == [of_bob.pk]
    assert not questions.open_questions(alice).exists()


def test_a_question_says_that_a_colleague_has_answered_it_meanwhile(alice: Caller, bob: Caller) -> None:
    question = asked(alice)
    remember(bob, "Orders from Basel are late.", ORDERS)
    (other,) = ask(bob)
    interviews.answer(bob, AnswerInterview.read({"question_id": other.pk.hex, "content": ANSWER}))
    (shown,) = questions.shown(alice, [question])
    assert shown.is_answered_by_others


def test_questions_of_disabled_accounts_and_about_removed_entities_are_closed(alice: Caller, bob: Caller) -> None:
    question = asked(alice)
    remember(bob, "Orders from Basel are late.", ORDERS)
    (other,) = ask(bob)
    User.objects.filter(email=alice.email).update(is_active=False)
    compute()
    states = dict(InterviewQuestion.objects.values_list("pk", "state"))
    assert states == {question.pk: "closed", other.pk: "open"}
    put(ORDERS, "status", {"removed": True})
    compute()
    other.refresh_from_db()
    assert other.state == "closed"


def test_two_texts_that_contradict_each_other_are_asked_about(alice: Caller, bob: Caller, olga: Caller) -> None:
    one = remember(alice, "Net revenue in sales.orders excludes refunds.", ORDERS)
    other = remember(bob, "Net revenue in sales.orders includes refunds.", ORDERS)
    keys = {"first_key": one.content_key, "second_key": other.content_key}
    Contradiction.objects.create(first=one, second=other, reason="excludes against includes", **keys)
    compute()
    (question,) = ask(alice)
    assert (question.reason, len(question.record_ids)) == ("contested", 2)
    (shown,) = questions.shown(alice, [question])
    assert len(shown.records) == 2
    assert "contradict" in shown.text
    (elsewhere,) = questions.shown(olga, [question])
    assert elsewhere.records == []
