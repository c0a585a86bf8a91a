"""The calibration of models that are chosen by name or URL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from foundation import embedding
from foundation.embedding import calibration
from foundation.embedding.providers import Deterministic
from foundation.people.caller import Caller
from memories.models import MemoryRecord
from memory_project.operating.doctor import machine_facts, recall
from memory_project.operating.doctor.findings import FindingState
from tests.http_servers import QuietHandler, serving
from tests.memories.facts import remember

UNRELATED = ["Revenue excludes refunds.", "Parcels leave before noon."]
ALIKE = ["Parcels leave the depot before noon.", "Parcels leave this depot before noon."]
NARROW = "narrow"
CENTER = np.full(384, 60.0 / 384**0.5, dtype=np.float32)  # longer than the vectors of the texts


class NarrowServer(QuietHandler):
    """An embedding server whose vectors all point in nearly the same direction, as those of many models do."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        vectors = 20 * Deterministic(384).embed(body["input"]) + CENTER
        rows = [{"index": n, "embedding": vector.tolist()} for n, vector in enumerate(vectors)]
        payload = json.dumps({"data": rows}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


@pytest.fixture
def narrow(settings: Any, tmp_path: Path) -> Iterator[None]:
    settings.EMBEDDING_PROVIDER, settings.EMBEDDING_MODEL = "openai", NARROW
    settings.COMMONPLACE_HOME = tmp_path
    with serving(NarrowServer) as url:
        settings.EMBEDDING_URL = f"{url}/v1"
        yield


def run(calibrate: str) -> str:
    output = StringIO()
    call_command("embed", calibrate=calibrate, stdout=output)
    return output.getvalue()


def cosine(texts: list[str]) -> float:
    vectors, _ = embedding.embed(texts)
    return float(vectors[0] @ vectors[1])


def many_memories(caller: Caller) -> None:
    chance = Random(7)
    for _ in range(calibration.MIN_TEXTS):
        remember(caller, " ".join(f"word{chance.randrange(500)}" for _ in range(8)))


def test_a_calibration_parts_unrelated_texts_and_keeps_similar_ones_together(narrow: None, alice: Caller) -> None:
    many_memories(alice)
    before = (cosine(UNRELATED), cosine(ALIKE))
    printed = run("on")
    after = (cosine(UNRELATED), cosine(ALIKE))
    assert before[0] > 0.85
    assert after[0] < 0.3
    assert after[1] > 0.7
    assert f"calibrated {NARROW} with {calibration.MIN_TEXTS} memories" in printed
    assert ".mean" in printed


def test_all_vectors_are_computed_anew_and_stored_under_another_name(narrow: None, alice: Caller) -> None:
    many_memories(alice)
    call_command("embed", quiet=True)
    assert set(MemoryRecord.objects.values_list("embedding_model", flat=True)) == {NARROW}
    assert "restart all processes" in run("on")
    assert set(MemoryRecord.objects.values_list("embedding_model", flat=True)) == {NARROW}
    call_command("embed", quiet=True)
    (name,) = set(MemoryRecord.objects.values_list("embedding_model", flat=True))
    assert name.startswith(f"{NARROW} #")
    assert name == machine_facts.configured_model()
    run("off")
    call_command("embed", quiet=True)
    assert set(MemoryRecord.objects.values_list("embedding_model", flat=True)) == {NARROW}


def test_a_calibration_needs_memories(narrow: None, alice: Caller) -> None:
    remember(alice, "Revenue excludes refunds.")
    with pytest.raises(CommandError, match=f"there are 1 memories, and a calibration needs {calibration.MIN_TEXTS}"):
        run("on")
    assert not calibration.is_calibrated(NARROW)


def test_what_can_not_be_calibrated_is_refused(narrow: None, settings: Any) -> None:
    with pytest.raises(CommandError, match="narrow has no calibration"):
        run("off")
    settings.EMBEDDING_PROVIDER = "minilm"
    with pytest.raises(CommandError, match="EMBEDDING_PROVIDER=minilm needs no calibration"):
        run("on")


def test_doctor_names_a_missing_calibration(narrow: None, alice: Caller, settings: Any) -> None:
    assert recall.model_calibrated().state == FindingState.WARNING
    many_memories(alice)
    run("on")
    assert recall.model_calibrated().state == FindingState.OK
    settings.EMBEDDING_PROVIDER = "minilm"
    assert recall.model_calibrated().state == FindingState.OK


def test_a_damaged_calibration_is_reported(narrow: None, tmp_path: Path) -> None:
    calibration.fit(embedding.uncalibrated(), UNRELATED, timeout_s=10)
    (file,) = (tmp_path / "models").glob("*.mean")
    assert file.stat().st_mode & 0o777 == 0o644
    file.write_bytes(b"abc")
    with pytest.raises(embedding.EmbedderUnavailable, match="the calibration of narrow can't be read"):
        embedding.embed_query("x")
    assert recall.model_calibrated().state == FindingState.PROBLEM
    file.write_bytes(np.ones(7, dtype=np.float32).tobytes())
    embedding.reset()
    with pytest.raises(embedding.EmbedderUnavailable, match="has 7 dimensions, and its vectors have 384"):
        embedding.embed_query("x")
