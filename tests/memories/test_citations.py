"""Documents that cite memories: what they are told when a cited memory changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.utils import timezone
from pydantic_core import PydanticCustomError

from foundation.downloads.csv_lines import escape_formula
from foundation.operations.errors import DomainError, Invalid, NotFound
from foundation.people.caller import Caller
from memories import services
from memories.models import Citation, CitingDocument, MemoryRecord
from memories.operations import Erase, Forget, Remember, Restore, Revise, Share, Supersede, Verify
from memories.use.citations import changes, queries
from memories.use.citations.addresses import cited_ids
from memories.use.citations.operations import MAX_CITATIONS, ChangeCiting, Cite, RemoveCiting, check_address
from memories.use.citations.responses import detail_response
from memories.use.citations.services import change, cite, remove
from memories.writing import erasure, hand_overs
from memories.writing.undo import undo
from memory_project.models import Notification

pytestmark = pytest.mark.django_db
ADDRESS = "https://docs.example.org/margins"
CORRECTED = "Revenue in the sales mart excludes refunds and gift cards."


def note(caller: Caller, *records: MemoryRecord, **values: Any) -> CitingDocument:
    ids = [record.pk for record in records]
    return cite(caller, Cite(address=ADDRESS, title="Margins", memory_ids=ids, **values)).document


def state(caller: Caller, document: CitingDocument) -> list[Mapping[str, Any]]:
    """Return what the author sees of each citation, without ids and times."""
    response = detail_response(queries.document(caller, document.pk), queries.cited_by(caller, document))
    hidden = ("memory_id", "outdated_at")
    return [{name: value for name, value in row.items() if name not in hidden} for row in response["memories"]]


def notices() -> list[tuple[str, str]]:
    rows = Notification.objects.filter(kind="cited", read_at=None)
    return list(rows.order_by("pk").values_list("person__email", "by"))


def acknowledge(caller: Caller, document: CitingDocument) -> None:
    rows = queries.cited_by(caller, document)
    until = queries.last_change(caller, queries.document(caller, document.pk), rows)
    change(caller, ChangeCiting(document_id=document.pk, acknowledged_until=until))


# -- registering ---------------------------------------------------------------------------------------------


def test_a_text_is_searched_for_addresses_of_memories_of_this_installation_only() -> None:
    ids = [UUID(int=n) for n in range(1, 8)]
    text = (
        f"(commonplace://memory/{ids[0].hex}) [{settings.COMMONPLACE_URL}/memories/{ids[1]}/] "
        f"commonplace://memory/{ids[0]} https://elsewhere.example/memories/{ids[2].hex}/ {ids[3].hex} "
        f"commonplace://entity/{ids[4].hex} commonplace://memory/{ids[5].hex}0 /memories/{ids[6].hex}"
    )
    assert cited_ids(text) == ids[:2]
    assert cited_ids("commonplace://memory/" * 10_000) == []


def test_registering_again_replaces_what_a_document_cites(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    other = services.remember(alice, Remember(content="Gift cards are booked as revenue.")).record
    third = services.remember(alice, Remember(content="Margins are net of freight.")).record
    first = cite(bob, Cite(address=ADDRESS, title="Margins", memory_ids=[fact.pk, other.pk]))
    assert (list(first.added), first.kept, first.removed) == ([fact.pk, other.pk], [], [])
    text = f"Net: commonplace://memory/{third.pk.hex}, and commonplace://memory/{other.pk.hex}."
    second = cite(bob, Cite(address=ADDRESS, text=text))
    assert second.document == first.document
    assert second.document.title == "Margins"
    assert (list(second.added), list(second.kept), list(second.removed)) == ([third.pk], [other.pk], [fact.pk])
    # The same address of another person is another document.
    assert cite(alice, Cite(address=ADDRESS, memory_ids=[fact.pk])).document != first.document


def test_unknown_and_unreadable_memories_are_not_found_alike(alice: Caller, olga: Caller, fact: MemoryRecord) -> None:
    own = services.remember(olga, Remember(content="Our warehouses count on Mondays.")).record
    missing = UUID(int=1)
    found = cite(olga, Cite(address=ADDRESS, memory_ids=[fact.pk, missing, own.pk]))
    assert (list(found.added), list(found.not_found)) == ([own.pk], [fact.pk, missing])
    messages = []
    for pk in (fact.pk, missing):
        with pytest.raises(NotFound) as caught:
            cite(olga, Cite(address="elsewhere", memory_ids=[pk]))
        messages.append(caught.value.message)
    assert messages[0] == messages[1]
    assert [row.address for row in CitingDocument.objects.all()] == [ADDRESS]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"address": ""}, "address"),
        ({"address": "x" * 501}, "address"),
        ({"address": "javascript://%0aalert(1)"}, "address"),
        ({"address": "ftp://files.example.org/a"}, "address"),
        ({"address": "https://"}, "address"),
        ({"address": "https://ann:secret@example.org/"}, "address"),
        ({"address": "a\nb"}, "address"),
        ({"title": "x" * 201}, "title"),
        ({"memory_ids": [], "text": None}, "text"),
        ({"memory_ids": [], "text": "no address"}, "text"),
        ({"memory_ids": ["nonsense"]}, "memory_ids[0]"),
        ({"memory_ids": [UUID(int=n).hex for n in range(MAX_CITATIONS + 1)]}, "memory_ids"),
        (
            {"text": " ".join(f"commonplace://memory/{UUID(int=n).hex}" for n in range(MAX_CITATIONS + 1))},
            "text",
        ),
    ],
)
def test_bad_input_names_the_field_and_stores_nothing(
    values: dict[str, Any], field: str, alice: Caller, fact: MemoryRecord
) -> None:
    with pytest.raises(Invalid) as caught:
        cite(alice, Cite.read({"address": ADDRESS, "memory_ids": [fact.pk.hex], **values}))
    assert caught.value.field == field
    assert not CitingDocument.objects.exists()


# -- telling -------------------------------------------------------------------------------------------------


def test_a_correction_is_told_with_both_texts_and_its_undo_takes_that_back(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    document = note(bob, fact)
    assert state(bob, document) == [{"state": "current", "reason": "", "text": fact.content}]
    correction = services.supersede(alice, Supersede(record_id=fact.pk, content=CORRECTED)).record
    assert notices() == [(bob.email, alice.email)]
    (row,) = state(bob, document)
    assert row == {
        "state": "outdated",
        "reason": "superseded",
        "text": fact.content,
        "new_text": CORRECTED,
        "replaced_by": correction.pk.hex,
    }
    services.forget(alice, Forget(record_id=correction.pk))
    services.restore(alice, Restore(record_id=fact.pk))
    assert state(bob, document)[0]["state"] == "current"
    assert notices() == []


def test_an_acknowledged_correction_is_what_the_document_cites_from_then_on(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    document = note(bob, fact)
    correction = services.supersede(alice, Supersede(record_id=fact.pk, content=CORRECTED)).record
    seen = queries.last_change(bob, document, queries.cited_by(bob, document))
    newer = services.supersede(alice, Supersede(record_id=correction.pk, content=f"{CORRECTED} Really.")).record
    change(bob, ChangeCiting(document_id=document.pk, acknowledged_until=seen))
    # Bob has not seen the newer correction, so it stays open.
    (row,) = state(bob, document)
    assert (row["state"], row["text"], row["new_text"]) == ("outdated", CORRECTED, newer.content)
    acknowledge(bob, document)
    assert state(bob, document) == [{"state": "current", "reason": "", "text": newer.content}]
    assert notices() == []
    services.revise(alice, Revise(record_id=newer.pk, content="Revenue includes everything."))
    (row,) = state(bob, document)
    assert (row["reason"], row["text"], row["new_text"]) == ("edited", newer.content, "Revenue includes everything.")
    assert notices() == [(bob.email, alice.email)]
    services.revise(alice, Revise(record_id=newer.pk, content=newer.content))
    assert (state(bob, document)[0]["state"], notices()) == ("current", [])


def test_staleness_archiving_and_their_ends(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    document = note(bob, fact)
    services.mark_stale(alice, record_id=fact.pk, reason="the column was renamed")
    assert state(bob, document)[0]["reason"] == "stale"
    acknowledge(bob, document)
    assert (state(bob, document)[0]["state"], notices()) == ("acknowledged", [])
    services.verify(alice, Verify(record_id=fact.pk))
    assert state(bob, document)[0]["state"] == "current"
    services.forget(alice, Forget(record_id=fact.pk))
    assert (state(bob, document)[0]["reason"], len(notices())) == ("archived", 1)
    undo(alice, record_id=fact.pk, change="forget")
    assert (state(bob, document)[0]["state"], notices()) == ("current", [])


def test_many_changes_make_one_notification_until_it_is_read(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    other = services.remember(alice, Remember(content="Gift cards are booked as revenue.")).record
    document = note(bob, fact, other)
    for record in (fact, other):
        services.forget(alice, Forget(record_id=record.pk))
    assert notices() == [(bob.email, alice.email)]
    services.restore(alice, Restore(record_id=fact.pk))
    assert len(notices()) == 1  # the other memory is still archived
    remove(bob, RemoveCiting(document_id=document.pk))
    assert (notices(), Citation.objects.count()) == ([], 0)


def test_who_may_no_longer_read_the_memory_learns_only_that_it_changed(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    document = note(bob, fact)
    services.share(alice, Share(record_id=fact.pk, visibility="private"))
    assert state(bob, document) == [{"state": "current"}]
    services.supersede(alice, Supersede(record_id=fact.pk, content=CORRECTED))
    assert state(bob, document) == [{"state": "outdated"}]
    assert notices() == [(bob.email, alice.email)]
    acknowledge(bob, document)
    assert state(bob, document) == [{"state": "acknowledged"}]


def test_a_correction_that_the_author_may_not_read_shows_no_new_text(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    document = note(bob, fact)
    services.supersede(alice, Supersede(record_id=fact.pk, content=CORRECTED, visibility="private"))
    (row,) = state(bob, document)
    assert (row["reason"], row["text"], "new_text" in row, "replaced_by" in row) == (
        "superseded", fact.content, False, False,
    )  # fmt: skip


def test_an_erased_memory_leaves_only_its_number(alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    other = services.remember(alice, Remember(content="Gift cards are booked as revenue.")).record
    document = note(bob, fact, other)
    erased = erasure.erase(alice, Erase(record_id=fact.pk, confirm=True))
    assert erased.removed == {"citations": 1}
    found = queries.document(bob, document.pk)
    assert (found.cited, found.changed, found.erased) == (1, 1, 1)  # type: ignore[attr-defined]  # annotated
    assert notices() == [(bob.email, alice.email)]
    acknowledge(bob, document)
    assert (queries.document(bob, document.pk).erased, notices()) == (0, [])


def test_the_end_of_its_validity_outdates_a_citation_and_its_extension_renews_it(
    alice: Caller, bob: Caller, fact: MemoryRecord
) -> None:
    soon = timezone.now() + timedelta(hours=1)
    services.revise(alice, Revise(record_id=fact.pk, valid_until=soon))
    document = note(bob, fact)
    assert state(bob, document)[0]["state"] == "current"
    changes.note_ends()
    assert notices() == []
    MemoryRecord.objects.filter(pk=fact.pk).update(valid_until=timezone.now())
    changes.note_ends()
    assert (state(bob, document)[0]["reason"], len(notices())) == ("invalid", 1)
    services.revise(alice, Revise(record_id=fact.pk, valid_until=soon))
    assert (state(bob, document)[0]["state"], notices()) == ("current", [])


# -- whose it is ---------------------------------------------------------------------------------------------


def test_others_neither_see_nor_change_a_document(alice: Caller, bob: Caller, olga: Caller, fact: MemoryRecord) -> None:
    document = note(bob, fact)
    attempts: list[Callable[[Caller], object]] = [
        lambda by: queries.document(by, document.pk),
        lambda by: change(by, ChangeCiting(document_id=document.pk, title="Mine")),
        lambda by: remove(by, RemoveCiting(document_id=document.pk)),
    ]
    for caller in (alice, olga):
        for attempt in attempts:
            with pytest.raises(DomainError, match="you have no such document"):
                attempt(caller)
    # The owner of the memory learns the number, and other readers nothing.
    reader = queries.citing(bob, fact)
    assert (reader.count, list(reader.documents)) == (None, [document])
    assert (queries.citing(alice, fact).count, queries.citing(alice, fact).documents) == (1, [])
    change(bob, ChangeCiting(document_id=document.pk, is_shared=True))
    assert list(queries.citing(alice, fact).documents) == [document]


def test_a_hand_over_moves_documents(ada: Caller, alice: Caller, bob: Caller, fact: MemoryRecord) -> None:
    document = note(bob, fact)
    row = hand_overs.hand_over(ada, old=bob.email, new=alice.email)
    assert row.counts["citing documents"] == 1
    assert queries.document(alice, document.pk) == document
    hand_overs.undo_hand_over(ada, hand_over_id=row.pk)
    assert queries.document(bob, document.pk) == document


@pytest.mark.parametrize(
    ("address", "is_refused"),
    [
        ("javascript:alert(1)", True), (" java\tscript:alert(1)", True), ("data:text/html,x", True),
        ("Report: May", False), ("C:\\reports\\may.xlsx", False), ("Board deck, page 4", False),
    ],
)  # fmt: skip
def test_an_address_with_another_scheme_is_refused(address: str, is_refused: bool) -> None:
    with pytest.raises(PydanticCustomError) if is_refused else nullcontext():
        assert check_address(address) == address


@pytest.mark.parametrize("start", ["=", "\uff1d", "\uff0b", "\uff20", " =", "\u00a0=", "\u200b=", "\n=", "\0="])
def test_formulas_of_a_table_are_quoted_however_they_begin(start: str) -> None:
    assert escape_formula(f"{start}1+1") == f"'{start}1+1"
    assert escape_formula("plain = text") == "plain = text"
