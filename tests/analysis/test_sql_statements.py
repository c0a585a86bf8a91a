"""Statements of query_sql on DuckDB besides SELECT, complete error messages and exact values."""

from __future__ import annotations

import json
from typing import Any

import pytest

from analysis.mcp_tools import query_sql
from analysis.sources.interface import UpstreamFailed
from analysis.sources.messages import MAX_MESSAGE, error_message
from analysis.sql.statements import check_reads
from analysis.sql.values import MAX_CELL
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("warehouse")]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DESCRIBE sales.orders", ["id", "BIGINT"]),
        ("desc SELECT id FROM sales.orders", ["id", "BIGINT"]),
        ("SUMMARIZE sales.orders", ["id", "BIGINT", "0", "499"]),
        ("SUMMARIZE SELECT id FROM sales.orders", ["id", "BIGINT", "0", "499"]),
        ("SELECT column_name FROM (SUMMARIZE sales.orders)", ["id"]),
        ("PIVOT (SELECT id % 2 AS k, 1 AS g FROM sales.orders) ON k USING count(*) GROUP BY g", [1, 250, 250]),
        ("PIVOT (SELECT id % 2 AS k FROM sales.orders) ON k IN (0, 1) USING count(*)", [250, 250]),
        ("UNPIVOT (SELECT 1 AS a, 2 AS b) ON a, b INTO NAME n VALUE v", ["a", 1]),
        ("SHOW TABLES FROM sales", ["orders"]),
        ("-- which ones?\nshow all tables;", ["shop", "sales", "orders"]),
        ("SHOW SCHEMAS", ["shop", "main"]),
    ],
)
def test_statements_that_explore_a_warehouse_are_answered(alice: Caller, sql: str, expected: list[Any]) -> None:
    assert query_sql(alice, sql=sql)["rows"][0][: len(expected)] == expected


def test_show_tables_of_an_empty_schema_says_where_tables_are(alice: Caller) -> None:
    response = query_sql(alice, sql="show tables;")
    assert response["rows"] == []
    assert response["note"] == "the current schema has no tables: SHOW ALL TABLES lists those of every schema"
    assert "note" not in query_sql(alice, sql="SHOW TABLES FROM sales")


@pytest.mark.parametrize(
    "sql",
    [
        "EXPLAIN SELECT * FROM sales.orders",
        "/* ä */ explain\n  ANALYZE SELECT ';' FROM sales.orders;",
        "EXPLAIN (FORMAT json) SELECT * FROM sales.orders",
        "EXPLAIN (SELECT * FROM sales.orders)",
        "EXPLAIN PIVOT sales.orders ON id IN (1) USING count(*)",
    ],
)
def test_plans_are_returned_whole(alice: Caller, sql: str) -> None:
    response = query_sql(alice, sql=sql)
    assert response["columns"] == ["explain_key", "explain_value"]
    assert "orders" in response["rows"][0][1]
    assert "characters)" not in response["rows"][0][1]


def test_a_long_plan_is_not_cut_like_a_value(alice: Caller) -> None:
    parts = [f"FROM sales.orders SELECT count(*) + {n} GROUP BY id" for n in range(9)]
    sql = "EXPLAIN " + " UNION ALL ".join(parts)
    assert len(query_sql(alice, sql=sql)["rows"][0][1]) > MAX_CELL + 100


@pytest.mark.parametrize(
    "sql",
    [
        "EXPLAIN DELETE FROM sales.orders",
        "EXPLAIN ANALYZE DELETE FROM sales.orders",
        "EXPLAIN (ANALYZE, FORMAT json) DELETE FROM sales.orders",
        "EXPLAIN /* */ ANALYZE INSERT INTO sales.orders VALUES (1, 2)",
        "EXPLAIN ANALYZE CREATE TABLE x AS SELECT 1",
        "EXPLAIN ANALYZE COPY sales.orders TO 'out.csv'",
        "EXPLAIN SELECT 1; DROP TABLE sales.orders",
        "EXPLAIN SELECT * FROM read_csv('secret.csv')",
        "EXPLAIN EXPLAIN SELECT 1",
        "EXPLAIN EXECUTE prepared",
        "EXPLAIN",
        "DESCRIBE DELETE FROM sales.orders",
        "DESCRIBE SELECT * FROM read_csv('secret.csv')",
        "SUMMARIZE SELECT * FROM read_csv('secret.csv')",
        "PIVOT (SELECT * FROM read_csv('secret.csv')) ON password USING count(*)",
        "SHOW",
        "SHOW ALL",
        "SHOW DATABASES",
        "SHOW memory_limit",
        "SHOW TABLES; DROP TABLE sales.orders",
        "SHOW CREATE TABLE sales.orders",
        "SHOW TABLES FROM sales.orders WHERE 1",
    ],
)
def test_statements_inside_others_pass_the_same_checks(sql: str) -> None:
    with pytest.raises(Invalid):
        check_reads(sql, "duckdb")


