"""The inbox: only those who may see a case decide it and undo the decision, on the page and over REST."""

from __future__ import annotations

from html import unescape
from typing import Any
from uuid import UUID

import pytest
from django.template.loader import get_template
from django.test import Client
from django.urls import reverse
from django.utils.module_loading import import_string

from foundation.cases import decisions, kinds, pages
from foundation.cases.decisions import DecideCases, UndoVerdicts
from foundation.operations.errors import Conflict, DomainError, Invalid, NotFound
from foundation.people.caller import Caller
from foundation.people.models import Persona
from memories import services
from memories.conversation.models import MergeProposal
from memories.models import Feedback, MemoryRecord
from memories.operations import Forget, MarkFeedback, Remember, Revise, Supersede
from memories.writing import feedback
from memory_project.models import AuditEvent, User
from memory_project.portal.context_processors import Navigation
from memory_project.schedules import schedules
from tests.case_samples import COUNT, SAMPLES
from tests.pages import browser, give, inbox, take_back, text
from tests.rest_client import client, post

API = "/api/v1/cases/"
KINDS = pytest.mark.parametrize("name", SAMPLES)


@pytest.fixture
def admin(ada: Caller) -> Caller:
    Persona.objects.get_or_create(name="sales")
    return ada


@pytest.fixture
def admins_door(ada_user: User) -> Client:
    """A REST client with a token that may administer, as the cases of admins need."""
    return client(ada_user, rights=["administer"])


def waiting(caller: Caller, name: str) -> list[str]:
    kind = kinds.kind_named(caller, name)
    return [case.id for case in pages.page(caller, [kind], size=100).cases]


def decide(caller: Caller, kind: str, verdict: str, *ids: str, **given: str) -> decisions.CaseOutcome:
    chosen = [{"id": pk} for pk in ids]
    # the tools' state is needed, as a page has it
    seen = {case.id: case.seen for case in pages.page(caller, [kinds.kind_named(caller, kind)], size=100).cases}
    for case in chosen:
        if token := seen.get(case["id"]):
            case["seen"] = token
    operation = DecideCases.read({"kind": kind, "verdict": verdict, "cases": chosen, "given": given})
    return decisions.decide(caller, operation)


@pytest.mark.django_db
def test_every_kind_has_a_sample_and_a_template(admin: Caller) -> None:
    assert {kind.name for kind in kinds.kinds_for(admin)} == set(SAMPLES)
    for kind in kinds.kinds_for(admin):
        if kind.name != "upkeep":  # its text says all
            get_template(f"cases/{kind.name}.html")
        keys = [verdict.key for verdict in kind.verdicts if verdict.key]
        assert len(keys) == len(set(keys))
        assert not set(keys) & {"j", "k", "x", "u", "?", "/"}  # which the page has for itself


@KINDS
@pytest.mark.django_db
def test_a_case_is_decided_undone_and_decided_with_others(
    name: str, admin: Caller, ada_user: User, alice: Caller
) -> None:
    sample = SAMPLES[name]
    ids = sample.make(admin, alice)
    assert len(ids) == COUNT
    assert set(waiting(admin, name)) == set(ids)
    one = decide(admin, name, sample.single, ids[0], **sample.given)
    assert one.message
    assert set(waiting(admin, name)) == set(ids[1:])
    if name not in ("stale", "verification"):  # a memory can be verified, or marked, any number of times
        with pytest.raises(DomainError):
            decide(admin, name, sample.single, ids[0], **sample.given)
    decisions.undo(admin, UndoVerdicts.read({"kind": name, "undo": one.undo_tokens}))
    assert set(waiting(admin, name)) == set(ids)
    with pytest.raises(DomainError):  # it was undone already
        decisions.undo(admin, UndoVerdicts.read({"kind": name, "undo": one.undo_tokens}))
    outcome = decide(admin, name, sample.many, *ids)
    assert (set(outcome.decided), outcome.refused) == (set(ids), {})
    assert waiting(admin, name) == []
    decisions.undo(admin, UndoVerdicts.read({"kind": name, "undo": outcome.undo_tokens}))
    assert set(waiting(admin, name)) == set(ids)


