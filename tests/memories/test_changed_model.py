"""A change of the embedding model on a living installation: in the background, killed, taken back; never a mix."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis import findings, sessions
from analysis.models import Finding
from analysis.operations import StoreFindings
from foundation import embedding
from foundation.embedding.minilm import MiniLM
from foundation.people.caller import Caller
from knowledge.context.candidate_memories import Criteria, find
from memories import services, tasks
from memories.models import MemoryRecord
from memories.operations import RecallMemories, Remember
from memories.retrieval.recall import recall
from tests.mcp_client import environment

ROOT = Path(__file__).parents[2]
EARLIER = "deterministic-384"

WORKER = """
import django; django.setup()
from foundation.database import identity
from memories import tasks
identity.run_process_as("command")
print("ready", flush=True)
tasks.close_gaps()
"""


def vectors_of(model: str) -> int:
    return MemoryRecord.objects.filter(embedding_model=model).count()


def use(settings: Any, provider: str) -> None:
    settings.EMBEDDING_PROVIDER = provider
    embedding.reset()


@pytest.mark.django_db(transaction=True)
def test_a_change_of_the_model_goes_on_after_a_kill_and_is_taken_back(alice: Caller, settings: Any) -> None:
    texts = [f"Branch {n} closes its till at {n % 24} hours and counts {n * 7} coins." for n in range(600)]
    for text in texts:
        services.remember(alice, Remember(content=text))
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER],
        env={**environment(), "EMBEDDING_PROVIDER": "minilm"},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    deadline = time.monotonic() + 120
    while not vectors_of(MiniLM.name) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert 0 < vectors_of(MiniLM.name) < 600

    use(settings, "minilm")
    new = MemoryRecord.objects.filter(embedding_model=MiniLM.name).values_list("pk", flat=True)
    hits = recall(alice, RecallMemories(query="Branch 599 closes its till", limit=50)).hits
    assert hits[0].record.content == texts[599]  # found by its words, whichever model has its vector
    assert {hit.record.pk in set(new) for hit in hits if hit.cosine is not None} <= {True}

    while vectors_of(MiniLM.name) < 600:
        assert tasks.close_gaps()
    assert vectors_of(EARLIER) == 0

    use(settings, "deterministic")
    while vectors_of(EARLIER) < 600:
        assert tasks.close_gaps()
    assert recall(alice, RecallMemories(query=texts[3], limit=1)).hits[0].record.content == texts[3]


@pytest.mark.django_db
def test_memories_for_a_call_are_compared_with_vectors_of_their_own_model(alice: Caller) -> None:
    services.remember(alice, Remember(content="Revenue in sales.orders excludes refunds and vouchers."))
    vector, model = embedding.embed_query("revenue without refunds in orders")
    criteria = Criteria(words={"revenue": 7, "refunds": 7, "orders": 7}, vector=vector, model=model)
    (own,) = find(alice, criteria).match
    (other,) = find(alice, replace(criteria, model="another model")).match
    assert own.cosine is not None
    assert other.cosine is None


@pytest.mark.django_db
def test_findings_of_another_model_are_found_by_their_words_only(alice: Caller) -> None:
    session = sessions.begin(alice, "tills")
    findings.store(
        alice, StoreFindings.read({"analysis_id": "tills", "findings": [{"finding": "The tills count coins twice."}]})
    )
    Finding.objects.update(embedding_model="another model")
    assert [hit.similarity for hit in findings.search(alice, session, "coins", threshold=0.1).hits] == [0.0]
