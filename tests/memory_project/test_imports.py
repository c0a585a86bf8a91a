from __future__ import annotations

import io
import json
import os
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from analysis.models import MemoryCheck
from foundation.operations.errors import Conflict, DomainError, Invalid, LimitReached, NotFound
from foundation.people.caller import Caller
from foundation.people.models import Persona, PersonaMembership
from knowledge.contradictions import verdicts
from knowledge.contradictions.operations import GiveVerdict
from knowledge.models import CaveatWaiver, Contradiction
from memories import services
from memories.models import Citation, CitingDocument, Feedback, IndexJob, MemoryRecord, MemoryRevision
from memories.operations import Erase, Remember, Revise, Share
from memories.writing import erasure
from memory_project.exchange.imports import files, report, staging, taking_over
from memory_project.exchange.imports.models import Import, ImportRow, ImportState
from memory_project.models import User
from memory_project.notifications.webhooks.models import Endpoint, Event
from tests.conftest import REFUNDS
from tests.jobs import ImportJobs, work_off
from tests.memory_project.import_samples import CHATGPT_CONVERSATION
from tests.rest_client import client, post

pytestmark = pytest.mark.django_db

CSV = """content,category,tags,id
Revenue excludes refunds here.,business_context,"finance, revenue",a
short,,,
"A second fact, with a comma.",nonsense,,b
<b>Third</b> fact of the file.,,,c
revenue   EXCLUDES refunds here.,,,d
"""


def staged(caller: Caller, text: str = CSV, name: str = "facts.csv", *, work: bool = True) -> Import:
    created = staging.start(caller, file=io.BytesIO(text.encode()), name=name)
    if work:
        finish(created)
    return created


def finish(created: Import) -> None:
    work_off(ImportJobs(), created.pk)
    created.refresh_from_db()


def taken(caller: Caller, text: str = CSV, **options: Any) -> Import:
    created = staged(caller, text)
    taking_over.start(caller, import_id=created.pk, **options)
    finish(created)
    return created


def outcomes(created: Import) -> list[tuple[str, str]]:
    return list(created.rows.order_by("number").values_list("place", "outcome"))


def test_a_file_is_staged_with_a_report_and_nothing_is_stored(alice: Caller) -> None:
    created = staged(alice)
    assert (created.state, created.rows_read) == (ImportState.PARSED, 5)
    assert [outcome for _, outcome in outcomes(created)] == ["new", "refused", "refused", "new", "duplicate"]
    assert "category" in created.rows.get(number=3).reason
    assert created.rows.get(number=1).place in created.rows.get(number=5).reason
    assert not MemoryRecord.objects.exists()
    assert not files.path_of(created).exists()


def test_chosen_rows_become_private_memories_that_workers_embed(alice: Caller) -> None:
    created = taken(alice)
    assert created.state == ImportState.DONE
    records = MemoryRecord.objects.order_by("content")
    assert [record.content for record in records] == [
        "<b>Third</b> fact of the file.",
        "Revenue excludes refunds here.",
    ]
    assert {(record.visibility, record.created_by, record.persona) for record in records} == {
        ("private", alice.email, "sales")
    }
    assert IndexJob.objects.count() == 2
    assert [row.data for row in created.rows.filter(outcome="kept")] == [{}, {}]


def test_a_second_import_of_the_same_file_stores_nothing(alice: Caller) -> None:
    taken(alice)
    again = staged(alice)
    assert [outcome for _, outcome in outcomes(again)] == ["duplicate", "refused", "refused", "duplicate", "duplicate"]


def test_rows_are_left_out_and_chosen(alice: Caller) -> None:
    created = staged(alice)
    assert report.choose_rows(alice, import_id=created.pk, chosen=False) == 2
    assert report.choose_rows(alice, import_id=created.pk, chosen=True, text="third") == 1
    assert report.choose_rows(alice, import_id=created.pk, chosen=True, numbers=[2]) == 0  # it is refused
    taking_over.start(alice, import_id=created.pk, visibility="everyone")
    finish(created)
    assert [(record.content[:5], record.visibility) for record in MemoryRecord.objects.all()] == [("<b>Th", "everyone")]
    with pytest.raises(Conflict, match="any more"):
        report.choose_rows(alice, import_id=created.pk, chosen=True)


