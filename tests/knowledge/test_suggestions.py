"""Suggestions belong to the person in whose sessions they were found. Nothing is remembered unless they keep it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from foundation.database import retention
from foundation.operations.errors import Conflict, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.people.models import Persona
from knowledge.models import Insight, Suggestion
from knowledge.suggestions import decisions, queries, staging
from knowledge.suggestions.operations import Discard, Keep, NeverAgain, StageCandidates, UndoDecisions
from memories import services
from memories.conversation.operations import StoreMessages
from memories.conversation.turns import store_messages
from memories.models import MemoryRecord, Status
from memories.operations import Erase, Remember, Revise
from memories.writing.erasure import erase
from memory_project import audit
from memory_project.agents import conversations, unanswered
from memory_project.models import AuditEvent, Notification, User
from tests.pages import browser, give, inbox, take_back
from tests.rest_client import client, post

pytestmark = pytest.mark.django_db
STAGE, API = "/api/v1/hooks/candidates/", "/api/v1/suggestions/"
REFUNDS = "Net revenue excludes refunds, which are in refund_eur."
LATE = "Swiss orders land in sales.revenue_mart two days late."


def candidates(*texts: str, **fields: Any) -> list[dict[str, Any]]:
    return [{"kind": "correction", "text": text, "evidence": "", "entities": [], **fields} for text in texts]


def stage(caller: Caller, *texts: str, session: str = "s1") -> staging.Staged:
    return staging.stage(caller, StageCandidates.read({"session": session, "candidates": candidates(*texts)}))


def staged(caller: Caller, text: str = REFUNDS, **places: str) -> Suggestion:
    staging.stage(caller, StageCandidates.read({"session": "s1", "candidates": candidates(text), **places}))
    return queries.suggestions(caller).get(text=text)


def ids(*rows: Suggestion) -> dict[str, list[str]]:
    return {"suggestion_ids": [row.pk.hex for row in rows]}


def waiting(caller: Caller) -> list[str]:
    return sorted(queries.waiting(caller).values_list("text", flat=True))


# -- staging -------------------------------------------------------------------------------------------------


def test_staging_again_changes_nothing_and_counts_further_sessions(alice: Caller) -> None:
    assert stage(alice, REFUNDS, LATE) == staging.Staged(staged=2)
    assert stage(alice, REFUNDS, f"  {LATE.upper()}  ") == staging.Staged(known=2)
    assert stage(alice, REFUNDS, session="s2") == staging.Staged(known=1)
    assert waiting(alice) == sorted([REFUNDS, LATE])
    assert Suggestion.objects.get(text=REFUNDS).times_seen == 2


def test_what_a_person_remembers_already_and_secrets_are_left_out(alice: Caller, bob: Caller) -> None:
    services.remember(alice, Remember(content=LATE))
    secret = "From now on revenue is read with password=hunter2222 from the mart."
    assert stage(alice, LATE, secret) == staging.Staged(known=1, left_out=1)
    assert stage(bob, LATE).staged == 1


def test_an_inbox_has_a_limit(alice: Caller, bob: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "MAX_WAITING", 1)
    assert stage(alice, REFUNDS, LATE) == staging.Staged(staged=1, left_out=1)
    assert stage(bob, LATE).staged == 1


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"kind": "open_question"}, "candidates[1].kind"),
        ({"text": "too short"}, "candidates[1].text"),
        ({"text": "x" * 501}, "candidates[1].text"),
        ({"entities": ["x"] * 11}, "candidates[1].entities"),
        ({"owner": "olga@example.org"}, "candidates[1].owner"),
    ],
)
def test_bad_candidates_are_refused_as_a_whole(fields: dict[str, Any], fault: str, alice_user: User) -> None:
    body = {"session": "s1", "candidates": [*candidates(LATE), *candidates(REFUNDS, **fields)]}
    response = post(client(alice_user), STAGE, body)
    assert (response.status_code, response.json()["field"]) == (400, fault)
    assert not Suggestion.objects.exists()


# -- decisions -----------------------------------------------------------------------------------------------


def test_nothing_is_remembered_before_it_is_kept(alice: Caller, bob: Caller) -> None:
    suggestion = staged(alice, repository="github.com/fern/mart", program="claude-code")
    assert not MemoryRecord.objects.exists()
    kept = decisions.keep(alice, Keep(suggestion_id=suggestion.pk))
    record = kept.record
    assert (record.content, record.created_by, record.visibility) == (REFUNDS, alice.email, "private")
    assert (record.category, record.tags) == ("correction", ["repo:github.com/fern/mart"])
    assert waiting(alice) == []
    with pytest.raises(Conflict, match="was kept already"):
        decisions.keep(alice, Keep(suggestion_id=suggestion.pk))
    assert not MemoryRecord.objects.visible_to(bob).exists()


def test_keeping_as_an_insight_waits_for_review(alice: Caller) -> None:
    suggestion = staged(alice)
    edited = "Net revenue excludes refunds and vouchers."
    kept = decisions.keep(
        alice, Keep(suggestion_id=suggestion.pk, keep_as="insight", content=edited, visibility="persona")
    )
    insight = Insight.objects.get(pk=kept.record.pk)
    assert (insight.state, insight.record.content, insight.wanted_visibility) == ("pending", edited, "persona")


def test_each_decision_can_be_undone(alice: Caller) -> None:
    kept, gone, never = (staged(alice, text) for text in (REFUNDS, LATE, "We decided that Nord belongs to KUE."))
    record = decisions.keep(alice, Keep(suggestion_id=kept.pk)).record
    decisions.discard(alice, Discard.read(ids(gone)))
    decisions.never_again(alice, NeverAgain.read(ids(never)))
    assert waiting(alice) == []
    decisions.undo(alice, UndoDecisions.read(ids(kept, gone, never)))
    assert len(waiting(alice)) == 3
    record.refresh_from_db()
    assert record.status == Status.ARCHIVED
    assert decisions.keep(alice, Keep(suggestion_id=kept.pk)).existing is False


def test_keeping_what_exists_already_and_undoing_it_leaves_the_memory_alone(alice: Caller) -> None:
    suggestion = staged(alice)
    record = services.remember(alice, Remember(content=REFUNDS)).record
    assert decisions.keep(alice, Keep(suggestion_id=suggestion.pk)).existing
    decisions.undo(alice, UndoDecisions.read(ids(suggestion)))
    record.refresh_from_db()
    assert record.status == Status.ACTIVE


def test_a_memory_that_has_changed_since_is_not_archived_by_an_undo(alice: Caller) -> None:
    suggestion, other = staged(alice), staged(alice, LATE)
    record = decisions.keep(alice, Keep(suggestion_id=suggestion.pk)).record
    decisions.discard(alice, Discard.read(ids(other)))
    services.revise(alice, Revise(record_id=record.pk, content="Net revenue excludes refunds and tax."))
    with pytest.raises(Conflict, match="changed since"):
        decisions.undo(alice, UndoDecisions.read(ids(suggestion, other)))
    assert waiting(alice) == []


def test_never_again_holds_for_texts_like_it(alice: Caller, bob: Caller) -> None:
    decisions.never_again(alice, NeverAgain.read(ids(staged(alice))))
    again = "Net revenue always excludes the refunds, which are in refund_eur"
    other = "Net revenue includes refunds, which are in refund_eur."
    assert stage(alice, REFUNDS, again, other, session="s9") == staging.Staged(staged=1, known=2)
    assert waiting(alice) == [other]
    assert stage(bob, REFUNDS).staged == 1


def test_a_question_is_kept_with_its_answer_only(alice: Caller) -> None:
    staging.stage_questions(alice, [("Nothing is known about: trial customers", "Asked 5 times.")])
    (suggestion,) = queries.waiting(alice)
    with pytest.raises(Invalid, match="content"):
        decisions.keep(alice, Keep(suggestion_id=suggestion.pk))
    answer = "Trial customers are those without an invoice."
    assert decisions.keep(alice, Keep(suggestion_id=suggestion.pk, content=answer)).record.content == answer


# -- doors -----------------------------------------------------------------------------------------------------


def test_nobody_else_sees_or_decides(alice: Caller, alice_user: User, olga_user: User, ada_user: User) -> None:
    suggestion = staged(alice)
    for user in (olga_user, ada_user):
        door = client(user)
        assert door.get(API).json()["items"] == []
        assert door.get(f"{API}{suggestion.pk.hex}/").status_code == 404
        assert post(door, f"{API}{suggestion.pk.hex}/keep/", {}).status_code == 404
        for verb in ("discard", "never-again", "undo"):
            assert post(door, f"{API}{verb}/", ids(suggestion)).status_code == 404
        stranger = browser(user)
        assert REFUNDS not in stranger.get(inbox("suggestion")).content.decode()
        assert "you have no such suggestion" in give(stranger, "suggestion", "keep", suggestion.pk.hex)
    assert waiting(alice) == [REFUNDS]
    assert not MemoryRecord.objects.exists()
    assert [item["text"] for item in client(alice_user).get(API).json()["items"]] == [REFUNDS]


def test_the_rest_api_stages_keeps_and_undoes(alice_user: User) -> None:
    door = client(alice_user)
    body = {"session": "s1", "program": "codex", "repository": None, "candidates": candidates(REFUNDS, LATE)}
    assert post(door, STAGE, body).json() == {"staged": 2, "known": 0, "left_out": 0}
    assert post(door, STAGE, body).json() == {"staged": 0, "known": 2, "left_out": 0}
    first, second = door.get(f"{API}?state=waiting").json()["items"]
    kept = post(door, f"{API}{first['id']}/keep/", {"visibility": "persona"}).json()
    assert MemoryRecord.objects.get(pk=kept["memory_id"]).visibility == "persona"
    assert post(door, f"{API}discard/", {"suggestion_ids": [second["id"]]}).json()["count"] == 1
    assert post(door, f"{API}discard/", {"suggestion_ids": [second["id"]]}).status_code == 409
    both = {"suggestion_ids": [first["id"], second["id"]]}
    assert post(door, f"{API}undo/", both).json()["count"] == 2
    assert "refund_eur" not in str(list(AuditEvent.objects.values_list("arguments", flat=True)))


def test_a_persona_that_may_store_nothing_may_not_keep(alice: Caller, alice_user: User) -> None:
    suggestion = staged(alice)
    Persona.objects.filter(name="sales").update(tools_deny=["memory_manage.remember", "capture_insight"])
    for keep_as in ("memory", "insight"):
        response = post(client(alice_user), f"{API}{suggestion.pk.hex}/keep/", {"keep_as": keep_as})
        assert response.status_code == 403
    assert not MemoryRecord.objects.exists()


def test_the_page_keeps_discards_and_offers_to_undo(alice: Caller, alice_user: User) -> None:
    owner = browser(alice_user)
    page = inbox("suggestion")
    assert "No suggestions" in owner.get(page).content.decode()
    rows = [staged(alice, text) for text in (REFUNDS, LATE, "<b>Orders</b> of KUE & Nord are the same since July.")]
    shown = owner.get(page).content.decode()
    assert "&lt;b&gt;Orders" in shown
    assert "<b>Orders" not in shown
    assert "Discard: 2 cases." in give(owner, "suggestion", "discard", *(row.pk.hex for row in rows[:2]))
    assert "Undone." in take_back(owner, "suggestion")
    assert len(waiting(alice)) == 3
    values = {"content": "Net revenue excludes refunds.", "visibility": "everyone"}
    give(owner, "suggestion", "keep", rows[0].pk.hex, **values)
    assert MemoryRecord.objects.get().content == "Net revenue excludes refunds."
    assert "one or more cases" in give(owner, "suggestion", "discard")
    assert "one case for the verdict keep" in give(owner, "suggestion", "keep", *(row.pk.hex for row in rows))
    assert "keep, propose, discard, never" in give(owner, "suggestion", "burn", rows[1].pk.hex)


# -- what ends them --------------------------------------------------------------------------------------------


def test_one_notification_a_day_that_ends_with_the_last_decision(alice: Caller, bob: Caller) -> None:
    first, second = staged(alice), staged(alice, LATE)
    staged(bob)
    notice = Notification.objects.get(person__email=alice.email, kind="suggested")
    decisions.discard(alice, Discard.read(ids(first)))
    assert Notification.objects.filter(pk=notice.pk).exists()
    decisions.discard(alice, Discard.read(ids(second)))
    assert not Notification.objects.filter(pk=notice.pk).exists()


def test_suggestions_expire_unless_they_are_never_to_come_again(alice: Caller) -> None:
    old, never = staged(alice), staged(alice, LATE)
    decisions.never_again(alice, NeverAgain.read(ids(never)))
    Suggestion.objects.filter(pk=old.pk).update(expires_at=timezone.now() - timedelta(minutes=1))
    assert retention.delete_expired()["suggestions"] == 1
    assert list(queries.suggestions(alice).values_list("text", flat=True)) == [LATE]


def test_erasing_the_memory_erases_the_suggestion(alice: Caller) -> None:
    suggestion = staged(alice)
    record = decisions.keep(alice, Keep(suggestion_id=suggestion.pk)).record
    erase(alice, Erase(record_id=record.pk, confirm=True))
    assert not Suggestion.objects.exists()


# -- other sources ---------------------------------------------------------------------------------------------


def test_finished_conversations_have_suggestions(alice: Caller, alice_user: User) -> None:
    messages = [{"role": "ai", "content": "Revenue was 1.8 M."}, {"role": "human", "content": f"No, {REFUNDS}"}]
    store_messages(alice, StoreMessages.read({"user_id": alice.email, "conversation_id": "c1", "messages": messages}))
    assert conversations.stage_finished() == "0 conversations read, 0 suggestions"
    MemoryRecord.objects.update(created_at=timezone.now() - timedelta(hours=1))
    assert conversations.stage_finished() == "1 conversations read, 1 suggestions"
    assert conversations.stage_finished() == "1 conversations read, 0 suggestions"
    assert waiting(alice) == [REFUNDS]
    alice_user.is_active = False
    alice_user.save()
    assert conversations.stage_finished() == "0 conversations read, 0 suggestions"


def test_a_question_that_is_asked_again_and_again_without_an_answer(alice: Caller, bob: Caller) -> None:
    def ask(caller: Caller, question: str, hits: int) -> None:
        audit.record(
            caller, tool="memory_recall", outcome="ok", duration_ms=1, arguments={"query": question},
            answer={"memories": [], "count": hits}, request_chars=1, response_chars=1,
        )  # fmt: skip

    for number in range(5):
        ask(alice, "How are trial customers counted?", 0)
        ask(alice, "How are refunds counted?", number // 4)
        ask(bob, "What is a region?", 0)
    assert unanswered.stage_questions_without_answers() == "0 suggestions"
    first = AuditEvent.objects.filter(email=alice.email).order_by("at", "pk").values("pk")[:2]
    AuditEvent.objects.filter(pk__in=list(first.values_list("pk", flat=True))).update(
        at=timezone.now() - timedelta(days=2)
    )
    assert unanswered.stage_questions_without_answers() == "1 suggestions"
    assert unanswered.stage_questions_without_answers() == "0 suggestions"
    assert waiting(alice) == ["Nothing is known about: how are trial customers counted?"]
    assert waiting(bob) == []


def test_unknown_ids_are_refused(alice: Caller, bob: Caller) -> None:
    own, others = staged(alice), staged(bob, LATE)
    with pytest.raises(NotFound, match="no such suggestion"):
        decisions.discard(alice, Discard.read(ids(own, others)))
    assert waiting(alice) == [REFUNDS]
