"""docs/scaling.md says what a distributed database would not accept; this keeps the list complete."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from foundation.database.engine.base import PublicCursor, StatementCursor, is_about_rows
from foundation.people.caller import Caller
from foundation.tools.declaration import Call
from knowledge.context.attached_memories import attach_memories
from knowledge.insights.capture import capture
from knowledge.operations import Capture
from memories import queries, services
from memories.models import MemoryRecord
from memories.operations import Forget, ListMemories, RecallMemories, Remember, Revise, Supersede
from memories.retrieval import indexing
from memories.retrieval.recall import recall
from memory_project.operating.postgres.server import APPLICATION
from tests.knowledge import distribution
from tests.knowledge.conftest import ORDERS

LIST = Path(__file__).parent.parent / "data" / "distribution.txt"
FACT = "Net revenue of sales.orders excludes refunds."
pytestmark = pytest.mark.usefixtures("small_catalog")


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Return a context manager that yields the list of statements of its block."""
    sent: list[str] = []
    execute, executemany = StatementCursor.execute, StatementCursor.executemany

    def note(original: Any) -> Any:
        def noted(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
            if is_about_rows(query):
                sent.append(query)
            return original(cursor, query, *arguments, **options)

        return noted

    monkeypatch.setattr(StatementCursor, "execute", note(execute))
    monkeypatch.setattr(StatementCursor, "executemany", note(executemany))
    monkeypatch.setattr(PublicCursor, "execute", note(PublicCursor.execute))

    @contextmanager
    def noting() -> Iterator[list[str]]:
        sent.clear()
        yield sent

    return noting


def frequent(alice: Caller, fact: MemoryRecord) -> dict[str, Callable[[], object]]:
    """Return the operations of every minute, by name."""
    return {
        "recall": lambda: recall(alice, RecallMemories(query="refunds in net revenue")),
        "recall by entity": lambda: recall(alice, RecallMemories(strategy="entity", entity_urns=[ORDERS])),
        "remember": lambda: services.remember(alice, Remember(content=FACT, entity_urns=[ORDERS])),
        "revise": lambda: services.revise(alice, Revise(record_id=fact.pk, tags=["finance"])),
        "supersede": lambda: services.supersede(alice, Supersede(record_id=fact.pk, content=f"{FACT} Since May.")),
        "forget": lambda: services.forget(alice, Forget(record_id=fact.pk)),
        "list": lambda: list(queries.list_memories(alice, ListMemories())[:50]),
        "capture": lambda: capture(alice, Capture(insight_text=FACT, category="business_context")),
        "attach": lambda: attach_memories(alice, Call("catalog_entity", {"urn": ORDERS}, {})),
        "claim index jobs": lambda: indexing.claim("worker"),
    }


def found(statements: Callable[[], Any], operations: dict[str, Callable[[], object]]) -> Iterator[str]:
    yield from distribution.problems_of_tables()
    for name, operation in operations.items():
        with statements() as sent:
            operation()
        problems = {problem for statement in sent for problem in distribution.problems_of_statement(statement)}
        yield from (f"{name}: {problem}" for problem in problems)


def test_the_list_is_complete(alice: Caller, fact: MemoryRecord, statements: Callable[[], Any]) -> None:
    problems = sorted(found(statements, frequent(alice, fact)))
    if os.environ.get("RECORD"):
        LIST.write_text("".join(f"{problem}\n" for problem in problems))
    assert problems == LIST.read_text().splitlines(), "a new obstacle to distribution; RECORD=1 writes the list anew"


def test_the_other_keys_are_extended_by_a_statement_each_without_a_change_of_the_code(
    alice: Caller, fact: MemoryRecord
) -> None:
    statements = distribution.extended_keys()
    assert len(statements) == 13
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; RESET ROLE")  # the application's role owns no table
        for statement in statements:
            cursor.execute(statement)
        cursor.execute(f"SET LOCAL ROLE {APPLICATION}")
    for operation in frequent(alice, fact).values():
        operation()


@pytest.mark.parametrize(
    ("statement", "problems"),
    [
        ("SELECT 1 FROM memories_persona", []),
        ("SELECT content FROM memory_records WHERE id = %s", []),
        ("SELECT content FROM memory_records WHERE owner = %s", ["asks every server: memory_records"]),
        (
            "SELECT 1 FROM memory_records r JOIN memory_passages p ON p.record_id = r.id WHERE r.id = %(id)s",
            [],
        ),
        (
            "SELECT 1 FROM memory_records r JOIN memory_passages p ON p.start = r.length WHERE r.id = %s",
            [
                "joins otherwise than by the key: memory_passages, memory_records",
                "asks every server: memory_passages, memory_records",
            ],
        ),
        (
            "SELECT id FROM memory_records WHERE status = 'active' FOR UPDATE SKIP LOCKED",
            ["asks every server: memory_records", "locks rows on every server: memory_records"],
        ),
        (
            "SELECT 1 FROM memory_records WHERE id IN (SELECT U0.record_id FROM memory_feedback U0)",
            ["asks every server: memory_feedback, memory_records"],
        ),
        (
            "WITH near AS (SELECT id FROM memory_records WHERE id = %s)"
            " SELECT p.start FROM memory_passages p JOIN near ON near.id = p.record_id",
            [],
        ),
        (
            "DELETE FROM memory_passages WHERE start > 3",
            ["asks every server: memory_passages"],
        ),
        (
            "WITH gone AS (DELETE FROM memory_passages WHERE record_id = %s RETURNING 1) SELECT * FROM gone",
            ["changes rows within WITH: memory_passages"],
        ),
        ("INSERT INTO memory_records (id) VALUES (%s)", []),
    ],
)
def test_problems_are_found(statement: str, problems: list[str]) -> None:
    assert list(distribution.problems_of_statement(statement)) == problems