def test_a_later_version_corrects_the_memory_and_undo_brings_it_back(alice: Caller) -> None:
    taken(alice)
    later = CSV.replace("Revenue excludes refunds here.", "Revenue includes refunds here.")
    created = staged(alice, later)
    assert dict(outcomes(created))["line 2"] == "conflicting"
    assert not created.rows.get(number=1).is_chosen
    report.choose_rows(alice, import_id=created.pk, chosen=True)
    taking_over.start(alice, import_id=created.pk)
    finish(created)
    old = MemoryRecord.objects.get(content="Revenue excludes refunds here.")
    assert (old.status, MemoryRecord.objects.get(content__startswith="Revenue includes").supersedes_id) == (
        "superseded",
        old.pk,
    )
    taking_over.start_undo(alice, import_id=created.pk)
    finish(created)
    old.refresh_from_db()
    assert (created.state, old.status) == (ImportState.UNDONE, "active")


def test_a_later_version_keeps_what_its_file_does_not_state(alice: Caller) -> None:
    taken(alice, "id,content,tags,category\na,Ferries run late in winter months.,a;b,data_quality\n")
    old = MemoryRecord.objects.get(content__startswith="Ferries")
    services.share(alice, Share(record_id=old.pk, visibility="everyone"))
    services.revise(alice, Revise.read({"record_id": old.pk.hex, "dimension": "event", "tags": ["a", "mine"]}))
    created = staged(alice, "id,content\na,Ferries run late in all autumn months.\n")
    report.choose_rows(alice, import_id=created.pk, chosen=True)
    taking_over.start(alice, import_id=created.pk, visibility="persona")  # for rows that name none
    finish(created)
    new = MemoryRecord.objects.get(supersedes=old)
    found = (new.visibility, new.category, new.dimension, new.tags)
    assert found == ("everyone", "data_quality", "event", ["a", "mine"])


def test_an_import_whose_persona_is_lost_fails_and_lets_the_next_go_on(
    alice: Caller, personas: dict[str, Persona]
) -> None:
    first = staged(alice)
    taking_over.start(alice, import_id=first.pk)
    undone = taken(alice, "content\nA fact that is taken back again later.\n")
    taking_over.start_undo(alice, import_id=undone.pk)
    PersonaMembership.objects.filter(user__email=alice.email, persona=personas["sales"]).delete()
    finish(first)
    assert (first.state, "sales" in first.error) == (ImportState.FAILED, True)
    finish(undone)
    assert undone.state == ImportState.UNDONE
    assert not ImportJobs().unfinished().exists()


def test_the_report_says_that_front_matter_was_not_read(alice: Caller) -> None:
    created = staged(alice, "---\ntitle: Refunds: the truth\n---\nRefunds are never part of revenue.\n", "a.md")
    taking_over.start(alice, import_id=created.pk)
    finish(created)
    row = created.rows.get()
    assert (row.outcome, row.reason.startswith("its front matter was not read: ")) == ("kept", True)


def test_undo_takes_back_what_nobody_has_changed_since(alice: Caller) -> None:
    created = taken(alice)
    first, second = MemoryRecord.objects.order_by("content")
    services.revise(alice, Revise.read({"record_id": first.pk, "content": "Third fact, in other words."}))
    taking_over.start_undo(alice, import_id=created.pk)
    finish(created)
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.status, second.status, second.purge_after is not None) == ("active", "archived", True)
    assert [row.reason for row in created.rows.filter(outcome="kept")] == [
        f"stays: was changed since by {alice.email} (revise)"
    ]


def test_what_hangs_on_a_memory_counts_as_a_change(alice: Caller, bob: Caller) -> None:
    text = "content\n" + "".join(f"Store number {number} opened that year.\n" for number in range(5))
    created = taken(alice, text)
    checked, cited, marked, waived, plain = MemoryRecord.objects.order_by("content")
    MemoryCheck.objects.create(record=checked, author=alice.email, source="shop", sql="SELECT 1", expects="empty")
    Citation.objects.create(record=cited, document=CitingDocument.objects.create(created_by=alice.email, address="a:b"))
    services.share(alice, Share(record_id=marked.pk, visibility="persona"))
    MemoryRevision.objects.filter(record=marked).delete()  # only the mark is left
    Feedback.objects.create(record=marked, by=bob.email, verdict="useful")
    CaveatWaiver.objects.create(record=waived, urn="urn:li:dataset:x", reason="no", by=alice.email, content_key="k")
    taking_over.start_undo(alice, import_id=created.pk)
    finish(created)
    states = dict(MemoryRecord.objects.values_list("pk", "status"))
    assert [states[record.pk] for record in (checked, cited, marked, waived, plain)] == ["active"] * 4 + ["archived"]
    reasons = {UUID(row.reference): row.reason for row in created.rows.all()}
    assert reasons[checked.pk] == "stays: got a check since"
    assert reasons[cited.pk] == "stays: was cited in a document since"


