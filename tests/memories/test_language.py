"""Language detection, and lexical recall of facts in several languages."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from foundation.people.caller import Caller
from memories.models import MemoryRecord
from memories.operations import RecallMemories, Remember, Revise
from memories.retrieval.recall import recall
from memories.services import remember, revise
from memories.texts.language import language_of
from memories.writing import language_backfill

FACTS = {
    "de": "Der Umsatz enthält keine Gutscheine und keine Retouren.",
    "es": "Los ingresos no incluyen las devoluciones de los clientes mayoristas.",
    "ja": "売上には返品と送料を含まない。",
    "en": "Revenue excludes refunds and shipping of wholesale customers.",
}


@pytest.mark.parametrize("text", FACTS.values())
def test_the_language_of_a_sentence_is_detected(text: str) -> None:
    assert FACTS[language_of(text)] == text


@pytest.mark.parametrize("text", ["orders_2024", "Retouren", "fernhill.sales.orders", "GMV?", "", "42 %"])
def test_short_texts_and_identifiers_have_no_language(text: str) -> None:
    assert language_of(text) == ""


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("de", "Welche Umsätze enthalten einen Gutschein?"),  # German stems: Umsätze → Umsatz, Gutschein → Gutscheine
        ("de", "Retouren"),  # one word has no detected language, so it must match literally
        ("de", "what does Retouren mean in a report"),
        ("es", "¿El ingreso incluye la devolución de un cliente mayorista?"),
        ("ja", "返品は売上に入りますか"),
        ("ja", "送料"),
        ("en", "does the revenue exclude a refund"),
    ],
)
def test_a_fact_is_recalled_by_words_of_its_language(alice: Caller, language: str, question: str) -> None:
    for text in FACTS.values():
        remember(alice, Remember(content=text))
    best = recall(alice, RecallMemories(query=question, strategy="lexical")).hits[0]
    assert best.record.language == language


@pytest.mark.django_db
def test_a_given_language_is_kept_until_the_text_changes(alice: Caller) -> None:
    record = remember(alice, Remember(content="Nettoumsatz: ohne Retouren", language="de")).record
    assert record.language == "de"
    revise(alice, Revise(record_id=record.pk, content=FACTS["es"]))
    record.refresh_from_db()
    assert record.language == "es"


@pytest.mark.django_db(transaction=True)
def test_rebuilding_detects_the_language_of_older_memories(alice: Caller) -> None:
    record = remember(alice, Remember(content=FACTS["de"])).record
    MemoryRecord.objects.filter(pk=record.pk).update(language="")
    call_command("rebuild_search")
    record.refresh_from_db()
    assert record.language == "de"
    hits = recall(alice, RecallMemories(query="Wie hoch waren die Umsätze mit Gutscheinen?", strategy="lexical")).hits
    assert [hit.record.pk for hit in hits] == [record.pk]


@pytest.mark.django_db
def test_a_memory_that_is_edited_during_the_detection_keeps_the_language_of_its_new_text(
    alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = remember(alice, Remember(content=FACTS["de"])).record
    MemoryRecord.objects.filter(pk=record.pk).update(language="")

    def edit_meanwhile(text: str) -> str:
        monkeypatch.undo()
        revise(alice, Revise(record_id=record.pk, content=FACTS["es"], language="es"))
        return language_of(text)

    monkeypatch.setattr(language_backfill, "language_of", edit_meanwhile)
    assert language_backfill.backfill_languages() == 0
    record.refresh_from_db()
    assert (record.content, record.language) == (FACTS["es"], "es")
