"""The history on the page of a memory: one entry for each change, also for a correction, which is stored twice."""

from __future__ import annotations

from django.urls import reverse

from foundation.people.caller import Caller
from memories import services
from memories.history import chain, history
from memories.models import MemoryRecord
from memories.operations import Forget, Restore, Revise, Share, Supersede
from memory_project.models import User
from memory_project.portal.memory_history import ShownChange, shown_changes
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


def test_the_page_links_the_other_versions(alice: Caller, alice_user: User, fact: MemoryRecord) -> None:
    later = services.supersede(alice, Supersede(record_id=fact.pk, content="Tills never close.")).record
    page = browser(alice_user).get(reverse("memory", args=[later.pk])).content.decode()
    assert page.count("Open this version") == 1
    assert page.count("corrected by") == 1
    assert page.count("remembered by") == 1