def run_scheduled_tasks() -> None:
    for function, _ in schedules().values():
        import_string(function)()


@pytest.mark.django_db
def test_scheduled_tasks_neither_close_cases_nor_end_their_undo(admin: Caller, alice: Caller) -> None:
    made = {name: set(sample.make(admin, alice)) for name, sample in SAMPLES.items()}
    run_scheduled_tasks()
    assert {name: set(waiting(admin, name)) for name in SAMPLES} == made
    tokens = {}
    for name, sample in SAMPLES.items():
        tokens[name] = decide(admin, name, sample.many, *made[name], **sample.given).undo_tokens
        assert not made[name] & set(waiting(admin, name))
    run_scheduled_tasks()
    for name in reversed(SAMPLES):  # what was decided about contradictions has made other cases
        decisions.undo(admin, UndoVerdicts.read({"kind": name, "undo": tokens[name]}))
    assert {name: set(waiting(admin, name)) for name in SAMPLES} == made


@KINDS
@pytest.mark.django_db
def test_an_outsider_neither_sees_decides_nor_undoes(
    name: str, admin: Caller, ada_user: User, alice: Caller, olga: Caller, olga_user: User
) -> None:
    sample = SAMPLES[name]
    ids = sample.make(admin, alice)
    kind = kinds.kind_named(admin, name)
    texts = [case.text for case in pages.page(admin, [kind]).cases]
    assert all(text in unescape(browser(ada_user).get(inbox(name)).content.decode()) for text in texts)
    outsider, door = browser(olga_user), client(olga_user)
    for address in (inbox(), inbox(name)):
        shown = unescape(outsider.get(address).content.decode())
        assert not any(text in shown for text in texts)
    assert not kind.waiting(olga).exists()
    assert [item for item in door.get(API).json()["items"] if item["kind"] == name] == []
    if name != "verification":  # everybody who reads a shared memory may mark it as wrong
        give(outsider, name, sample.single, f"{ids[0]}~", **sample.given)
        given = {"kind": name, "verdict": sample.many, "cases": [{"id": pk} for pk in ids]}
        assert post(door, f"{API}decide/", given).status_code in (400, 403, 404, 409)
    assert set(waiting(admin, name)) == set(ids)
    tokens = decide(admin, name, sample.single, ids[0], **sample.given).undo_tokens
    left = set(waiting(admin, name))
    take_back(outsider, name, *tokens)
    assert post(door, f"{API}undo/", {"kind": name, "undo": tokens}).status_code in (400, 403, 404, 409)
    with pytest.raises(DomainError):
        kind.undo(olga, tokens[0])
    assert set(waiting(admin, name)) == left


@pytest.mark.parametrize("name", ["upkeep", "same_words", "upstream_tool"])
@pytest.mark.django_db
def test_a_token_needs_a_right_for_the_cases_of_admins(
    name: str, admin: Caller, ada_user: User, admins_door: Client, alice: Caller
) -> None:
    sample = SAMPLES[name]
    (pk, *_) = sample.make(admin, alice)
    door = client(ada_user)
    assert name not in {kind["kind"] for kind in door.get(f"{API}kinds/").json()["kinds"]}
    assert door.get(f"{API}?kind={name}").status_code == 400
    given = {"kind": name, "verdict": sample.single, "cases": [{"id": pk}]}
    assert post(door, f"{API}decide/", given).status_code == 400
    items = admins_door.get(f"{API}?kind={name}").json()["items"]
    seen = {item["id"]: item["seen"] for item in items}
    given = {"kind": name, "verdict": sample.single, "cases": [{"id": pk, "seen": seen[pk]}]}
    (decided,) = post(admins_door, f"{API}decide/", given).json()["decided"]
    undo = {"kind": name, "undo": [decided["undo"]]}
    assert post(door, f"{API}undo/", undo).status_code == 400
    assert post(admins_door, f"{API}undo/", undo).json() == {"undone": 1}


