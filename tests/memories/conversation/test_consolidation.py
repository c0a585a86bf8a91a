"""Long-term memories: classification, strengthening and merging, summaries, promotion and forgetting."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from foundation.database import connections
from foundation.operations.errors import Conflict, NotFound
from foundation.people.caller import Caller
from memories import services
from memories.conversation import heuristics, tasks
from memories.conversation.consolidation import classification, enrichment, merging, summaries
from memories.conversation.models import MergeProposal
from memories.models import IndexJob, MemoryRecord, Passage, Status, Tier
from memories.models.index_job import JobStatus
from memories.operations import Revise
from tests.http_servers import QuietHandler, serving
from tests.mcp_client import environment
from tests.memories.conversation.conftest import LONG, call, long_term_memory, store_turns
from tests.other_processes import until

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parent.parent.parent.parent


@pytest.mark.parametrize(
    ("text", "sign", "other_text"),
    [
        ("Please remember: never ship on Fridays, it is important.", "more", "The sky was a little grey over there."),
        ("I prefer reports in euros, as agreed on 2026-03-01.", "more", "It rained a little, and then it stopped."),
        ("ok thanks", "less", "The refunds are booked a month later."),
    ],
)
def test_important_statements_score_higher_than_small_talk(text: str, sign: str, other_text: str) -> None:
    values = heuristics.importance_of(text), heuristics.importance_of(other_text)
    assert values[0] > values[1] if sign == "more" else values[0] < values[1]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I prefer dark mode.", "preference"),
        ("My boss wants the report on Mondays.", "relationship"),
        ("We migrated sales.orders yesterday.", "event"),
        ("GMV stands for gross merchandise value.", "entity"),
        ("Revenue excludes refunds.", "knowledge"),
        ("Ich bevorzuge dunkle Farben.", "preference"),
    ],
)
def test_the_dimension_is_derived_from_cues(text: str, kind: str) -> None:
    assert heuristics.dimension_of(text) == kind


def test_a_new_memory_is_read_once(alice: Caller) -> None:
    (turn,) = store_turns(alice, LONG)
    assert tasks.enrich() == "1 enriched, 0 put back or failed"
    memory = long_term_memory(turn)
    assert (memory.enrichment_status, memory.dimension) == ("completed", "preference")
    assert memory.importance == heuristics.importance_of(LONG)
    assert memory.tags
    assert memory.access_count == 0  # it is not like itself
    assert tasks.enrich() == "0 enriched, 0 put back or failed"


def test_a_repeated_memory_is_strengthened_and_never_merged_silently(
    alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = store_turns(alice, LONG)
    tasks.enrich()
    before = long_term_memory(first).importance
    (second,) = store_turns(alice, LONG + " Always.")
    monkeypatch.setattr(enrichment, "REINFORCE_COSINE", 0.5)
    tasks.enrich()
    memory = long_term_memory(first)
    assert memory.importance == pytest.approx(before * 1.1)
    assert memory.access_count == 1
    assert long_term_memory(second).access_count == 0
    assert MemoryRecord.objects.filter(tier=Tier.LONG_TERM, status=Status.ACTIVE).count() == 2


def test_a_merge_is_proposed_and_only_its_owner_decides(
    alice: Caller, bob: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enrichment, "REINFORCE_COSINE", 1.0)
    monkeypatch.setattr(enrichment, "MERGE_COSINE", 0.1)
    first, second = store_turns(alice, LONG, "I prefer the dark theme in every report that I build, too.")
    tasks.enrich()
    proposal = MergeProposal.objects.get()
    assert (proposal.target, proposal.record) == (long_term_memory(first), long_term_memory(second))
    assert [entry.pk for entry in merging.waiting(alice)] == [proposal.pk]
    assert not merging.waiting(bob).exists()
    with pytest.raises(NotFound):
        merging.accept(bob, proposal_id=proposal.pk)
    merging.accept(alice, proposal_id=proposal.pk)
    texts = MemoryRecord.objects.filter(tier=Tier.LONG_TERM, status=Status.ACTIVE).values_list("content", flat=True)
    assert list(texts) == [proposal.text]
    with pytest.raises(Conflict):
        merging.dismiss(alice, proposal_id=proposal.pk)


def test_a_merge_of_texts_that_a_memory_no_longer_has_is_neither_offered_nor_accepted(
    alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enrichment, "REINFORCE_COSINE", 1.0)
    monkeypatch.setattr(enrichment, "MERGE_COSINE", 0.1)
    store_turns(alice, LONG, "I prefer the dark theme in every report that I build, too.")
    tasks.enrich()
    proposal = MergeProposal.objects.get()
    services.revise(alice, Revise(record_id=proposal.target_id, tags=["reports"]))
    assert merging.waiting(alice).exists()
    services.revise(alice, Revise(record_id=proposal.target_id, content="I prefer the light theme in reports."))
    assert not merging.waiting(alice).exists()
    with pytest.raises(Conflict, match="another text since"):
        merging.accept(alice, proposal_id=proposal.pk)
    assert MemoryRecord.objects.filter(tier=Tier.LONG_TERM, status=Status.ACTIVE).count() == 2
    merging.dismiss(alice, proposal_id=proposal.pk)


@pytest.mark.parametrize("reinforce_cosine", [0.1, 1.0])
def test_a_memory_with_another_fact_is_neither_strengthened_nor_merged(
    alice: Caller, monkeypatch: pytest.MonkeyPatch, reinforce_cosine: float
) -> None:
    monkeypatch.setattr(enrichment, "REINFORCE_COSINE", reinforce_cosine)
    monkeypatch.setattr(enrichment, "MERGE_COSINE", 0.1)
    first, *_ = store_turns(alice, LONG, LONG.replace("prefer", "do not prefer"), LONG.replace("dark", "light"))
    tasks.enrich()
    assert long_term_memory(first).access_count == 0
    assert not MergeProposal.objects.filter(target=long_term_memory(first)).exists()


# -- a language model ---------------------------------------------------------------------------------------


class Model(QuietHandler):
    replies: list[Any] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        response = self.replies.pop(0) if self.replies else {}
        status, content = response if isinstance(response, tuple) else (200, response)
        text = content if isinstance(content, str) else json.dumps(content)
        body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def model(settings: Any) -> Iterator[type[Model]]:
    Model.replies = []
    with serving(Model) as url:
        settings.ENRICHMENT_URL, settings.ENRICHMENT_MODEL = f"{url}/v1", "stand-in"
        yield Model


@pytest.mark.parametrize(
    ("value", "importance"), [(0.8, 0.8), ("0.95", 0.95), (1.0, 1.0), (7, 0.7), (10, 1.0), (0.05, 0.05)]
)
def test_importance_is_parsed_as_a_number(model: type[Model], value: Any, importance: float) -> None:
    """An older system read only the first digit: 0.8, 0.95 and 1.0 became 0.1, and nothing was ever forgotten."""
    model.replies = [{"importance": value, "summary": "s", "tags": ["a"], "memory_type": "event"}]
    assert classification.read(LONG) == heuristics.TurnReading(importance, "s", ["a"], "event")


@pytest.mark.parametrize("response", ["no JSON", [], {"summary": "x"}, {"importance": 77}, (500, {})])
def test_an_invalid_response_fails_after_three_attempts(model: type[Model], alice: Caller, response: Any) -> None:
    model.replies = [response] * 5
    (turn,) = store_turns(alice, LONG)
    for _ in range(4):
        IndexJob.objects.update(next_run_at=timezone.now())
        enrichment.enrich_batch("worker")
    job = IndexJob.objects.get(source_kind="enrichment")
    assert (job.status, job.attempts) == (JobStatus.FAILED, 3)
    assert job.last_error
    assert long_term_memory(turn).enrichment_status == "failed"
    assert long_term_memory(turn).content == LONG
    assert len(model.replies) == 2


# -- kill during enrichment ---------------------------------------------------------------------------------

WORKER = """
import django; django.setup()
from memories.conversation import tasks
print("ready", flush=True)
tasks.enrich()
"""


@pytest.mark.django_db(transaction=True)
def test_hundreds_of_memories_are_enriched_once_each_despite_a_kill(alice: Caller) -> None:
    texts = [f"Note {n}: the report number {n} is about store {n * 7} and its till." for n in range(200)]
    store_turns(alice, *texts)
    # Statistics of earlier tests are wrong here; autovacuum would update them within a minute.
    connections.analyze_tables(MemoryRecord, Passage)
    command = [sys.executable, "-c", WORKER]
    process = subprocess.Popen(command, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    completed = MemoryRecord.objects.filter(enrichment_status="completed")
    assert until(lambda: completed.count() >= 40 or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    at_the_kill = completed.count()
    assert 40 <= at_the_kill < 200, os.getpid()
    while IndexJob.objects.filter(source_kind="enrichment").exclude(status=JobStatus.SUCCEEDED).exists():
        tasks.enrich()
    assert completed.count() == 200
    # Each memory was enriched once, so each strengthened a memory or proposed a merge at most once.
    strengthened = sum(MemoryRecord.objects.filter(tier=Tier.LONG_TERM).values_list("access_count", flat=True))
    assert strengthened + MergeProposal.objects.count() <= 199


# -- consolidation ------------------------------------------------------------------------------------------


def expire_soon() -> None:
    MemoryRecord.objects.filter(tier=Tier.SHORT_TERM).update(expires_at=timezone.now() + timedelta(minutes=30))


def test_a_conversation_is_summarized_once_before_its_turns_expire(alice: Caller) -> None:
    """An older system summarized turns older than 24 hours, which had already expired."""
    store_turns(alice, "I decided to ship on Mondays.", "ok", "Remember: never on Fridays.", "hm", author="Ann")
    assert summaries.compress() == 0
    expire_soon()
    assert (summaries.compress(), summaries.compress()) == (1, 0)
    summary = MemoryRecord.objects.get(tier=Tier.LONG_TERM, derived_from=None)
    assert "Ann: Remember: never on Fridays." in summary.content
    assert summary.metadata["messages"] == 4


def test_a_useful_turn_is_promoted_to_long_term(alice: Caller) -> None:
    (turn,) = store_turns(alice, "Always ask Bo: 42.")
    MemoryRecord.objects.filter(pk=turn.pk).update(
        importance=0.7, access_count=2, updated_at=timezone.now() - timedelta(hours=2)
    )
    assert summaries.promote() == 1
    turn.refresh_from_db()
    assert (turn.tier, turn.expires_at, turn.enrichment_status) == (Tier.LONG_TERM, None, "pending")
    assert not turn.passages.filter(short_term=True).exists()


def test_unimportant_memories_are_archived_if_never_recalled(alice: Caller) -> None:
    first, second = store_turns(alice, LONG, "Another sentence of more than thirty characters.")
    tasks.enrich()
    MemoryRecord.objects.filter(pk=long_term_memory(first).pk).update(importance=0.05)
    MemoryRecord.objects.filter(pk=long_term_memory(second).pk).update(importance=0.05, access_count=1)
    assert summaries.forget() == 1
    assert (long_term_memory(first).status, long_term_memory(second).status) == (Status.ARCHIVED, Status.ACTIVE)
    assert long_term_memory(first).purge_after is not None


def test_a_recall_stores_nothing(alice: Caller) -> None:
    """An older system stored what it had recalled, and then recalled that."""
    store_turns(alice, LONG)
    before = MemoryRecord.objects.count()
    for tool in ("recall_memory", "hybrid_search"):
        call(alice, tool, query="dark theme")
    assert MemoryRecord.objects.count() == before


def test_tags_name_the_subject_and_not_how_it_is_said() -> None:
    text = "Please remember that I prefer revenue reports in euros, updated on Friday, from May on."
    tags = heuristics.tags_of(text)
    assert {"revenue", "reports"} <= set(tags)
    assert not {"remember", "prefer", "updated", "may", "friday", "please"} & set(tags)
    assert "revenue_mart" in heuristics.tags_of("I decided that revenue_mart replaces the report.")
