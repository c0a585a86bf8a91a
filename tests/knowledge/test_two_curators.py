"""Two curators decide on the same insight: the second is told what the first did, and may decide nevertheless."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import Group
from django.core import mail
from django.test import Client
from django.urls import reverse

from foundation.operations.errors import Conflict, Forbidden, Invalid
from foundation.people.caller import Caller
from foundation.people.models import Persona
from foundation.people.permissions import build_caller
from knowledge.insights.capture import capture
from knowledge.insights.lifecycle import edit
from knowledge.insights.seen import ChangedMeanwhile, version_of
from knowledge.mcp_tools.curate import apply_knowledge
from knowledge.models import Insight
from knowledge.operations import AnswerQuestion, Capture, Edit
from knowledge.review import clarifications, decisions, suggested
from memories import services
from memories.models import Batch
from memories.operations import MarkFeedback, Revise
from memories.writing import bulk_actions, feedback
from memory_project.models import Notification, User
from tests.conftest import person
from tests.knowledge.conftest import ORDERS
from tests.pages import give, inbox
from tests.queued_tasks import run_queued_tasks

pytestmark = pytest.mark.usefixtures("small_catalog")
CLAIM = "Closed orders include cancelled ones since the new till."
DESCRIBE = {"action_type": "update_description", "target": "column:status", "detail": "Closed includes cancelled."}
CORA, CARL = "cora@example.org", "carl@example.org"


def propose(caller: Caller, text: str = CLAIM) -> Insight:
    values = {"category": "data_quality", "entity_urns": [ORDERS], "suggested_actions": [DESCRIBE]}
    return capture(caller, Capture.read({"insight_text": text, **values})).insight


@pytest.fixture
def insight(alice: Caller) -> Insight:
    return propose(alice)


@pytest.fixture
def carl_user(personas: dict[str, Persona], curators: Group) -> User:
    user = person(CARL, personas["sales"], is_staff=True)
    user.groups.add(curators)
    return User.objects.get(pk=user.pk)


@pytest.fixture
def carl(carl_user: User) -> Caller:
    """A second curator of the persona sales."""
    return build_caller(carl_user, channel="test")


@pytest.fixture
def desk(carl_user: User) -> Client:
    client = Client()
    client.force_login(carl_user)
    return client


def token(insight: Insight) -> str:
    return version_of(Insight.objects.select_related("record").get(pk=insight.pk))


def state(insight: Insight) -> tuple[str, str]:
    insight.refresh_from_db()
    return insight.state, insight.reviewed_by


def told(email: str) -> list[tuple[str, str]]:
    return list(Notification.objects.filter(person__email=email).order_by("pk").values_list("kind", "by"))


# -- services -------------------------------------------------------------------------------------------------


def test_the_second_decision_is_refused_and_names_the_first(insight: Insight, cora: Caller, carl: Caller) -> None:
    seen = token(insight)
    decisions.approve(cora, insight_id=insight.pk, seen=seen)
    with pytest.raises(ChangedMeanwhile, match=rf"{CORA} approved it on \d{{4}}-\d\d-\d\d at .*It is approved now"):
        decisions.reject(carl, insight_id=insight.pk, notes="Not true", seen=seen)
    assert state(insight) == ("approved", CORA)
    decisions.reject(carl, insight_id=insight.pk, notes="Not true", seen=seen, override=True)
    assert state(insight) == ("rejected", CARL)
    assert insight.decisions.last().overturns == CORA  # type: ignore[union-attr]
    assert told(CORA) == [("overturned", CARL)]


def test_a_rejection_of_an_approval_that_was_seen_needs_no_override(
    insight: Insight, cora: Caller, carl: Caller
) -> None:
    decisions.approve(cora, insight_id=insight.pk)
    with pytest.raises(ChangedMeanwhile, match=f"{CORA} approved it"):
        decisions.reject(carl, insight_id=insight.pk, notes="Not true")
    decisions.reject(carl, insight_id=insight.pk, notes="Not true", seen=token(insight))
    assert state(insight) == ("rejected", CARL)
    assert told(CORA) == [("overturned", CARL)]


def test_a_curator_may_change_their_own_decision_without_a_token(insight: Insight, cora: Caller) -> None:
    decisions.approve(cora, insight_id=insight.pk)
    decisions.reject(cora, insight_id=insight.pk, notes="On second thought")
    assert state(insight) == ("rejected", CORA)
    assert told(CORA) == []


def test_a_rejected_insight_is_approved_by_override(insight: Insight, cora: Caller, carl: Caller) -> None:
    seen = token(insight)
    decisions.reject(cora, insight_id=insight.pk, notes="Too vague")
    for known in ("", seen):
        with pytest.raises(Conflict, match=CORA):
            decisions.approve(carl, insight_id=insight.pk, seen=known)
    decisions.approve(carl, insight_id=insight.pk, seen=seen, override=True)
    assert state(insight) == ("approved", CARL)
    insight.record.refresh_from_db()
    assert (insight.record.status, insight.record.visibility) == ("active", "persona")
    assert told(CORA) == [("overturned", CARL)]


def test_the_author_is_told_of_the_override_by_mail(
    insight: Insight, cora: Caller, carl: Caller, settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    settings.EMAIL_HOST = "localhost"
    decisions.reject(cora, insight_id=insight.pk, notes="Too vague")
    with django_capture_on_commit_callbacks(execute=True):
        decisions.approve(carl, insight_id=insight.pk, override=True)
    assert run_queued_tasks("memory_project.tasks.mail_overturned") == [True, True]
    assert {address for message in mail.outbox for address in message.to} == {CORA, "alice@example.org"}
    assert "carl@example.org approved an insight that cora@example.org had rejected" in mail.outbox[0].body


def test_a_question_about_a_decided_insight_returns_it_to_review_by_override(
    insight: Insight, cora: Caller, carl: Caller
) -> None:
    seen = token(insight)
    decisions.approve(cora, insight_id=insight.pk)
    with pytest.raises(ChangedMeanwhile, match=f"{CORA} approved it"):
        clarifications.request_changes(carl, insight_id=insight.pk, notes="Since when?", seen=seen)
    clarifications.request_changes(carl, insight_id=insight.pk, notes="Since when?", seen=seen, override=True)
    assert state(insight) == ("pending", "")
    assert insight.question_at is not None
    assert told(CORA) == [("overturned", CARL)]


def test_an_answer_that_arrived_meanwhile_is_seen_before_the_decision(
    insight: Insight, alice: Caller, cora: Caller, carl: Caller
) -> None:
    clarifications.request_changes(cora, insight_id=insight.pk, notes="Since when?")
    seen = token(insight)
    clarifications.answer(alice, AnswerQuestion(insight_id=insight.pk, notes="It is no longer true."))
    with pytest.raises(ChangedMeanwhile, match=r"alice@example.org answered the question"):
        decisions.approve(carl, insight_id=insight.pk, seen=seen)


def test_a_text_or_an_action_that_was_edited_meanwhile_is_not_approved_unseen(
    insight: Insight, alice: Caller, cora: Caller, carl: Caller
) -> None:
    seen = token(insight)
    edit(cora, Edit(insight_id=insight.pk, content="Closed orders include cancelled ones, in Ghent only."))
    with pytest.raises(ChangedMeanwhile, match=rf"{CORA} edited it on"):
        decisions.approve(carl, insight_id=insight.pk, seen=seen)
    seen = token(insight)
    edit(alice, Edit.read({"insight_id": insight.pk, "suggested_actions": []}))
    with pytest.raises(ChangedMeanwhile, match="suggested changes"):
        decisions.approve(carl, insight_id=insight.pk, seen=seen)
    with pytest.raises(ChangedMeanwhile):
        edit(carl, Edit(insight_id=insight.pk, content="Another text about the orders.", seen=seen))
    assert state(insight) == ("pending", "")


def test_a_validity_that_was_edited_meanwhile_is_not_approved_unseen(
    insight: Insight, cora: Caller, carl: Caller
) -> None:
    seen = token(insight)
    edit(cora, Edit.read({"insight_id": insight.pk, "valid_until": "2027-01-31"}))
    with pytest.raises(ChangedMeanwhile, match=rf"{CORA} edited it on"):
        decisions.approve(carl, insight_id=insight.pk, seen=seen)


def test_another_version_of_an_edit_is_not_approved_unseen(
    insight: Insight, alice: Caller, cora: Caller, carl: Caller
) -> None:
    decisions.approve(cora, insight_id=insight.pk)
    services.revise(alice, Revise(record_id=insight.pk, content="The first version of the edit."))
    seen = token(insight)
    services.revise(alice, Revise(record_id=insight.pk, content="The second version of the edit."))
    with pytest.raises(ChangedMeanwhile, match=r"alice@example.org wrote another edit on"):
        decisions.approve(carl, insight_id=insight.pk, seen=seen)
    insight.record.refresh_from_db()
    assert insight.record.content == CLAIM
    decisions.approve(carl, insight_id=insight.pk, seen=token(insight))
    insight.record.refresh_from_db()
    assert insight.record.content == "The second version of the edit."


def test_no_override_turns_a_decision_on_an_edit_into_one_on_the_insight(
    insight: Insight, alice: Caller, cora: Caller, carl: Caller
) -> None:
    decisions.approve(cora, insight_id=insight.pk)
    without_edit = token(insight)
    services.revise(alice, Revise(record_id=insight.pk, content="An edit by the author."))
    with_edit = token(insight)
    with pytest.raises(ChangedMeanwhile):
        decisions.reject(carl, insight_id=insight.pk, notes="no", seen=without_edit, override=True)
    decisions.reject(cora, insight_id=insight.pk, notes="no", seen=with_edit)
    with pytest.raises(ChangedMeanwhile, match="rejected its edit"):
        decisions.reject(carl, insight_id=insight.pk, notes="no", seen=with_edit, override=True)
    assert state(insight) == ("approved", CORA)


def test_an_admin_undoes_a_colleagues_decision_only_after_seeing_it(
    insight: Insight, cora: Caller, ada: Caller
) -> None:
    decisions.approve(ada, insight_id=insight.pk)
    seen = token(insight)
    decisions.reject(cora, insight_id=insight.pk, notes="no", seen=seen)
    for known in ("", seen):
        with pytest.raises(ChangedMeanwhile, match=f"{CORA} rejected it"):
            decisions.undo_review(ada, insight_id=insight.pk, seen=known)
    decisions.undo_review(ada, insight_id=insight.pk, seen=token(insight))
    assert state(insight) == ("pending", "")
    assert told(CORA) == [("overturned", "ada@example.org")]


def test_an_override_gives_no_rights(insight: Insight, alice: Caller, cora: Caller, carl: Caller) -> None:
    decisions.approve(cora, insight_id=insight.pk)
    with pytest.raises(Forbidden):
        decisions.reject(alice, insight_id=insight.pk, override=True)
    with pytest.raises(Forbidden):
        decisions.undo_review(carl, insight_id=insight.pk, override=True)
    suggested.apply(cora, insight_id=insight.pk)
    with pytest.raises(Conflict, match="is applied already"):
        decisions.reject(carl, insight_id=insight.pk, override=True)


def test_what_was_edited_since_the_preview_is_not_applied(
    insight: Insight, alice: Caller, cora: Caller, carl: Caller
) -> None:
    decisions.approve(cora, insight_id=insight.pk)
    seen = token(insight)
    decisions.undo_review(cora, insight_id=insight.pk)
    edit(alice, Edit.read({"insight_id": insight.pk, "suggested_actions": []}))
    decisions.approve(cora, insight_id=insight.pk)
    with pytest.raises(ChangedMeanwhile, match=f"{CORA} approved it"):
        suggested.apply(carl, insight_id=insight.pk, seen=seen)


@pytest.mark.parametrize("seen", ["x", "approved", "pending.1.zz.0.0", "a" * 90])
def test_an_invalid_token_is_named(insight: Insight, cora: Caller, seen: str) -> None:
    with pytest.raises(Invalid, match="seen"):
        decisions.approve(cora, insight_id=insight.pk, seen=seen)


# -- the tool -------------------------------------------------------------------------------------------------


def test_the_tool_hands_out_tokens_and_compares_them(insight: Insight, cora: Caller, carl: Caller) -> None:
    (row,) = apply_knowledge(carl, "review", entity_urn=ORDERS)["insights"]
    pk = str(insight.pk)
    assert apply_knowledge(cora, "approve", insight_ids=[pk])["updated"] == 1
    arguments = {"insight_ids": [pk], "review_notes": "Not true"}
    for extra in ({}, {"seen": {row["id"]: row["seen"]}}):
        with pytest.raises(Conflict, match=f"{CORA} approved it"):
            apply_knowledge(carl, "reject", **arguments, **extra)
    response = apply_knowledge(carl, "reject", **arguments, seen={pk: row["seen"]}, override=True)
    assert response["note"] == f"{pk} was approved by {CORA}, who is notified"
    with pytest.raises(Invalid, match="not among insight_ids"):
        apply_knowledge(carl, "reject", **arguments, seen={"5" * 32: row["seen"]})


def test_an_edit_by_the_tool_compares_the_token_too(insight: Insight, cora: Caller, carl: Caller) -> None:
    pk, seen = insight.pk.hex, token(insight)
    first = apply_knowledge(cora, "edit", insight_ids=[pk], content="Closed orders are complicated.", seen={pk: seen})
    (edited,) = first["insights"]
    assert edited["seen"] == token(insight)
    for action in ("edit", "edit_and_approve"):
        with pytest.raises(Conflict, match=f"{CORA} edited it"):
            apply_knowledge(carl, action, insight_ids=[pk], content="Closed orders are simple.", seen={pk: seen})
    apply_knowledge(carl, "edit_and_approve", insight_ids=[pk], content="They are simple.", seen={pk: edited["seen"]})
    assert state(insight) == ("approved", CARL)


# -- pages ----------------------------------------------------------------------------------------------------


def page_fields(page: Any, name: str = "seen") -> dict[str, str]:
    return {f"seen-{pk}": value for pk, value in page.context[name]}


def hidden(insight: Insight, page: Any) -> dict[str, str]:
    """Return the fields of the form that decides anyway."""
    conflict = page.context["conflict"]
    fields = dict(conflict["fields"]) | {"note": conflict["note"]}
    return {**fields, f"seen-{insight.pk.hex}": conflict["version"]}


@pytest.mark.parametrize(
    ("act", "label", "outcome"),
    [
        ("reject", "Reject anyway", "rejected"),
        ("needs-more", "Ask anyway", "pending"),
        ("apply", "Apply anyway", "applied"),
    ],
)
def test_the_page_shows_the_conflict_and_keeps_what_was_typed(
    insight: Insight, cora: Caller, desk: Client, act: str, label: str, outcome: str
) -> None:
    fields = page_fields(desk.get(reverse("review-one", args=[insight.pk])))
    decisions.approve(cora, insight_id=insight.pk)
    address = reverse("review-decide", args=[insight.pk, act])
    page = desk.post(address, {**fields, "note": "I asked the till people", "reason": "Not true"})
    text = page.content.decode()
    assert page.status_code == 409
    for part in (f"{CORA} approved it on", "It is approved now", label, 'value="I asked the till people"', "Not true"):
        assert part in text
    assert state(insight) == ("approved", CORA)
    desk.post(page.context["conflict"]["address"], hidden(insight, page))
    assert state(insight)[0] == outcome
    if outcome == "rejected":
        assert insight.review_notes == "Not true. I asked the till people"


def test_deciding_anyway_covers_only_what_the_page_showed(
    insight: Insight, cora: Caller, ada: Caller, desk: Client
) -> None:
    fields = page_fields(desk.get(reverse("review-one", args=[insight.pk])))
    decisions.approve(cora, insight_id=insight.pk)
    address = reverse("review-decide", args=[insight.pk, "reject"])
    page = desk.post(address, {**fields, "reason": "Not true"})
    decisions.reject(ada, insight_id=insight.pk, notes="Known already", override=True)
    again = desk.post(address, hidden(insight, page))
    assert "ada@example.org rejected it" in again.content.decode()
    assert not again.context["conflict"]["is_possible"]
    assert "Not true" in again.content.decode()


def test_an_approval_after_a_rejection_is_possible_from_the_page(insight: Insight, cora: Caller, desk: Client) -> None:
    fields = page_fields(desk.get(reverse("review-one", args=[insight.pk])))
    decisions.reject(cora, insight_id=insight.pk, notes="Too vague")
    page = desk.post(reverse("review-decide", args=[insight.pk, "approve"]), {**fields, "note": "See the till log"})
    assert "Approve anyway" in page.content.decode()
    desk.post(page.context["conflict"]["address"], hidden(insight, page))
    assert (*state(insight), insight.review_notes) == ("approved", CARL, "See the till log")


def test_near_duplicates_are_compared_one_by_one(alice: Caller, cora: Caller, desk: Client) -> None:
    first, second = propose(alice), propose(alice, CLAIM.replace("since", "ever since"))
    fields = {f"seen-{row.pk.hex}": token(row) for row in (first, second)}
    decisions.reject(cora, insight_id=second.pk, notes="Known already")
    address = reverse("review-decide", args=[first.pk, "approve"])
    page = desk.post(address, {**fields, "also": second.pk.hex}, follow=True)
    assert (state(first), state(second)) == (("approved", CARL), ("rejected", CORA))
    assert f"{CORA} rejected it" in page.content.decode()


def test_returning_to_the_queue_is_refused_if_a_colleague_has_decided_otherwise(
    insight: Insight, cora: Caller, ada: Caller, ada_user: User
) -> None:
    client = Client()
    client.force_login(ada_user)
    decisions.approve(ada, insight_id=insight.pk)
    fields = page_fields(client.get(reverse("review-one", args=[insight.pk])))
    decisions.reject(cora, insight_id=insight.pk, notes="no", override=True)
    page = client.post(reverse("review-undo", args=[insight.pk]), fields)
    assert "Return to queue anyway" in page.content.decode()
    assert state(insight) == ("rejected", CORA)
    client.post(page.context["conflict"]["address"], hidden(insight, page))
    assert state(insight) == ("pending", "")


def test_the_edit_page_keeps_the_text_when_a_colleague_was_faster(insight: Insight, cora: Caller, desk: Client) -> None:
    address = reverse("review-edit", args=[insight.pk])
    page = desk.get(address)
    form = page.context["form"].initial | {
        name: field.initial or "" for name, field in page.context["form"].fields.items() if name[-1].isdigit()
    }
    form |= {"content": "What Carl typed about the orders.", f"seen-{insight.pk.hex}": page.context["seen"]}
    edit(cora, Edit(insight_id=insight.pk, content="What Cora typed about the orders."))
    refused = desk.post(address, {**form, "approve": "1"})
    text = refused.content.decode()
    assert refused.status_code == 409
    assert f"{CORA} edited it" in text
    assert "What Carl typed about the orders." in text
    insight.record.refresh_from_db()
    assert (insight.record.content, state(insight)[0]) == ("What Cora typed about the orders.", "pending")
    desk.post(address, {**form, "approve": "1", f"seen-{insight.pk.hex}": refused.context["seen"]})
    insight.record.refresh_from_db()
    assert (insight.record.content, state(insight)) == ("What Carl typed about the orders.", ("approved", CARL))


# -- bulk actions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("everything", [{}, {"all": "1"}])
def test_the_list_refuses_what_has_changed_and_offers_to_decide_anyway(
    alice: Caller, cora: Caller, desk: Client, everything: dict[str, str]
) -> None:
    rows = [propose(alice, f"Fact number {n} about the tills of Ghent.") for n in range(3)]
    shown = desk.get(reverse("review-list")).context["rows"]
    fields = {f"seen-{row.insight.pk.hex}": row.seen for row in shown}
    edit(cora, Edit(insight_id=rows[0].pk, content="Fact number 0 about the tills of Bruges."))
    form = {**fields, "act": "reject", "note": "Known already", "ids": [row.pk.hex for row in rows], **everything}
    page = desk.post(reverse("review-act"), form, follow=True)
    assert [state(row)[0] for row in rows] == ["pending", "rejected", "rejected"]
    text = page.content.decode()
    for part in (f"{CORA} edited it", "Your note: Known already", "Decide on the selected insights anyway"):
        assert part in text
    ((changed, version),) = page.context["changed"]
    batch = Batch.objects.get()
    again = {"ids": changed.pk.hex, f"seen-{changed.pk.hex}": version}
    desk.post(reverse("repeat-batch", args=[batch.pk]), again)
    assert (*state(rows[0]), rows[0].review_notes) == ("rejected", CARL, "Known already")


def test_all_approved_insights_are_rejected_together_including_those_of_other_pages(
    alice: Caller, cora: Caller, desk: Client
) -> None:
    rows = [propose(alice, f"Fact number {n} about the tills of Ghent.") for n in range(3)]
    for row in rows:
        decisions.approve(cora, insight_id=row.pk)
    form = {"act": "reject", "note": "no", "all": "1", "f-state": "approved"}
    desk.post(reverse("review-act"), form)
    assert {state(row) for row in rows} == {("rejected", CARL)}


def test_the_apply_preview_keeps_the_state_that_it_shows(insight: Insight, cora: Caller, desk: Client) -> None:
    decisions.approve(cora, insight_id=insight.pk)
    preview = desk.post(reverse("review-act"), {"act": "apply", "ids": insight.pk.hex})
    decisions.undo_review(cora, insight_id=insight.pk)
    form = {"act": "apply", "confirm": "1", "ids": insight.pk.hex, **page_fields(preview)}
    page = desk.post(reverse("review-act"), form, follow=True)
    assert f"{CORA} returned it to review" in page.content.decode()


@pytest.mark.parametrize("name", ["reject", "apply", "undo_review"])
def test_an_admin_action_compares_what_its_confirmation_page_showed(
    insight: Insight, cora: Caller, desk: Client, name: str
) -> None:
    decisions.approve(cora, insight_id=insight.pk)
    address = reverse("admin:knowledge_insight_changelist")
    form = {"action": name, ACTION_CHECKBOX_NAME: [str(insight.pk)]}
    question = desk.post(address, form)
    decisions.reject(cora, insight_id=insight.pk, notes="On second thought")
    page = desk.post(address, {**form, **page_fields(question), "confirm": "1", "reason": "no"}, follow=True)
    assert f"{CORA} rejected it" in page.content.decode()
    assert state(insight) == ("rejected", CORA)


def test_an_interrupted_bulk_correction_proposes_nothing_twice(
    insight: Insight, alice: Caller, cora: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions.approve(cora, insight_id=insight.pk)
    run: Callable[..., str] = bulk_actions.run_row

    def crash(*args: Any) -> str:
        run(*args)
        raise SystemExit

    monkeypatch.setattr(bulk_actions, "run_row", crash)
    with pytest.raises(SystemExit):
        bulk_actions.start(alice, act="correct", unit_ids=[insight.pk], choice="Closed orders are closed.")
    monkeypatch.undo()
    batch = bulk_actions.resume(alice, batch_id=Batch.objects.get().pk)
    assert batch.finished_at
    assert "same as a correction that waits" in batch.outcomes[0]
    assert Insight.objects.filter(replaces=insight.pk).count() == 1


# -- stale memories -------------------------------------------------------------------------------------------


def test_the_second_person_who_decides_on_a_stale_memory_is_told(
    fact: Any, alice: Caller, cora: Caller, bob: Caller, desk: Client
) -> None:
    feedback.mark(alice, MarkFeedback.read({"record_id": fact.pk, "verdict": "wrong"}))
    (shown,) = desk.get(inbox("stale")).context["cases"]
    bulk_actions.start(cora, act="verify", unit_ids=[fact.pk])
    page = give(desk, "stale", "forget", f"{fact.pk.hex}~{shown.case.seen}")
    assert f"has changed since you saw it, by {CORA} (verify) on" in page
    fact.refresh_from_db()
    assert fact.status == "active"