def test_a_killed_worker_loses_and_repeats_no_row(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "BATCH", 5)
    monkeypatch.setattr(taking_over, "BATCH", 2)
    text = "content\n" + "".join(f"Store number {number} opened that year.\n" for number in range(20))
    created = staged(alice, text, work=False)
    save, calls = staging._save, iter(range(100))

    def dying(*arguments: Any) -> None:
        save(*arguments)
        if next(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(staging, "_save", dying)
    with pytest.raises(KeyboardInterrupt):
        finish(created)
    assert ImportRow.objects.filter(of=created).count() == staging.BATCH
    finish(created)
    assert (created.state, created.rows.count()) == (ImportState.PARSED, 20)
    taking_over.start(alice, import_id=created.pk)
    note, calls = taking_over._note, iter(range(100))

    def dying_after(*arguments: Any) -> None:
        note(*arguments)
        if next(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(taking_over, "_note", dying_after)
    with pytest.raises(KeyboardInterrupt):
        finish(created)
    assert MemoryRecord.objects.count() == taking_over.BATCH
    finish(created)
    assert (created.state, MemoryRecord.objects.count()) == (ImportState.DONE, 20)


def test_an_import_is_worked_on_in_slices(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "BATCH", 5)
    text = "content\n" + "".join(f"Store number {number} opened that year.\n" for number in range(11))
    created = staged(alice, text, work=False)
    for rows in (0, 5, 10, 11):  # the first turn parses the file
        work_off(ImportJobs(), created.pk, seconds=0)
        created.refresh_from_db()
        assert created.rows_read == rows
    assert list(created.rows.values_list("number", flat=True)) == list(range(1, 12))


def test_the_owner_alone_sees_an_import(alice: Caller, bob: Caller, bob_user: User) -> None:
    created = staged(alice)
    for act in (staging.get, lambda caller, pk: taking_over.start(caller, import_id=pk)):
        with pytest.raises(NotFound):
            act(bob, created.pk)
    browser = Client()
    browser.force_login(bob_user)
    for name in ("import", "import-report"):
        assert browser.get(reverse(name, args=[created.pk])).status_code == 404
    for name in ("choose-import-rows", "take-import", "undo-import"):
        assert browser.post(reverse(name, args=[created.pk]), {"all": "1"}).status_code == 404


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("", "facts.csv", "is empty"),
        ("\x00\x01\x02", "facts.bin", "no format"),
    ],
)
def test_an_unknown_file_is_refused(alice: Caller, content: str, name: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        staged(alice, content, name)
    assert not Import.objects.exists()


def test_a_faulty_file_fails_with_its_reason(alice: Caller) -> None:
    content = b"content,colour\nA fact of a colour.,red"
    created = staging.start(alice, file=io.BytesIO(content), name="facts.csv", format="csv")
    finish(created)
    assert (created.state, "colour" in created.error) == (ImportState.FAILED, True)
    assert not files.path_of(created).exists()


def test_a_file_that_is_too_large_is_refused(alice: Caller, settings: Any) -> None:
    settings.IMPORT_MAX_BYTES = 20
    with pytest.raises(DomainError, match="at most 20"):
        staged(alice)
    assert not Import.objects.exists()


def test_a_row_that_has_become_invalid_is_refused_alone(alice: Caller) -> None:
    created = staged(alice)
    created.rows.filter(number=1).update(data={"content": "short"})
    taking_over.start(alice, import_id=created.pk)
    finish(created)
    assert (created.state, created.rows.get(number=1).outcome, MemoryRecord.objects.count()) == ("done", "refused", 1)


def test_the_undo_of_an_import_keeps_a_memory_that_a_verdict_relies_on(alice: Caller) -> None:
    own = services.remember(alice, Remember(content="Orders are final after 6 hours.")).record
    created = taken(alice, "content\nOrders are final after 24 hours.\nThe till closes at seven.\n")
    imported = MemoryRecord.objects.get(content__contains="24 hours")
    pair = Contradiction.objects.create(
        first=own, second=imported, first_key=own.content_key, second_key=imported.content_key, reason="6, 24"
    )
    verdicts.give_verdict(alice, GiveVerdict(contradiction_id=pair.pk, verdict="second"))
    taking_over.start_undo(alice, import_id=created.pk)
    finish(created)
    states = dict(MemoryRecord.objects.values_list("content", "status"))
    assert states == {own.content: "archived", imported.content: "active", "The till closes at seven.": "archived"}
    row = created.rows.get(reference=imported.pk.hex)
    assert row.reason == "stays: a contradiction with another memory was decided since"


def test_what_a_failed_import_has_stored_can_be_undone(alice: Caller) -> None:
    created = taken(alice)
    staging.fail(created, "the account lost its persona")
    taking_over.start_undo(alice, import_id=created.pk)
    finish(created)
    assert set(MemoryRecord.objects.values_list("status", flat=True)) == {"archived"}


def test_an_erased_memory_leaves_the_rows_of_imports(alice: Caller) -> None:
    created = taken(alice)
    record = MemoryRecord.objects.get(content__startswith="Revenue")
    again = staged(alice)
    assert again.rows.filter(data__content__icontains="refunds").exists()
    erasure.erase(alice, Erase.read({"record_id": record.pk, "confirm": True}))
    assert not again.rows.filter(existing=record.pk, data__has_key="content").exists()
    assert created.rows.get(reference=record.pk.hex).reason == "was erased"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (CSV, "facts.csv", "refunds"),
        (json.dumps([CHATGPT_CONVERSATION]), "conversations.json", "one pallet"),
    ],
)
def test_an_erased_memory_leaves_the_rows_that_repeat_it(alice: Caller, text: str, name: str, words: str) -> None:
    both = [staged(alice, text, name) for _ in range(2)]  # so that the second one finds repetitions as it is taken over
    for created in both:
        taking_over.start(alice, import_id=created.pk)
        finish(created)
    assert ImportRow.objects.filter(data__content__icontains=words, outcome="duplicate").exists()
    record = MemoryRecord.objects.get(content__icontains=words)
    erasure.erase(alice, Erase.read({"record_id": record.pk, "confirm": True}))
    assert not ImportRow.objects.filter(data__content__icontains=words).exists()


