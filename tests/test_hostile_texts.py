"""Hostile texts don't keep the server busy."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from analysis.sql import parsing, statements
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller
from memories.conversation.mcp_tools import cache_invalidate, store_cache
from memories.texts import language
from memories.texts.sequence_matching import matcher

MAX_S = 1.5  # seconds of the process's own time; before, each of these took more than twice as long


def took(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


@pytest.mark.parametrize("opening", ["DECIMAL(", "ROW(", "STRUCT("])
@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "trino"])
def test_nested_types_are_refused_in_time(opening: str, dialect: str) -> None:
    """sqlglot tries each level twice: 24 levels, a text of 220 characters, took minutes."""
    sql = f"SELECT {opening * 24}1{')' * 24}"

    messages: list[str] = []

    def check() -> None:
        try:
            statements.check_reads(sql, dialect)
        except Invalid as error:
            messages.append(error.message)

    assert took(check) < MAX_S
    assert all("nested too deeply" in message for message in messages)


def test_ordinary_statements_stay_within_the_steps() -> None:
    sql = "SELECT a, CAST(b AS DECIMAL(10, 2)) FROM t WHERE c IN (1, 2)" + " OR d = 1" * 2_000
    assert len(parsing.parse(sql, "duckdb")) == 1


def test_a_long_word_is_classified_in_time() -> None:
    assert took(lambda: language.IDENTIFIERS.sub(" ", "a" * 60_000)) < MAX_S


def test_texts_that_repeat_a_word_are_not_compared() -> None:
    assert matcher(["a"] * 2_000, ["a"] * 2_000) is None
    found = matcher(["the", "net", "revenue"], ["the", "gross", "revenue"])
    assert found is not None
    assert found.ratio() > 0.6


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("pattern", "count"), [("rev.*net", 1), ("(x+x+)+y", 0), ("REVENUE", 1)])
def test_a_pattern_of_a_caller_takes_linear_time(alice: Caller, pattern: str, count: int) -> None:
    for query in ("What is revenue, net?", "x" * 4_000):
        store_cache(alice, user_id=alice.email, query=query, response="An answer.")
    assert cache_invalidate(alice, user_id=alice.email, pattern=pattern)["deleted_count"] == count
    for invalid in ("(?=a)", "((a{1,100}){1,100}){1,100}", "["):
        with pytest.raises(Invalid, match="is not a regular expression"):
            cache_invalidate(alice, user_id=alice.email, pattern=invalid)