@pytest.mark.parametrize("sql", ["SUMMARIZE 'secret.csv'", "DESCRIBE read_csv('secret.csv')", "DESCRIBE 'secret.csv'"])
def test_no_statement_reads_other_files(alice: Caller, sql: str) -> None:
    with pytest.raises((Invalid, UpstreamFailed)):
        query_sql(alice, sql=sql)


def test_the_parser_logs_no_warnings(alice: Caller, caplog: pytest.LogCaptureFixture) -> None:
    for sql in ("EXPLAIN SELECT 1", "SHOW SCHEMAS"):
        query_sql(alice, sql=sql)
    with pytest.raises(Invalid):
        query_sql(alice, sql="CALL pragma_version()")
    assert caplog.records == []


# -- errors --------------------------------------------------------------------------------------------------


def test_an_error_names_candidates_and_the_place(alice: Caller) -> None:
    with pytest.raises(UpstreamFailed) as raised:
        query_sql(alice, sql="SELECT amout FROM sales.orders")
    assert 'Candidate bindings: "amount"' in raised.value.message
    assert "LINE 1: SELECT amout FROM sales.orders\n               ^" in raised.value.message
    with pytest.raises(UpstreamFailed, match='Did you mean "orders"'):
        query_sql(alice, sql="SELECT 1 FROM sales.ordres")


def test_a_syntax_error_names_the_place(alice: Caller) -> None:
    with pytest.raises(Invalid, match=r"Line 1, Col: 23\. near 'orders'"):
        query_sql(alice, sql="SELECT FROM a BY orders")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('Cannot access file "/srv/data/shop.duckdb" - denied', 'Cannot access file "…" - denied'),
        ("can't read /etc/passwd: denied", "can't read …: denied"),
        ("see https://reader:secret@trino.internal:8443/v1 now", "see … now"),
        ("no route to trino.internal:8443", "no route to …"),
        ("no route to 10.0.0.5:5432 or 10.0.0.6", "no route to … or …"),
        ('connection to server at "db", port 5432 failed', "connection to server at …, port 5432 failed"),
        ('could not translate host name "db" to address', "could not translate host name … to address"),
        ("wrong password hunter2", "wrong password …"),
        ("LINE 1: SELECT a/b/c, db.x FROM t WHERE d = '1/2/3'", "LINE 1: SELECT a/b/c, db.x FROM t WHERE d = '1/2/3'"),
        ("line 1:15: Table 'hive.sales.t' does not exist", "line 1:15: Table 'hive.sales.t' does not exist"),
    ],
)
def test_errors_contain_no_credentials_hosts_and_paths(text: str, shown: str) -> None:
    assert error_message(Exception(text), ["", "hunter2", "db"]) == shown


def test_long_errors_are_cut() -> None:
    assert len(error_message(Exception("a long text " * 1_000))) == MAX_MESSAGE


# -- values --------------------------------------------------------------------------------------------------


def test_intervals_are_exact(alice: Caller) -> None:
    sql = """
        SELECT INTERVAL '14 months 3 days' AS i, [INTERVAL 1 MONTH] AS list, MAP {'x': INTERVAL 1 YEAR} AS map,
            {'a': INTERVAL 31 DAY, 'interval': 2} AS struct, -INTERVAL 1 HOUR AS i, NULL::INTERVAL, ';'; -- all of them
    """
    response = query_sql(alice, sql=sql)
    assert response["columns"][:5] == ["i", "list", "map", "struct", "i"]
    assert response["rows"] == [
        [
            "1 year 2 months 3 days",
            ["1 month"],
            {"x": "1 year"},
            {"a": "31 days", "interval": 2},
            "-01:00:00",
            None,
            ";",
        ]
    ]


def test_intervals_keep_order_and_limit(alice: Caller) -> None:
    response = query_sql(alice, sql="SELECT id, INTERVAL 1 MONTH * id FROM sales.orders ORDER BY id DESC", limit=2)
    assert response["rows"] == [[499, "41 years 7 months"], [498, "41 years 6 months"]]
    assert "more rows" in response["note"]


def test_large_integers_are_exact_for_every_client(alice: Caller) -> None:
    sql = "SELECT 9007199254740991, -9007199254740992, 170141183460469231731687303715884105727, [9007199254740993]"
    row = query_sql(alice, sql=sql)["rows"][0]
    assert row == [
        9007199254740991,
        "-9007199254740992",
        "170141183460469231731687303715884105727",
        ["9007199254740993"],
    ]
    assert json.loads(json.dumps(row), parse_int=float)[0] == 2**53 - 1
