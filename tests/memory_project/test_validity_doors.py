"""Validity at the doors: pages, REST, the admin, notifications, and files that people take along."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from knowledge.changesets.apply import apply
from knowledge.insights.capture import capture
from knowledge.models import Insight
from knowledge.operations import Apply, Capture
from knowledge.review import decisions
from memories import services
from memories.models import MemoryRecord, Period
from memories.operations import OpenPeriod, PeriodOperation, Remember, Revise, Verify
from memories.portable_kinds import kinds
from memories.writing import periods
from memory_project.exchange.imports import staging
from memory_project.exchange.imports.models import ImportRow
from memory_project.models import Notification, User
from memory_project.notifications.validity import notify_ends
from tests.jobs import ImportJobs, work_off
from tests.knowledge.conftest import ORDERS
from tests.pages import browser

pytestmark = pytest.mark.django_db
HOME = reverse("my-knowledge")
AS_JSON: dict[str, Any] = {"content_type": "application/json"}
TEXT = "The shop in Oslo counts every till twice."


def body(response: Any) -> str:
    assert response.status_code == 200, response.content
    return " ".join(response.content.decode().split())


def remember(caller: Caller, **fields: Any) -> MemoryRecord:
    return services.remember(caller, Remember.read({"content": TEXT, **fields})).record


def end(caller: Caller, record: MemoryRecord, days: int = -1) -> None:
    services.revise(caller, Revise(record_id=record.pk, valid_until=timezone.now() + timedelta(days=days)))


def kinds_of(user: User) -> list[str]:
    return list(Notification.objects.filter(person=user).order_by("pk").values_list("kind", flat=True))


# -- pages ----------------------------------------------------------------------------------------------------


def test_a_page_says_that_a_memory_has_ended_and_extends_it(
    alice_user: User, bob_user: User, olga_user: User, alice: Caller
) -> None:
    record = remember(alice)
    end(alice, record)
    page, change = reverse("memory", args=[record.pk]), reverse("change-memory", args=[record.pk, "extend"])
    own = browser(alice_user)
    assert "It is not recalled. Nothing is deleted." in body(own.get(page))
    assert "Extend by a month" not in body(browser(bob_user).get(page))
    assert (TEXT in body(own.get(HOME)), TEXT in body(own.get(HOME, {"status": "expired"}))) == (False, True)
    for outsider in (bob_user, olga_user):
        browser(outsider).post(change, {"by": "month"})
        assert MemoryRecord.objects.get().validity == "expired"
    assert "is valid until" in body(own.post(change, {"by": "month"}, follow=True))
    assert "Undo the extension" in body(own.get(page))
    own.post(reverse("change-memory", args=[record.pk, "undo"]), {"change": "extend"})
    assert MemoryRecord.objects.get().validity == "expired"


def test_the_form_keeps_what_was_not_touched_and_names_a_wrong_end(alice_user: User, alice: Caller) -> None:
    own = browser(alice_user)
    form = {
        "content": TEXT, "dimension": "knowledge", "category": "correction", "confidence": "high",
        "visibility": "private", "valid_from": "2019-11-01", "valid_until": "2020-01-01",
    }  # fmt: skip
    assert "is in the past" in body(own.post(reverse("create-memory"), form))
    assert not MemoryRecord.objects.exists()
    day = (timezone.now() + timedelta(days=3)).date().isoformat()
    own.post(reverse("create-memory"), {**form, "valid_until": day})
    record = MemoryRecord.objects.get()
    assert record.valid_until
    assert record.valid_until.isoformat().startswith(f"{day}T23:59:59")
    services.revise(alice, Revise(record_id=record.pk, valid_until=record.valid_until - timedelta(hours=5)))
    own.post(reverse("edit-memory", args=[record.pk]), {**form, "valid_until": day, "confidence": "low"})
    record.refresh_from_db()
    assert (record.confidence, record.valid_until.hour) == ("low", 18)
    own.post(reverse("edit-memory", args=[record.pk]), {**form, "valid_until": ""})
    record.refresh_from_db()
    assert record.valid_until is None


# -- REST and admin -------------------------------------------------------------------------------------------


def test_rest_lists_extends_and_names_errors(alice_user: User, olga_user: User, alice: Caller) -> None:
    record = remember(alice)
    end(alice, record)
    own, outsider = browser(alice_user), browser(olga_user)

    def listed(client: Client, **query: str) -> list[str]:
        return [row["id"] for row in client.get("/api/v1/memories/", query).json()["items"]]

    assert (listed(own), listed(own, validity="expired"), listed(own, validity="any")) == (
        [], [record.pk.hex], [record.pk.hex],
    )  # fmt: skip
    assert listed(outsider, validity="expired") == []
    address = f"/api/v1/memories/{record.pk.hex}/extend/"
    assert outsider.post(address, {"by": "month"}, **AS_JSON).status_code == 404
    refused = own.post(address, {"by": "year"}, **AS_JSON)
    assert (refused.status_code, refused.json()["field"]) == (400, "by")
    extended = own.post(address, {"by": "month"}, **AS_JSON).json()["memory"]
    assert ("validity" in extended, extended["valid_until"] > timezone.now().isoformat()) == (False, True)
    refused = own.post("/api/v1/memories/", {"content": TEXT, "valid_until": "soon"}, **AS_JSON)
    assert (refused.status_code, refused.json()["field"]) == (400, "valid_until")


def test_only_admins_change_periods_by_rest_and_in_the_admin(
    alice_user: User, ada_user: User, alice: Caller, ada: Caller
) -> None:
    own, admin = browser(alice_user), browser(ada_user)
    assert own.post("/api/v1/periods/", {"name": "release-42"}, **AS_JSON).status_code == 403
    assert admin.post("/api/v1/periods/", {"name": "release-42"}, **AS_JSON).status_code == 201
    record = remember(alice, valid_while="period:release-42")
    assert own.post("/api/v1/periods/end/", {"name": "release-42"}, **AS_JSON).status_code == 403
    ended = admin.post("/api/v1/periods/end/", {"name": "release-42"}, **AS_JSON).json()
    assert (ended["memories"], ended["period"]["ended_by"]) == (1, "ada@example.org")
    assert [row["name"] for row in own.get("/api/v1/periods/", {"is_open": "false"}).json()["items"]] == ["release-42"]
    pages = reverse("admin:memories_period_changelist")
    chosen = {"action": "reopen", "_selected_action": Period.objects.get().pk}
    assert own.post(pages, chosen).status_code == 302
    assert MemoryRecord.objects.get(pk=record.pk).validity == "expired"
    assert "1 memory changed" in body(admin.post(pages, chosen, follow=True))
    assert MemoryRecord.objects.get(pk=record.pk).validity == ""
    added = admin.post(reverse("admin:memories_period_add"), {"name": "FY2026-Q4", "note": ""}, follow=True)
    assert "FY2026-Q4" in body(added)
    again = admin.post(reverse("admin:memories_period_add"), {"name": "FY2026-Q4"})
    assert "already exists" in body(again)


# -- notifications --------------------------------------------------------------------------------------------


def test_an_end_is_notified_a_week_before_and_once(
    alice: Caller, ada: Caller, alice_user: User, bob_user: User, cora_user: User
) -> None:
    record = remember(alice, valid_until=timezone.now() + timedelta(days=6))
    remember(alice, content=f"{TEXT} Always.", valid_until=timezone.now() + timedelta(days=9))
    assert (notify_ends(), notify_ends()) == ("1 memories end soon, 0 have ended", "0 memories end soon, 0 have ended")
    assert (kinds_of(alice_user), kinds_of(bob_user), kinds_of(cora_user)) == (["ends_soon"], [], [])
    assert "ends within a week" in body(browser(alice_user).get(reverse("news")))
    end(alice, record, days=40)
    assert kinds_of(alice_user) == []
    end(alice, record, days=-1)
    notify_ends()
    assert kinds_of(alice_user) == ["ended"]
    end(alice, record, days=40)
    assert kinds_of(alice_user) == []


def test_curators_hear_of_the_end_of_what_stands_in_the_catalog(
    small_catalog: None, alice: Caller, cora: Caller, ada: Caller, alice_user: User, bob_user: User, cora_user: User,
    ada_user: User,
) -> None:  # fmt: skip
    periods.open_period(ada, OpenPeriod(name="FY2026"))
    fields = {"insight_text": TEXT, "category": "data_quality", "entity_urns": [ORDERS]}
    insight = capture(alice, Capture.read({**fields, "valid_while": "period:FY2026"})).insight
    decisions.approve(cora, insight_id=insight.pk)
    change = {"change_type": "update_description", "detail": TEXT}
    apply(cora, Apply.read({"insight_ids": [insight.pk], "changes": [change], "entity_urn": ORDERS}))
    Notification.objects.all().delete()
    periods.end_period(ada, PeriodOperation(name="FY2026"))
    people = (alice_user, bob_user, cora_user, ada_user)
    assert [kinds_of(user) for user in people] == [["ended"], [], ["ended"], []]
    browser(alice_user).post(reverse("change-memory", args=[insight.pk, "extend"]), {"by": "month"})
    assert "Edit proposed by" in body(browser(cora_user).get(reverse("review-one", args=[insight.pk])))
    page = body(browser(cora_user).get(reverse("memory", args=[insight.pk])))
    assert ("It still stands in the catalog." in page, "Roll back…" in page) == (True, True)


# -- files ----------------------------------------------------------------------------------------------------


def test_a_file_keeps_the_validity_and_older_files_have_none(alice: Caller) -> None:
    memory = kinds()["memory"]
    record = remember(alice, valid_until="2060-01-01")
    (row,) = memory.read(memory.rows(owner=alice.email))  # type: ignore[arg-type]
    assert memory.parse(row)["valid_until"] == record.valid_until
    older = {key: value for key, value in row.items() if key not in ("valid_from", "valid_until", "valid_while")}
    older.pop("condition_ended_at")
    assert (memory.parse(older)["valid_until"], memory.parse(older)["valid_while"]) == (None, "")


# -- decisions ------------------------------------------------------------------------------------------------


def expire(record: MemoryRecord) -> None:
    MemoryRecord.objects.filter(pk=record.pk).update(valid_until=timezone.now() - timedelta(hours=1))


def proposed(alice: Caller) -> Insight:
    return capture(alice, Capture(insight_text=TEXT, category="business_context", entity_urns=[ORDERS])).insight


def tagging(insight: Insight) -> Apply:
    change = {"change_type": "add_tag", "target": "", "detail": "Training"}
    return Apply.read({"insight_ids": [insight.pk.hex], "changes": [change], "entity_urn": ORDERS})


def test_what_has_ended_is_neither_approved_nor_verified_nor_applied(
    small_catalog: None, alice: Caller, cora: Caller
) -> None:
    insight = proposed(alice)
    expire(insight.record)
    with pytest.raises(Conflict, match="no longer valid: its owner can give it a later valid_until"):
        decisions.approve(cora, insight_id=insight.pk)
    with pytest.raises(Conflict, match="no longer valid: its owner can give it a later valid_until"):
        services.verify(alice, Verify(record_id=insight.pk))
    MemoryRecord.objects.filter(pk=insight.pk).update(valid_until=None)
    decisions.approve(cora, insight_id=insight.pk)
    expire(insight.record)
    with pytest.raises(Conflict, match="no longer valid"):
        apply(cora, tagging(insight))


def test_the_catalog_states_only_what_is_true_now(small_catalog: None, alice: Caller, cora: Caller) -> None:
    insight = proposed(alice)
    MemoryRecord.objects.filter(pk=insight.pk).update(valid_from=timezone.now() + timedelta(days=3))
    decisions.approve(cora, insight_id=insight.pk)  # a statement about later can be right today
    with pytest.raises(Conflict, match="not valid yet"):
        apply(cora, tagging(insight))


def test_an_import_says_that_what_it_finds_has_ended(alice: Caller) -> None:
    expire(remember(alice))
    staged = staging.start(alice, file=io.BytesIO(f"content\n{TEXT}\n".encode()), name="facts.csv")
    work_off(ImportJobs(), staged.pk)
    reasons = list(ImportRow.objects.filter(of=staged).values_list("reason", flat=True))
    assert len(reasons) == 1
    assert "no longer valid" in reasons[0]


def test_an_etag_changes_when_the_answer_does(alice_user: User, alice: Caller) -> None:
    record = remember(alice)
    client, address = browser(alice_user), f"/api/v1/memories/{record.pk.hex}/"
    tag = client.get(address)["ETag"]
    assert client.get(address, headers={"If-None-Match": tag}).status_code == 304
    assert client.get(address, headers={"If-None-Match": f"W/{tag}"}).status_code == 304
    expire(record)
    assert client.get(address, headers={"If-None-Match": tag}).status_code == 200
    change = {"content": f"{TEXT} Since May."}
    weak = client.patch(address, change, headers={"If-Match": f"W/{tag}"}, **AS_JSON)
    assert weak.status_code == 412
    done = client.patch(address, change, headers={"If-Match": tag}, **AS_JSON)  # the memory itself is as it was seen
    assert done.status_code == 200, done.content
    assert client.patch(address, change, headers={"If-Match": tag}, **AS_JSON).status_code == 412
