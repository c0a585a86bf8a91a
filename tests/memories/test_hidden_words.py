"""Nobody learns from counts, corrections or messages whether a word occurs in a memory that they may not read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from memories import responses, services
from memories.models import MemoryRecord
from memories.operations import Forget, MarkFeedback, RecallMemories, Remember, Revise, Share, Supersede
from memories.retrieval import ranking, term_statistics
from memories.retrieval.recall import recall
from memories.writing import feedback

pytestmark = pytest.mark.django_db


def remember(caller: Caller, text: str, visibility: str = "persona") -> MemoryRecord:
    return services.remember(caller, Remember(content=text, visibility=visibility)).record


def seen_by(caller: Caller, query: str) -> Any:
    """Return all that recall tells a caller."""
    found = recall(caller, RecallMemories(query=query, strategy="lexical"))
    return responses.recall_response(found, explain=True)


@pytest.mark.parametrize("visibility", ["private", "persona"])
@pytest.mark.parametrize("copies", [1, 12])
def test_a_hidden_word_changes_no_correction_of_a_typo(
    visibility: str, copies: int, alice: Caller, bob: Caller, olga: Caller
) -> None:
    remember(olga, "The zandwort of the depot is open.", "everyone")
    query = "zandworx"  # one letter from a word that Olga may read
    term_statistics.refresh()
    before = seen_by(olga, query)
    assert before["count"] == 1
    for n in range(copies):
        author = [alice, bob, replace(alice, email="cleo@example.org")][n % 3]
        remember(author, f"The {query} of region {n} is secret.", visibility)
    term_statistics.refresh()
    assert seen_by(olga, query) == before


@pytest.mark.parametrize("visibility", ["private", "persona"])
def test_hidden_words_do_not_take_the_place_of_a_readable_correction(
    visibility: str, alice: Caller, olga: Caller
) -> None:
    remember(olga, "The zandwort is open.", "everyone")
    term_statistics.refresh()
    before = seen_by(olga, "zandworx")
    assert before["count"] == 1
    for letter in "abcdefgh":  # more words than a typo has alternatives, earlier in the alphabet
        remember(alice, f"zandwor{letter} is secret", visibility)
    term_statistics.refresh()
    assert seen_by(olga, "zandworx") == before


def test_words_of_one_s_own_private_memories_are_corrected(alice: Caller, bob: Caller) -> None:
    own = remember(alice, "Quintessa keeps the ledger.", "private")
    term_statistics.refresh()
    assert [memory["id"] for memory in seen_by(alice, "quintesa")["memories"]] == [own.pk.hex]
    assert seen_by(bob, "quintesa")["count"] == 0


@pytest.mark.parametrize("visibility", ["private", "persona"])
def test_hidden_words_change_no_frequency(
    visibility: str, alice: Caller, olga: Caller, ada: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(term_statistics, "CANDIDATE_ROWS", 2)
    monkeypatch.setattr(ranking, "_estimated_rows", lambda: 100.0)
    settings.RECALL_EXACT_SCAN_ROWS = 0
    for n in range(6):
        remember(olga, f"Vouchers of region {n} have returns.", "everyone")
    term_statistics.refresh()
    query = "vouchers returns depot"
    before = term_statistics.query_terms(query, olga), seen_by(olga, query)
    for n in range(6):
        remember(alice, f"The depot {n} has vouchers.", visibility)
    term_statistics.refresh()
    assert (term_statistics.query_terms(query, olga), seen_by(olga, query)) == before
    known = {term.lexeme: term.documents for term in term_statistics.query_terms(query, ada)}
    assert (known["depot"], known["voucher"]) == (6, 12)  # admins may read all


def test_code_without_a_caller_knows_only_words_of_several_people(alice: Caller, bob: Caller, olga: Caller) -> None:
    def documents() -> int:
        term_statistics.refresh()
        return term_statistics.query_terms("redundancies")[0].documents

    for caller in (alice, bob, olga):
        remember(caller, f"The redundancies as {caller.email} sees them.", "private")
    for caller in (alice, bob):
        remember(caller, f"The redundancies that {caller.email} shares.")
    assert documents() == 0
    remember(olga, f"The redundancies that {olga.email} shares.")
    assert documents() == 4  # of 3 memories, rounded to a power of two


def test_messages_name_no_memory_that_the_caller_may_not_read(alice: Caller, bob: Caller, olga: Caller) -> None:
    old = remember(alice, "Orders come twice a day.", "everyone")
    correction = Supersede(record_id=old.pk, content="Orders come at night, says the audit.", visibility="private")
    new = services.supersede(alice, correction).record
    proposal = {"insight_text": "Orders come hourly.", "category": "data_quality", "supersedes": old.pk.hex}
    with pytest.raises(Conflict, match=r"was superseded|already corrected") as hidden:
        capture(olga, Capture.read(proposal))
    assert new.pk.hex not in hidden.value.message
    with pytest.raises(Conflict, match=new.pk.hex):
        capture(alice, Capture.read({**proposal, "insight_text": "Orders come weekly."}))


def test_a_curator_learns_no_id_of_a_private_correction(alice: Caller, bob: Caller) -> None:
    curator = replace(bob, email="cleo@example.org", rights=frozenset({"curate"}))
    old = remember(alice, "Orders come twice a day.")
    feedback.mark(alice, MarkFeedback(record_id=old.pk, verdict="wrong"))
    correction = Supersede(record_id=old.pk, content="Orders come at night, says the audit.", visibility="private")
    new = services.supersede(alice, correction).record
    MemoryRecord.objects.filter(pk=old.pk).update(status="stale")  # as if the correction had not superseded it
    with pytest.raises(Conflict, match=r"was superseded|already corrected") as hidden:
        services.supersede(curator, Supersede(record_id=old.pk, content="Orders come hourly."))
    assert new.pk.hex not in hidden.value.message


def test_a_recount_follows_edits_and_changes_of_readers(alice: Caller, bob: Caller) -> None:
    def known_to(caller: Caller) -> dict[str, int]:
        term_statistics.refresh()
        return {term.lexeme: term.documents for term in term_statistics.query_terms("zandwort hazelnut", caller)}

    record = remember(alice, "The zandwort is open.")
    assert known_to(bob) == {"zandwort": 1, "hazelnut": 0}
    services.share(alice, Share(record_id=record.pk, visibility="private"))
    assert (known_to(bob)["zandwort"], known_to(alice)["zandwort"]) == (0, 1)
    services.revise(alice, Revise(record_id=record.pk, content="The hazelnut is open."))
    remember(alice, "Another hazelnut.", "private")
    assert known_to(alice) == {"zandwort": 0, "hazelnut": 2}
    services.forget(alice, Forget(record_id=record.pk))
    assert known_to(alice) == {"zandwort": 0, "hazelnut": 1}
    assert term_statistics.refresh() == term_statistics.refresh()