@KINDS
@pytest.mark.django_db
def test_the_page_shows_decides_and_undoes(name: str, admin: Caller, ada_user: User, alice: Caller) -> None:
    sample = SAMPLES[name]
    ids = sample.make(admin, alice)
    owner = browser(ada_user)
    page = owner.get(inbox(name))
    seen = {shown.case.id: shown.case.seen for shown in page.context["cases"]}
    assert set(seen) == set(ids)
    assert Navigation(admin, ada_user.pk, "/").inbox == (COUNT if sample.is_counted else 0)
    everything = text(owner, inbox())
    assert all((f'id="case-{pk}"' in everything) == sample.is_counted for pk in ids)
    give(owner, name, sample.single, f"{ids[0]}~{seen[ids[0]]}", **sample.given)
    assert set(waiting(admin, name)) == set(ids[1:])
    assert "Undone." in take_back(owner, name)
    assert set(waiting(admin, name)) == set(ids)
    assert owner.get(inbox(name)).context["last"] is None


@pytest.mark.django_db
def test_pages_follow_one_another_over_all_kinds(admin: Caller, alice: Caller) -> None:
    made = {(name, pk) for name, sample in SAMPLES.items() for pk in sample.make(admin, alice)}
    counted = [kind for kind in kinds.kinds_for(admin) if kind.is_counted]
    found: list[tuple[str, str]] = []
    times = []
    after = ""
    while True:
        page = pages.page(admin, counted, after, size=4)
        found += [(case.kind.name, case.id) for case in page.cases]
        times += [case.since for case in page.cases]
        after = page.after
        if not after:
            break
    assert len(found) == len(set(found))
    assert set(found) == {each for each in made if SAMPLES[each[0]].is_counted}
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("after", ["x", "2026-01-01T00:00:00+00:00~nothing~1", "2026-01-01T00:00:00+00:00~stale~1"])
@pytest.mark.django_db
def test_a_cursor_of_another_list_is_refused(after: str, alice: Caller) -> None:
    with pytest.raises(Invalid, match="after: "):
        list(pages.page(alice, kinds.kinds_for(alice), after).cases)


@pytest.mark.django_db
def test_one_refused_case_does_not_keep_the_others_from_being_decided(admin: Caller, ada_user: User) -> None:
    ids = SAMPLES["stale"].make(admin, admin)
    owner = browser(ada_user)
    seen = {shown.case.id: shown.case.seen for shown in owner.get(inbox("stale")).context["cases"]}
    services.revise(admin, Revise.read({"record_id": ids[0], "content": "The till closes at eight o'clock."}))
    services.mark_stale(admin, record_id=ids[0], reason="inbox.tills was removed again")
    page = give(owner, "stale", "verify", *(f"{pk}~{seen[pk]}" for pk in ids))
    assert "Still true: 2 cases." in page
    assert "“The till closes at eight o&#x27;clock.”: This memory has changed since you saw it" in page
    assert MemoryRecord.objects.filter(pk__in=ids[1:], status="active").count() == 2


@KINDS
@pytest.mark.django_db
def test_an_id_that_is_none_is_refused_beside_the_others(
    name: str, admin: Caller, ada_user: User, alice: Caller
) -> None:
    sample = SAMPLES[name]
    ids = sample.make(admin, alice)
    owner = browser(ada_user)
    seen = {shown.case.id: shown.case.seen for shown in owner.get(inbox(name)).context["cases"]}
    for wrong in ("nonsense", "9" * 30):
        response = owner.post(
            reverse("decide-cases", args=[name, sample.many]), {"cases": [f"{ids[0]}~{seen[ids[0]]}", wrong]}
        )
        assert response.status_code == 302
    assert ids[0] not in waiting(admin, name)


@pytest.mark.django_db
def test_undo_is_refused_after_a_change_and_undoes_nothing(admin: Caller, alice: Caller) -> None:
    ids = SAMPLES["merge"].make(admin, alice)
    outcome = decide(admin, "merge", "accept", *ids)
    merged = MemoryRecord.objects.filter(content__endswith="Always.", status="active").first()
    assert merged is not None
    services.revise(admin, Revise.read({"record_id": merged.pk, "content": "Shipments leave at one o'clock, always."}))
    with pytest.raises(Conflict):
        decisions.undo(admin, UndoVerdicts.read({"kind": "merge", "undo": outcome.undo_tokens}))
    assert waiting(admin, "merge") == []


