from __future__ import annotations

import subprocess
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from django.core.management import call_command
from django.db import connection

from foundation.database.locks import exclusive
from foundation.operations.errors import Conflict
from foundation.people.caller import Caller
from memories import services
from memories.models import MemoryRecord, Passage
from memories.operations import RecallMemories, Remember
from memories.retrieval import near_duplicates, vector_index
from memories.retrieval.recall import recall
from memories.writing.bulk_import import remember_many
from memory_project import tasks

pytestmark = pytest.mark.django_db(transaction=True)
COUNT = 120


@pytest.fixture
def library(alice: Caller, monkeypatch: pytest.MonkeyPatch) -> list[MemoryRecord]:
    monkeypatch.setattr(vector_index, "TRAINED_FROM", 100)
    facts = [{"content": f"Store {n} counts its stock on day {n % 28} of each month."} for n in range(COUNT)]
    return [record for record, _ in remember_many(alice, facts=facts)]


@pytest.fixture(autouse=True)
def no_index_left(db: None) -> Any:
    yield
    vector_index.drop()


def index_descriptions() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname || ' ' || array_to_string(c.reloptions, ',') || ' ' || i.indisvalid FROM pg_class c"
            " JOIN pg_index i ON i.indexrelid = c.oid WHERE c.relname LIKE 'passage_vectors%%' ORDER BY 1"
        )
        return [row[0] for row in cursor.fetchall()]


def test_few_passages_need_no_index(fact: MemoryRecord) -> None:
    assert vector_index.train() == "1 passages: no index needed below 5000"
    assert index_descriptions() == []


def test_the_index_is_built_once_there_are_enough_passages(library: list[MemoryRecord]) -> None:
    assert vector_index.train() == f"{COUNT} passages, 5 lists, built"
    assert vector_index.train() == f"{COUNT} passages, 5 lists"
    assert index_descriptions() == ["passage_vectors lists=5 true"]


def test_the_index_is_rebuilt_when_the_passages_have_tripled(alice: Caller, library: list[MemoryRecord]) -> None:
    vector_index.train()
    rows = Passage.objects.values_list("record", "vector")
    copies = [Passage(record_id=pk, start=n, stop=n + 10, vector=vector) for pk, vector in rows for n in (100, 200)]
    Passage.objects.bulk_create(copies[:-60])
    assert "built" not in vector_index.train()
    Passage.objects.bulk_create(copies[-60:])
    assert tasks.train_vector_index() == f"{3 * COUNT} passages, 10 lists, built"


def test_an_interrupted_build_does_not_prevent_the_next(library: list[MemoryRecord]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE INDEX {vector_index.NEXT} ON memory_passages (start)")
    vector_index.train()
    assert index_descriptions() == ["passage_vectors lists=5 true"]


def test_only_one_process_builds_the_index(library: list[MemoryRecord]) -> None:
    with exclusive("vector index", UUID(int=0), Conflict("a test holds it")):
        assert vector_index.train() == "another process is building the vector index"
    assert index_descriptions() == []


def test_a_long_training_runs_in_a_process_of_its_own(
    library: list[MemoryRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: started.append(command))
    monkeypatch.setattr(vector_index, "IN_A_TASK", COUNT - 1)
    assert "a process of its own builds the vector index with 5 lists" in tasks.train_vector_index()
    assert index_descriptions() == []
    with exclusive(*vector_index.LOCK, Conflict("it is at work")):
        assert "another process is building the vector index: starting" in tasks.train_vector_index()
    call_command(*started[0][2:], verbosity=0)
    assert index_descriptions() == ["passage_vectors lists=5 true"]
    assert tasks.train_vector_index() == f"{COUNT} passages, 5 lists"
    assert len(started) == 1


def test_the_memory_for_training_limits_the_lists(settings: Any) -> None:
    assert vector_index.max_lists() == 2_033
    settings.VECTOR_INDEX_MEMORY_MB = 128
    assert 400 < vector_index.max_lists() < 600
    settings.VECTOR_INDEX_MEMORY_MB = 262_144
    assert vector_index.max_lists() == vector_index.MAX_LISTS


def test_a_large_scope_is_searched_with_the_index(
    alice: Caller, olga: Caller, library: list[MemoryRecord], settings: Any
) -> None:
    query = "Store 17 counts its stock on day 17 of each month."
    exact = [hit.record.pk for hit in recall(alice, RecallMemories(query=query)).hits]
    settings.RECALL_EXACT_SCAN_ROWS = 0
    vector_index.train()
    vector = np.asarray(Passage.objects.get(record=library[17]).vector, dtype=np.float32)
    order = vector_index.distance("vector", f"'{vector.tolist()}'::vector")
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(f"EXPLAIN SELECT id FROM memory_passages WHERE NOT short_term ORDER BY {order} LIMIT 5")  # noqa: S608
        assert "passage_vectors" in cursor.fetchone()[0] + "".join(row[0] for row in cursor.fetchall())
        assert [hit.record.pk for hit in recall(alice, RecallMemories(query=query)).hits] == exact
        assert near_duplicates.similar_to(alice, vector[None], threshold=0.99)[0].record == library[17]
        assert near_duplicates.similar_to(olga, vector[None], threshold=0.0) == []
        cursor.execute("RESET enable_seqscan")


def test_new_passages_are_found_at_once(alice: Caller, library: list[MemoryRecord], settings: Any) -> None:
    vector_index.train()
    settings.RECALL_EXACT_SCAN_ROWS = 0
    new = services.remember(alice, Remember(content="Gift vouchers are sold in Lisbon alone.")).record
    assert recall(alice, RecallMemories(query="Gift vouchers are sold in Lisbon alone.")).hits[0].record == new


def test_a_role_that_does_not_own_the_tables_gets_an_explanation(
    library: list[MemoryRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(lists: int) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET ROLE pg_read_all_data")
            cursor.execute("CREATE INDEX ON memory_passages (start)")

    monkeypatch.setattr(vector_index, "_build", build)
    try:
        assert "DATABASE_OWNER_URL" in vector_index.train()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET ROLE")