def test_files_of_imports_that_are_gone_are_deleted(alice: Caller) -> None:
    created, other = staged(alice, work=False), staged(alice, name="other.csv", work=False)
    paths = [files.path_of(created), files.path_of(other)]
    Import.objects.filter(pk=other.pk).delete()
    files.delete_unknown()
    assert all(path.exists() for path in paths)
    for path in paths:
        os.utime(path, (0, 0))
    files.delete_unknown()
    assert [path.exists() for path in paths] == [True, False]


def test_the_pages_lead_from_the_file_to_the_memories(alice_user: User) -> None:
    browser = Client()
    browser.force_login(alice_user)
    file = io.BytesIO(CSV.encode())
    file.name = "facts.csv"
    uploaded = browser.post(reverse("import-memories"), {"file": file})
    created = Import.objects.get()
    assert uploaded["Location"] == reverse("import", args=[created.pk])
    assert "Reading the file" in browser.get(uploaded["Location"]).content.decode()
    finish(created)
    page = browser.get(uploaded["Location"]).content.decode()
    assert "&lt;b&gt;Third" in page
    browser.post(reverse("choose-import-rows", args=[created.pk]), {"numbers": ["4"], "chosen": "0"})
    browser.post(reverse("take-import", args=[created.pk]), {"visibility": "persona"})
    finish(created)
    assert [record.visibility for record in MemoryRecord.objects.all()] == ["persona"]
    lines = b"".join(browser.get(reverse("import-report", args=[created.pk]))).decode().splitlines()
    assert (len(lines), lines[0]) == (6, "place,outcome,reason,content,memory")
    browser.post(reverse("undo-import", args=[created.pk]))
    finish(created)
    assert MemoryRecord.objects.get().status == "archived"
    assert MemoryRevision.objects.get().reason == taking_over.UNDONE


def test_the_command_shows_the_report_and_takes_over(alice: Caller, tmp_path: Any, capsys: Any) -> None:
    file = tmp_path / "facts.csv"
    file.write_text(f"content\n{REFUNDS}\nshort\n")
    call_command("import", str(file), "--as", alice.email)
    assert "1 refused" in capsys.readouterr().out
    assert not MemoryRecord.objects.exists()
    call_command("import", str(file), "--as", alice.email, "--yes")
    assert MemoryRecord.objects.get().content == REFUNDS