@pytest.mark.parametrize("is_same_text", [False, True])
@pytest.mark.django_db
def test_a_merge_is_undone_with_both_memories(is_same_text: bool, admin: Caller, alice: Caller) -> None:
    (pk, *_) = SAMPLES["merge"].make(admin, alice)
    proposal = MergeProposal.objects.select_related("target").get(pk=pk)
    if is_same_text:  # the older memory says everything already
        MergeProposal.objects.filter(pk=pk).update(text=proposal.target.content)
    before = dict(MemoryRecord.objects.values_list("pk", "status"))
    outcome = decide(admin, "merge", "accept", pk)
    assert dict(MemoryRecord.objects.values_list("pk", "status")) != before
    decisions.undo(admin, UndoVerdicts.read({"kind": "merge", "undo": outcome.undo_tokens}))
    now = dict(MemoryRecord.objects.values_list("pk", "status"))
    assert {key: now[key] for key in before} == before
    assert [now[key] for key in now if key not in before] == ([] if is_same_text else ["archived"])


@pytest.mark.parametrize("change", ["correct", "archive"])
@pytest.mark.parametrize("is_same_text", [False, True])
@pytest.mark.django_db
def test_a_merge_is_not_undone_over_a_later_change(
    is_same_text: bool, change: str, admin: Caller, alice: Caller
) -> None:
    (pk, *_) = SAMPLES["merge"].make(admin, alice)
    proposal = MergeProposal.objects.select_related("target").get(pk=pk)
    if is_same_text:
        MergeProposal.objects.filter(pk=pk).update(text=proposal.target.content)
    outcome = decide(admin, "merge", "accept", pk)
    if change == "correct":
        in_force = MergeProposal.objects.get(pk=pk).correction_id or proposal.target_id
        correction = Supersede.read({"record_id": in_force, "content": "Shipments leave at one o'clock."})
        services.supersede(admin, correction)
    else:
        services.forget(admin, Forget.read({"record_id": proposal.target_id}))
    before = dict(MemoryRecord.objects.values_list("pk", "status"))
    with pytest.raises(Conflict):
        decisions.undo(admin, UndoVerdicts.read({"kind": "merge", "undo": outcome.undo_tokens}))
    assert dict(MemoryRecord.objects.values_list("pk", "status")) == before


@pytest.mark.django_db
def test_a_merge_of_a_memory_that_was_edited_since_is_refused(admin: Caller, ada_user: User, alice: Caller) -> None:
    (pk, *_) = SAMPLES["merge"].make(admin, alice)
    (seen,) = (case.seen for case in pages.page(admin, [kinds.kind_named(admin, "merge")]).cases if case.id == pk)
    target = MergeProposal.objects.get(pk=pk).target_id
    services.revise(admin, Revise.read({"record_id": target, "content": "Shipments leave at one o'clock."}))
    assert "has changed since you saw it" in give(browser(ada_user), "merge", "accept", f"{pk}~{seen}")
    assert MergeProposal.objects.get(pk=pk).state == "proposed"
    assert pk not in waiting(admin, "merge")  # its text repeats what the memory no longer says


@pytest.mark.django_db
def test_an_undo_takes_back_its_own_decision_and_no_later_one(admin: Caller, alice: Caller, alice_user: User) -> None:
    record = services.remember(alice, Remember(content="The till closes at seven.")).record
    services.mark_stale(alice, record_id=record.pk, reason="It was removed.")
    tokens = decide(admin, "stale", "verify", record.pk.hex).undo_tokens
    services.mark_stale(alice, record_id=record.pk, reason="It was removed again.")
    decide(alice, "stale", "verify", record.pk.hex)
    with pytest.raises(Conflict):
        decisions.undo(admin, UndoVerdicts.read({"kind": "stale", "undo": tokens}))
    record.refresh_from_db()
    assert record.status == "active"


