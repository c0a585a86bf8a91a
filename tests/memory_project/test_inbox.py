"""The inbox: cases of every kind, decided and undone on the page and over REST, by those who may see them alone."""

from __future__ import annotations

from typing import Any

import pytest
from django.template.loader import select_template
from django.urls import reverse

from foundation.cases import decisions, kinds, pages
from foundation.cases.decisions import DecideCases, UndoVerdicts
from foundation.operations.errors import Conflict, DomainError, Invalid
from foundation.people.caller import Caller
from foundation.people.models import Persona
from memories import services
from memories.models import MemoryRecord
from memories.operations import Remember, Revise
from memory_project.models import User
from memory_project.portal.context_processors import Navigation
from tests.case_samples import COUNT, SAMPLES
from tests.pages import browser, give, inbox, take_back, text
from tests.rest_client import client, post

API = "/api/v1/cases/"
KINDS = pytest.mark.parametrize("name", SAMPLES)


@pytest.fixture
def admin(ada_user: User, ada: Caller) -> Caller:
    Persona.objects.get_or_create(name="sales")
    return ada


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
        assert select_template([f"cases/{kind.name}.html", "cases/case.html"])
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
    decisions.undo(admin, UndoVerdicts.read({"kind": name, "verdicts": one.undo}))
    assert set(waiting(admin, name)) == set(ids)
    with pytest.raises(DomainError):  # it was undone already
        decisions.undo(admin, UndoVerdicts.read({"kind": name, "verdicts": one.undo}))
    outcome = decide(admin, name, sample.many, *ids)
    assert (set(outcome.given), outcome.refused) == (set(ids), {})
    assert waiting(admin, name) == []
    decisions.undo(admin, UndoVerdicts.read({"kind": name, "verdicts": outcome.undo}))
    assert set(waiting(admin, name)) == set(ids)


@KINDS
@pytest.mark.django_db
def test_an_outsider_neither_sees_nor_decides(
    name: str, admin: Caller, alice: Caller, olga_user: User, alice_user: User
) -> None:
    sample = SAMPLES[name]
    ids = sample.make(admin, alice)
    texts = [case.text for case in pages.page(admin, [kinds.kind_named(admin, name)]).cases]
    outsider, door = browser(olga_user), client(olga_user)
    for address in (inbox(), inbox(name)):
        shown = outsider.get(address).content.decode()
        assert not any(text in shown for text in texts)
    if name != "verification":  # her shared memories may be marked as wrong by anybody who reads them
        give(outsider, name, sample.single, f"{ids[0]}~", **sample.given)
    given = {"kind": name, "verdict": sample.many, "cases": [{"id": pk} for pk in ids]}
    if name != "verification":
        assert post(door, f"{API}decide/", given).status_code in (400, 403, 404, 409)
    assert [item for item in door.get(API).json()["items"] if item["kind"] == name] == []
    assert set(waiting(admin, name)) == set(ids)


@KINDS
@pytest.mark.django_db
def test_the_page_shows_decides_and_undoes(name: str, admin: Caller, ada_user: User, alice: Caller) -> None:
    sample = SAMPLES[name]
    ids = sample.make(admin, alice)
    owner = browser(ada_user)
    page = owner.get(inbox(name))
    seen = {shown.case.id: shown.case.seen for shown in page.context["cases"]}
    assert set(seen) == set(ids)
    assert Navigation(admin, ada_user.pk).inbox >= (COUNT if sample.is_counted else 0)
    everything = text(owner, inbox())
    assert all((f'id="case-{pk}"' in everything) == sample.is_counted for pk in ids)
    give(owner, name, sample.single, f"{ids[0]}~{seen[ids[0]]}", **sample.given)
    assert set(waiting(admin, name)) == set(ids[1:])
    assert "Undone." in take_back(owner, name)
    assert set(waiting(admin, name)) == set(ids)
    assert "There is no decision to undo." in take_back(owner, name)


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
    page = give(owner, "stale", "verify", *(f"{pk}~{seen[pk]}" for pk in ids))
    assert "Still true: 2 cases." in page
    assert "has changed since you saw it" in page
    assert MemoryRecord.objects.filter(pk__in=ids[1:], status="active").count() == 2


