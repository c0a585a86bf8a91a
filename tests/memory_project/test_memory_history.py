"""The history on the page of a memory: one entry for each change, also for a correction, which is stored twice."""

from __future__ import annotations

from django.urls import reverse

from foundation.people.caller import Caller
from knowledge.changesets.apply import apply
from knowledge.operations import Apply
from memories import services
from memories.history import chain, history
from memories.models import MemoryRecord
from memories.operations import Forget, Restore, Revise, Share, Supersede
from memory_project.models import User
from memory_project.portal.memory_history import ShownChange, shown_changes
from tests.knowledge.changeset_examples import approved, change
from tests.knowledge.conftest import ORDERS
from tests.pages import browser


def shown(caller: Caller, record: MemoryRecord) -> list[ShownChange]:
    versions = chain(caller, record)
    return shown_changes(history(caller, record, versions), versions)


def test_a_correction_is_one_entry_with_its_reason_and_both_texts(alice: Caller, fact: MemoryRecord) -> None:
    text = fact.content
    services.revise(alice, Revise(record_id=fact.pk, content=f"{text} Always.", reason="clearer"))
    later = services.supersede(alice, Supersede(record_id=fact.pk, content="Tills never close.", reason="new rule"))
    services.share(alice, Share(record_id=later.record.pk, visibility="private"))
    for record in (fact, later.record):
        record.refresh_from_db()
        changes = shown(alice, record)
        assert [change.change for change in changes] == ["share", "supersede", "revise", "remember"]
        _, correction, edit, first = changes
        assert (correction.content_before, correction.content) == (f"{text} Always.", "Tills never close.")
        assert (correction.by, correction.reason) == (alice.email, "new rule")
        assert correction.version is not None
        assert correction.version.pk == later.record.pk
        assert (edit.content_before, edit.content, edit.reason) == (text, f"{text} Always.", "clearer")
        assert (first.content, first.is_new_text) == (text, False)


def test_changes_of_the_readers_keep_both_values(alice: Caller, fact: MemoryRecord) -> None:
    services.share(alice, Share(record_id=fact.pk, visibility="everyone"))
    fact.refresh_from_db()
    change = shown(alice, fact)[0]
    assert (change.readers_before, change.readers, change.is_new_text) == ("persona", "everyone", False)


def test_a_correction_that_a_reader_may_not_see_ends_the_memory(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    later = services.supersede(alice, Supersede(record_id=fact.pk, content="Tills never close.", reason="a secret"))
    services.share(alice, Share(record_id=later.record.pk, visibility="private"))
    fact.refresh_from_db()
    changes = shown(bob, fact)
    assert [(change.change, change.reason) for change in changes] == [("supersede", ""), ("remember", "")]


def test_a_memory_that_was_forgotten_and_restored_shows_both(alice: Caller, fact: MemoryRecord) -> None:
    services.forget(alice, Forget(record_id=fact.pk))
    services.restore(alice, Restore(record_id=fact.pk))
    assert [change.change for change in shown(alice, fact)] == ["restore", "forget", "remember"]


def test_an_insight_becomes_a_correction_when_it_is_applied(
    small_catalog: None, alice: Caller, bob: Caller, cora: Caller, fact: MemoryRecord
) -> None:
    text = "Revenue includes refunds since May."
    captured = approved(bob, cora, insight_text=text, supersedes=fact.pk.hex)
    changes = [change("add_tag", "", "Training")]
    apply(cora, Apply.read({"insight_ids": [captured.pk.hex], "changes": changes, "entity_urn": ORDERS}))
    captured.record.refresh_from_db()
    entries = shown(cora, captured.record)
    (start,) = [entry for entry in entries if entry.version == captured.record and entry.change == "remember"]
    (correction,) = [entry for entry in entries if entry.change == "supersede"]
    assert (start.by, start.content_before) == (bob.email, "")
    assert (correction.by, correction.content_before) == (cora.email, fact.content)
    assert correction.content == captured.record.content
    assert correction.at > start.at


def test_a_correction_shows_its_text_of_that_time(alice: Caller, fact: MemoryRecord) -> None:
    later = services.supersede(alice, Supersede(record_id=fact.pk, content="Tills never close.")).record
    services.revise(alice, Revise(record_id=later.pk, content="Tills never ever close.", reason="emphasis"))
    later.refresh_from_db()
    edit, correction, _ = shown(alice, later)
    assert (correction.content_before, correction.content) == (fact.content, "Tills never close.")
    assert (edit.content_before, edit.content) == ("Tills never close.", "Tills never ever close.")


def test_a_correction_that_was_taken_back_is_an_entry_of_its_own(alice: Caller, fact: MemoryRecord) -> None:
    second = services.supersede(alice, Supersede(record_id=fact.pk, content="Tills never close.", reason="new")).record
    services.forget(alice, Forget(record_id=second.pk))
    services.restore(alice, Restore(record_id=fact.pk))
    newer = Supersede(record_id=fact.pk, content="Tills close at ten.", reason="newer")
    third = services.supersede(alice, newer).record
    changes = shown(alice, third)
    assert [(change.change, change.reason) for change in changes] == [
        ("supersede", "newer"),
        ("restore", ""),
        ("supersede", "new"),
        ("remember", ""),
    ]
    assert changes[0].content == third.content


def test_the_page_links_the_other_versions(alice: Caller, alice_user: User, fact: MemoryRecord) -> None:
    later = services.supersede(alice, Supersede(record_id=fact.pk, content="Tills never close.")).record
    page = browser(alice_user).get(reverse("memory", args=[later.pk])).content.decode()
    assert page.count("Open this version") == 1
    assert page.count("corrected by") == 1
    assert page.count("remembered by") == 1