@pytest.mark.django_db
def test_undoing_a_mark_gives_the_earlier_one_back_with_its_note(admin: Caller, alice: Caller) -> None:
    (pk, *_) = SAMPLES["verification"].make(admin, alice)
    feedback.mark(admin, MarkFeedback.read({"record_id": pk, "verdict": "useful", "note": "Counted it myself, twice."}))
    tokens = decide(admin, "verification", "wrong", pk, note="No longer.").undo_tokens
    decisions.undo(admin, UndoVerdicts.read({"kind": "verification", "undo": tokens}))
    mark = Feedback.objects.get(record=UUID(pk), by=admin.email)
    assert (mark.verdict, mark.note) == ("useful", "Counted it myself, twice.")


@pytest.mark.django_db
def test_a_question_to_somebody_else_is_not_undone_as_a_case(admin: Caller, alice: Caller) -> None:
    (pk, *_) = SAMPLES["question"].make(alice, admin)  # which the admin has asked
    with pytest.raises(NotFound):
        decisions.undo(admin, UndoVerdicts.read({"kind": "question", "undo": [pk]}))


@pytest.mark.parametrize("name", ["suggestion", "question", "merge", "upkeep", "same_words", "stale"])
@pytest.mark.django_db
def test_an_old_undo_does_not_take_a_later_decision_back(name: str, admin: Caller, alice: Caller) -> None:
    sample = SAMPLES[name]
    (pk, *_) = sample.make(admin, alice)
    first = decide(admin, name, sample.many, pk).undo_tokens
    decisions.undo(admin, UndoVerdicts.read({"kind": name, "undo": first}))
    decide(admin, name, sample.single, pk)
    with pytest.raises(Conflict):
        decisions.undo(admin, UndoVerdicts.read({"kind": name, "undo": first}))
    assert pk not in waiting(admin, name)


@pytest.mark.parametrize("name", ["stale", "upstream_tool", "suggestion", "question", "merge", "upkeep", "same_words"])
@pytest.mark.django_db
def test_a_decision_can_be_undone_from_the_list_of_the_last_ones(
    name: str, admin: Caller, ada_user: User, alice: Caller
) -> None:
    sample = SAMPLES[name]
    (pk, *_) = sample.make(admin, alice)
    decide(admin, name, sample.single, pk)
    owner = browser(ada_user)
    (past, *_) = owner.get(inbox(name)).context["past"]
    assert past.undo_token
    assert "Undone." in take_back(owner, name, past.undo_token)
    assert pk in waiting(admin, name)


@pytest.mark.django_db
def test_a_tab_takes_as_many_queries_for_many_cases_as_for_one(
    admin: Caller, ada_user: User, alice: Caller, django_assert_max_num_queries: Any
) -> None:
    for sample in SAMPLES.values():
        sample.make(admin, alice)
    owner = browser(ada_user)
    for name in SAMPLES:
        owner.get(inbox(name))
        with django_assert_max_num_queries(13):
            owner.get(inbox(name))


@pytest.mark.django_db
def test_the_audit_log_says_what_was_decided(admin: Caller, ada_user: User, alice: Caller) -> None:
    (pk, *_) = SAMPLES["stale"].make(admin, alice)
    give(browser(ada_user), "stale", "verify", pk)
    event = AuditEvent.objects.get(tool="portal.decide-case.verify")
    assert (event.arguments["kind"], event.arguments["case_id"]) == ("stale", pk)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kind": "nothing"}, "kind"),
        ({"verdict": "burn"}, "verdict"),
        ({"given": {"speed": "1"}}, "given.speed"),
        ({"cases": []}, "cases"),
        ({"cases": [{"id": "x", "colour": "red"}]}, "cases[0].colour"),
        ({"cases": [{"id": "a" * 32}, {"id": "b" * 32}], "verdict": "keep"}, "cases"),
        ({"cases": [{"id": "a" * 32}] * 2}, "cases"),
        ({"speed": 5}, "speed"),
        ({"given": {"content": "x" * 4_001}, "verdict": "keep"}, "given.content"),
        ({"given": {"content": 5}, "verdict": "keep"}, "given.content"),
        ({"given": {"content": None}, "verdict": "keep"}, "given.content"),
    ],
)
@pytest.mark.django_db
def test_bad_input_names_the_field(given: dict[str, Any], field: str, alice_user: User) -> None:
    body = {"kind": "suggestion", "verdict": "discard", "cases": [{"id": "a" * 32}], **given}
    response = post(client(alice_user), f"{API}decide/", body)
    assert (response.status_code, response.json()["field"]) == (400, field)
    assert response.json()["allowed"] or field == "speed"