def test_a_program_imports_a_file_over_rest(alice_user: User, olga_user: User) -> None:
    sender, address = client(alice_user), "/api/v1/imports/"
    file = io.BytesIO(CSV.encode())
    file.name = "facts.csv"
    uploaded = sender.post(address, {"file": file})
    assert (uploaded.status_code, uploaded.json()["state"]) == (202, "parsing")
    created = Import.objects.get()
    finish(created)
    one = f"{address}{created.pk.hex}/"
    assert {row["outcome"]: row["rows"] for row in sender.get(one).json()["outcomes"]} == {
        "new": 2,
        "duplicate": 1,
        "refused": 2,
    }
    assert post(sender, f"{one}rows/", {"chosen": False, "query": "third"}).json() == {"rows": 1}
    assert [row["number"] for row in sender.get(f"{one}rows/?outcome=new").json()["rows"]] == [1, 4]
    assert post(sender, f"{one}take-over/", {"visibility": "persona"}).status_code == 202
    finish(created)
    assert MemoryRecord.objects.get().visibility == "persona"
    assert post(sender, f"{one}undo/", {}).json()["state"] == "undoing"
    assert client(olga_user).get(one).status_code == 404
    assert sender.post(address, {}).json()["field"] == "file"


def test_a_finished_import_is_announced_to_its_owners_webhooks(alice: Caller) -> None:
    Endpoint.objects.create(owner=alice.email, set_up_by=alice.email, name="x", kinds=["import.finished"], nonce="n")
    created = taken(alice)
    event = Event.objects.get()
    assert (event.kind, event.record_id, event.owner) == ("import.finished", created.pk, alice.email)


# -- canceling, and other people's turns -------------------------------------------------------------------------


def test_a_canceled_import_stays_canceled_though_a_slice_was_running(alice: Caller) -> None:
    created = staged(alice)
    taking_over.start(alice, import_id=created.pk)
    running = Import.objects.get(pk=created.pk)  # what a worker holds
    taking_over.cancel(alice, import_id=created.pk)
    with pytest.raises(staging.Stopped):
        list(taking_over.take(alice, running))
    created.refresh_from_db()
    assert created.state == "canceled"
    assert not MemoryRecord.objects.exists()  # the batch that was being stored is rolled back
    assert not files.path_of(created).exists()
    finish(created)
    assert created.state == "canceled"
    with pytest.raises(Conflict, match="can't be canceled any more"):
        taking_over.cancel(alice, import_id=created.pk)


def test_an_undo_is_not_overwritten_by_a_slice_that_was_running(alice: Caller) -> None:
    created = staged(alice)
    taking_over.start(alice, import_id=created.pk)
    running = Import.objects.get(pk=created.pk)
    taking_over.start_undo(alice, import_id=created.pk)
    with pytest.raises(staging.Stopped):
        list(taking_over.take(alice, running))
    finish(created)
    assert created.state == "undone"


def test_only_the_owner_and_operators_cancel(alice: Caller, bob: Caller, ada: Caller) -> None:
    first, second = staged(alice, work=False), staged(alice, name="more.csv", work=False)
    with pytest.raises(NotFound):
        taking_over.cancel(bob, import_id=first.pk)
    taking_over.cancel(ada, import_id=first.pk)
    taking_over.cancel(alice, import_id=second.pk)
    assert set(Import.objects.values_list("state", flat=True)) == {"canceled"}


def test_the_running_imports_of_a_person_are_limited(alice: Caller, bob: Caller, settings: Any) -> None:
    settings.IMPORTS_AT_ONCE = 2
    first, _ = staged(alice, work=False), staged(alice, work=False)
    with pytest.raises(LimitReached, match=r"2 of your imports are running \(IMPORTS_AT_ONCE\)"):
        staged(alice, work=False)
    staged(bob, work=False)
    taking_over.cancel(alice, import_id=first.pk)
    staged(alice, work=False)


def test_a_slice_goes_on_where_the_last_one_stopped(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "BATCH", 5)
    text = "content\n" + "".join(f"Store number {number} opened that year.\n" for number in range(50))
    created = staged(alice, text, work=False)
    times_parsed: list[Import] = []
    parse = staging._rows

    def counted(staged: Import) -> Any:
        times_parsed.append(staged)
        return parse(staged)

    monkeypatch.setattr(staging, "_rows", counted)
    while created.is_working:
        work_off(ImportJobs(), created.pk, seconds=0)
        created.refresh_from_db()
    assert len(times_parsed) == 1
    assert [row.number for row in ImportRow.objects.filter(of=created).order_by("number")] == list(range(1, 51))
