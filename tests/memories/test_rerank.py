"""Reranking with a cross-encoder, against a fake endpoint."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from foundation.embedding.circuit_breaker import ModelBreaker
from foundation.people.caller import Caller
from memories import services
from memories.operations import RecallMemories, Remember
from memories.retrieval import rerank
from memories.retrieval.recall import recall
from tests.http_servers import QuietHandler, serving

pytestmark = pytest.mark.django_db
FIRST, LATE = "The orders close at ten, orders close.", "Orders that are late wait for Monday."


class Stub(QuietHandler):
    delay_s: ClassVar[float] = 0.0
    bodies: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Stub.bodies.append(body)
        time.sleep(Stub.delay_s)
        scores = [{"index": n, "relevance_score": float("late" in text)} for n, text in enumerate(body["documents"])]
        data = json.dumps({"results": scores}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def endpoint(alice: Caller, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for text in (FIRST, LATE):
        services.remember(alice, Remember(content=text))
    monkeypatch.setattr(rerank, "_breaker", ModelBreaker())
    Stub.delay_s, Stub.bodies = 0.0, []
    settings.RECALL_MIN_SCORE = 0.0  # both texts are candidates
    settings.RERANK_PROVIDER, settings.RERANK_MODEL = "http", "judge"
    settings.RERANK_TIMEOUT_S = 5.0
    with serving(Stub) as settings.RERANK_URL:
        yield


def test_reranking_changes_the_order_and_is_reported(alice: Caller, endpoint: None) -> None:
    result = recall(alice, RecallMemories(query="orders close", limit=1))
    assert (result.ranking, [hit.content for hit in result.hits]) == ("hybrid, reranked", [LATE])
    (body,) = Stub.bodies
    assert (body["query"], body["model"], sorted(body["documents"])) == ("orders close", "judge", sorted([FIRST, LATE]))


def test_a_slow_endpoint_leaves_the_order_unchanged(alice: Caller, endpoint: None, settings: Any) -> None:
    Stub.delay_s, settings.RERANK_TIMEOUT_S = 0.5, 0.1
    result = recall(alice, RecallMemories(query="orders close"))
    assert (result.ranking, result.degraded, result.hits[0].content) == ("hybrid", True, FIRST)
    assert "not reranked" in result.note


def test_reranking_is_off_by_default(alice: Caller, endpoint: None, settings: Any) -> None:
    settings.RERANK_PROVIDER = "none"
    assert (recall(alice, RecallMemories(query="orders close")).ranking, Stub.bodies) == ("hybrid", [])
