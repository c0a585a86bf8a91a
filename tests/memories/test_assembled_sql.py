"""Statements that are put together from parts, as they are sent, in tests/data/statements.

A change of a part shows there in whole. `RECORD=1 pytest tests/memories/test_assembled_sql.py` writes them anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from psycopg.pq import ExecStatus

from foundation.database import prepared_statements, sql_files
from foundation.database.queryset_sql import Condition
from foundation.people.caller import Caller
from knowledge.context import candidate_memories
from knowledge.graph.search import graph_reading
from memories.retrieval import conversation_context, filters, ranking, term_statistics
from memories.retrieval.filters import Filters
from memories.retrieval.question_features import Cues
from memories.retrieval.ranking import RecallQuestion
from memories.retrieval.term_statistics import Term

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests/data/statements"
VECTOR = [1.0] + [0.0] * 383
TERMS = [Term("refund", 2, 3.0), Term("revenu", 5_000, 1.0, alternatives=("revenue",))]
QUESTION = RecallQuestion(VECTOR, "", TERMS, {"urn:li:tag:a": 0, "urn:li:tag:b": 1}, Cues(names=("maya",), month=3))
WORDS_ONLY = RecallQuestion(terms=TERMS)
FREQUENT = RecallQuestion(terms=[Term("refund", 5_000, 1.0), Term("revenu", 6_000, 0.9)])


def _searched(caller: Caller) -> Condition:
    return filters.compiled_filters(caller, Filters())


STATEMENTS: dict[str, Callable[[Caller], str]] = {
    "ranking_of_few_rows": lambda caller: ranking.statement(_searched(caller), QUESTION, 10, exact=True)[0],
    "ranking_of_many_rows": lambda caller: ranking.statement(_searched(caller), QUESTION, 10, exact=False)[0],
    "ranking_by_words": lambda caller: ranking.statement(_searched(caller), WORDS_ONLY, 10, exact=True)[0],
    "ranking_by_frequent_words": lambda caller: ranking.statement(_searched(caller), FREQUENT, 10, exact=False)[0],
    "turns_around_seeds": lambda caller: conversation_context.around(_searched(caller), QUESTION),
    "terms_of_a_query": lambda caller: term_statistics._query_terms_sql("de"),
    "entities_with_a_text": lambda caller: graph_reading.page("%(graph)s", "orders", None)[0],
    "entities_by_name": lambda caller: graph_reading.page("%(graph)s", "", ["orders"])[0],
    "memories_for_a_call": lambda caller: candidate_memories._statement(False, "english")[0],
}


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_assembled_as_recorded(name: str, alice: Caller) -> None:
    file = RECORDED / f"{name}.sql"
    statement = STATEMENTS[name](alice).strip() + "\n"
    if os.environ.get("RECORD"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(statement)
    assert statement == file.read_text()


def test_nothing_else_is_recorded() -> None:
    assert {file.stem for file in RECORDED.glob("*.sql")} == set(STATEMENTS)


def test_each_part_has_its_name_once(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("-- name: one\n-- why\nSELECT 1\n-- name: two\nSELECT 2 -- here\n")
    assert sql_files.statements(str(tmp_path / "a.py")) == {"one": "SELECT 1", "two": "SELECT 2 -- here"}
    (tmp_path / "b.sql").write_text("-- name: one\nSELECT 1\n-- name: one\nSELECT 2\n")
    with pytest.raises(ValueError, match="two statements of one name: one"):
        sql_files.statements(str(tmp_path / "b.py"))


def test_every_part_of_a_file_is_used() -> None:
    apps = ("foundation", "memories", "knowledge", "analysis")
    files = [file for app in apps for file in (ROOT / app).rglob("*.sql")]
    assert len(files) > 5
    for file in files:
        module = file.with_suffix(".py")
        unused = [name for name in sql_files.statements(str(module)) if f'"{name}"' not in module.read_text()]
        assert unused == [], file


def test_a_recorded_statement_has_no_syntax_error() -> None:
    """PostgreSQL parses each statement with its placeholders, without values."""
    for file in sorted(RECORDED.glob("*.sql")):
        numbered, names = prepared_statements._numbered(file.read_text())
        assert names, file
        with connection.cursor() as cursor:
            result = cursor.connection.pgconn.prepare(b"", numbered.encode())
        assert result.status == ExecStatus.COMMAND_OK, (file, result.error_message)