@pytest.mark.django_db
def test_the_rest_api_lists_decides_and_undoes(admin: Caller, admins_door: Client, alice: Caller) -> None:
    ids = SAMPLES["stale"].make(admin, alice)
    SAMPLES["suggestion"].make(admin, alice)
    door = admins_door
    known = {kind["kind"]: kind for kind in door.get(f"{API}kinds/").json()["kinds"]}
    assert set(known) == set(SAMPLES)
    assert known["suggestion"]["verdicts"][0]["takes"] == ["content", "visibility", "category"]
    first = door.get(f"{API}?limit=4").json()
    second = door.get(first["next"]).json()
    items = [*first["items"], *second["items"]]
    assert (len(items), second["next"]) == (2 * COUNT, None)
    (item, *_) = [item for item in items if item["id"] == ids[0]]
    given = {"kind": "stale", "verdict": "verify", "cases": [{"id": item["id"], "seen": item["seen"]}]}
    (decided,) = post(door, f"{API}decide/", given).json()["decided"]
    assert decided["memory_id"] == ids[0]
    assert len(door.get(f"{API}?kind=stale").json()["items"]) == COUNT - 1
    undo = {"kind": "stale", "undo": [decided["undo"]]}
    assert post(door, f"{API}undo/", undo).json() == {"undone": 1}
    assert post(door, f"{API}undo/", undo).status_code == 409
    assert door.get(f"{API}?kind=nothing").json()["field"] == "kind"
    assert door.get(f"{API}?cursor=x").json()["field"] == "cursor"


@pytest.mark.django_db
def test_a_verdict_and_its_undo_need_the_permission_of_the_tool_that_does_the_same(
    alice: Caller, alice_user: User
) -> None:
    record = services.remember(alice, Remember(content="The till closes at seven.")).record
    services.mark_stale(alice, record_id=record.pk, reason="It was removed.")
    Persona.objects.filter(name="sales").update(tools_deny=["memory_manage.forget", "memory_manage.update"])
    given = {"kind": "stale", "cases": [{"id": record.pk.hex}]}
    door = client(alice_user)
    assert post(door, f"{API}decide/", {**given, "verdict": "forget"}).status_code == 403
    (decided,) = post(door, f"{API}decide/", {**given, "verdict": "verify"}).json()["decided"]
    assert post(door, f"{API}undo/", {"kind": "stale", "undo": [decided["undo"]]}).status_code == 403


@pytest.mark.django_db
def test_erasing_a_text_needs_a_confirmation(admin: Caller, alice: Caller) -> None:
    (pk, *_) = SAMPLES["same_words"].make(admin, alice)
    with pytest.raises(Invalid, match=r"given\.confirm"):
        decide(admin, "same_words", "erase", pk)
    assert decide(admin, "same_words", "erase", pk, confirm="erase").undo_tokens == []


@pytest.mark.parametrize(
    ("page", "leads_to"),
    [
        ("/insights/suggestions/", "/inbox/?kind=suggestion"),
        ("/insights/questions/", "/inbox/?kind=question"),
        ("/contradictions/", "/inbox/?kind=contradiction"),
        ("/stale/", "/inbox/?kind=stale"),
        ("/stale/?cause=orders+%26+more", "/inbox/?kind=stale&about=orders+%26+more"),
        ("/stale/?whose=all", "/?status=stale"),
    ],
)
@pytest.mark.django_db
def test_former_addresses_lead_to_what_took_their_place(page: str, leads_to: str, alice_user: User) -> None:
    assert browser(alice_user).get(page)["Location"] == leads_to


@pytest.mark.django_db
def test_an_empty_inbox_says_what_it_is_for(alice_user: User) -> None:
    page = text(browser(alice_user), inbox())
    assert "Nothing waits for you" in page
    assert "kind=verification" in page
