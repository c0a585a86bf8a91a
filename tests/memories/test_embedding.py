from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foundation import embedding
from foundation.embedding import EmbedderUnavailable, minilm
from foundation.embedding.providers import Deterministic, OpenAICompatible
from tests.http_servers import QuietHandler, serving

TEXTS = [
    "Revenue excludes refunds.",
    "Der Umsatz enthält keine Rückgaben; naïve café 日本語.",
    "sales_2024.orders",
    "A much longer text about stock and shipments. " * 40,
    "x",
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> minilm.MiniLM:
    return minilm.MiniLM.load(tmp_path_factory.mktemp("models"))


def test_the_packaged_model_equals_its_reference(model: minilm.MiniLM) -> None:
    from foundation.embedding.providers import SentenceTransformers

    reference = SentenceTransformers(str(minilm.packaged_model()))
    cosines = (reference.embed(TEXTS) * model.embed(TEXTS)).sum(axis=1)
    assert cosines.min() > 0.999999
    assert reference.dimensions == model.dimensions


def test_a_text_has_the_same_vector_alone_and_in_a_batch(model: minilm.MiniLM) -> None:
    alone = np.concatenate([model.embed([text]) for text in TEXTS])
    assert np.abs(alone - model.embed(TEXTS)).max() < 1e-5


def test_the_model_graph_is_written_once(tmp_path: Path) -> None:
    first = minilm.written_graph(minilm.packaged_model(), tmp_path)
    mtime = first.stat().st_mtime_ns
    assert minilm.written_graph(minilm.packaged_model(), tmp_path) == first
    assert first.stat().st_mtime_ns == mtime
    assert not list(tmp_path.glob("*.draft"))


def test_the_model_is_loaded_on_first_use() -> None:
    assert embedding.state()["state"] == "idle"
    embedding.embed_query("now")
    assert embedding.state()["state"] == "ready"


def test_a_disabled_provider_is_unavailable(settings: Any) -> None:
    settings.EMBEDDING_PROVIDER = "none"
    with pytest.raises(EmbedderUnavailable, match="EMBEDDING_PROVIDER=none"):
        embedding.embed_query("x")
    assert embedding.state()["state"] == "off"


def test_waiting_for_a_slow_model_times_out(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr("foundation.embedding.model.make_embedder", lambda: gate.wait(10) and Deterministic(384))
    with pytest.raises(EmbedderUnavailable, match=r"still loading after 0\.05 s"):
        embedding.embed_query("x", wait_s=0.05)
    gate.set()
    assert len(embedding.embed_query("x")[0]) == 384


def test_vectors_of_another_length_than_the_column_are_rejected(settings: Any) -> None:
    settings.EMBEDDING_DIMENSIONS = 64
    embedding.current()
    settings.EMBEDDING_DIMENSIONS = 384
    with pytest.raises(EmbedderUnavailable, match="64 dimensions, but EMBEDDING_DIMENSIONS is 384"):
        embedding.embed_query("x")


class Stub(QuietHandler):
    """An embedding server that responds as configured."""

    status = 200
    vector: list[float] = [3.0, 4.0]
    bodies: list[dict[str, Any]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Stub.bodies.append({**body, "authorization": self.headers.get("Authorization")})
        rows = [{"index": n, "embedding": Stub.vector} for n in range(len(body["input"]))]
        payload = json.dumps({"data": list(reversed(rows))}).encode()
        self.send_response(Stub.status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


@pytest.fixture
def server() -> Iterator[str]:
    Stub.status, Stub.vector, Stub.bodies = 200, [3.0, 4.0], []
    with serving(Stub) as url:
        yield f"{url}/v1/"


def client(url: str) -> OpenAICompatible:
    return OpenAICompatible(url=url, model="nomic", api_key="key", dimensions=2)


def test_the_http_provider_sends_batches_and_returns_unit_vectors(server: str) -> None:
    vectors = client(server).embed(["text"] * 40)
    assert vectors.shape == (40, 2)
    assert vectors[0].tolist() == pytest.approx([0.6, 0.8])
    assert [len(body["input"]) for body in Stub.bodies] == [32, 8]
    assert Stub.bodies[0]["authorization"] == "Bearer key"


def test_a_failing_http_provider_is_unavailable(server: str) -> None:
    Stub.status = 500
    with pytest.raises(EmbedderUnavailable, match="500"):
        client(server).embed(["text"])
    with pytest.raises(EmbedderUnavailable, match=r"the request to .* failed"):
        client("http://127.0.0.1:9/v1").embed(["text"])


def test_a_zero_vector_is_rejected(server: str, settings: Any) -> None:
    Stub.vector = [0.0, 0.0]
    settings.EMBEDDING_PROVIDER, settings.EMBEDDING_MODEL = "openai", "nomic"
    settings.EMBEDDING_URL, settings.EMBEDDING_DIMENSIONS = server, 2
    with pytest.raises(EmbedderUnavailable, match="vector of zeros"):
        embedding.embed_query("text")