@pytest.mark.django_db
def test_undo_is_refused_after_a_change_and_undoes_nothing(admin: Caller, alice: Caller) -> None:
    ids = SAMPLES["merge"].make(admin, alice)
    outcome = decide(admin, "merge", "accept", *ids)
    merged = MemoryRecord.objects.filter(content__endswith="Always.", status="active").first()
    assert merged is not None
    services.revise(admin, Revise.read({"record_id": merged.pk, "content": "Shipments leave at one o'clock, always."}))
    with pytest.raises(Conflict):
        decisions.undo(admin, UndoVerdicts.read({"kind": "merge", "verdicts": outcome.undo}))
    assert waiting(admin, "merge") == []


@pytest.mark.django_db
def test_a_merge_is_undone_with_both_memories(admin: Caller, alice: Caller) -> None:
    before = {}
    (pk, *_) = SAMPLES["merge"].make(admin, alice)
    before = dict(MemoryRecord.objects.values_list("pk", "status"))
    outcome = decide(admin, "merge", "accept", pk)
    assert dict(MemoryRecord.objects.values_list("pk", "status")) != before
    decisions.undo(admin, UndoVerdicts.read({"kind": "merge", "verdicts": outcome.undo}))
    now = dict(MemoryRecord.objects.values_list("pk", "status"))
    assert {key: now[key] for key in before} == before
    assert [now[key] for key in now if key not in before] == ["archived"]  # the merged one


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"kind": "nothing"}, "kind"),
        ({"verdict": "burn"}, "verdict"),
        ({"given": {"speed": "1"}}, "given.speed"),
        ({"cases": []}, "cases"),
        ({"cases": [{"id": "x", "colour": "red"}]}, "cases[0].colour"),
        ({"cases": [{"id": "a" * 32}] * 2, "verdict": "keep"}, "cases"),
        ({"verdicts": 5}, "verdicts"),
    ],
)
@pytest.mark.django_db
def test_bad_input_names_the_field(given: dict[str, Any], field: str, alice_user: User) -> None:
    body = {"kind": "suggestion", "verdict": "discard", "cases": [{"id": "a" * 32}], **given}
    response = post(client(alice_user), f"{API}decide/", body)
    assert (response.status_code, response.json()["field"]) == (400, field)


@pytest.mark.django_db
def test_the_rest_api_lists_decides_and_undoes(admin: Caller, ada_user: User, alice: Caller) -> None:
    ids = SAMPLES["stale"].make(admin, alice)
    SAMPLES["suggestion"].make(admin, alice)
    door = client(ada_user)
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
    undo = {"kind": "stale", "verdicts": [decided["verdict"]]}
    assert post(door, f"{API}undo/", undo).json() == {"undone": 1}
    assert post(door, f"{API}undo/", undo).status_code == 409
    assert door.get(f"{API}?kind=nothing").json()["field"] == "kind"
    assert door.get(f"{API}?cursor=x").json()["field"] == "cursor"


@pytest.mark.django_db
def test_a_verdict_needs_the_permission_of_the_tool_that_does_the_same(alice: Caller, alice_user: User) -> None:
    record = services.remember(alice, Remember(content="The till closes at seven.")).record
    services.mark_stale(alice, record_id=record.pk, reason="It was removed.")
    Persona.objects.filter(name="sales").update(tools_deny=["memory_manage.forget"])
    given = {"kind": "stale", "cases": [{"id": record.pk.hex}]}
    door = client(alice_user)
    assert post(door, f"{API}decide/", {**given, "verdict": "forget"}).status_code == 403
    assert post(door, f"{API}decide/", {**given, "verdict": "verify"}).status_code == 200


@pytest.mark.django_db
def test_erasing_a_text_needs_a_confirmation(admin: Caller, alice: Caller) -> None:
    (pk, *_) = SAMPLES["same_words"].make(admin, alice)
    with pytest.raises(Invalid, match=r"given\.confirm"):
        decide(admin, "same_words", "erase", pk)
    assert decide(admin, "same_words", "erase", pk, confirm="erase").undo == []


@pytest.mark.parametrize(
    ("page", "kind"),
    [
        ("suggestions", "suggestion"),
        ("questions", "question"),
        ("contradictions", "contradiction"),
        ("stale-review", "stale"),
    ],
)
@pytest.mark.django_db
def test_earlier_addresses_lead_to_the_tab_of_their_kind(page: str, kind: str, alice_user: User) -> None:
    response = browser(alice_user).get(reverse(page), {"cause": "orders & more"})
    assert response["Location"] == f"{inbox(kind)}&about=orders+%26+more"


@pytest.mark.django_db
def test_an_empty_inbox_says_what_it_is_for(alice_user: User) -> None:
    page = text(browser(alice_user), inbox())
    assert "Nothing waits for you" in page
    assert "kind=verification" in page
