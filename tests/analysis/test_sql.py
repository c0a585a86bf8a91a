"""query_sql: parser and engine allow only reads, within limits of rows, bytes and time. Covers each engine's driver."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from analysis.admin import DeclaredSourceForm
from analysis.mcp_tools import query_sql
from analysis.models import DeclaredSource
from analysis.sources.interface import UpstreamFailed
from analysis.sql import engines, postgresql_role
from analysis.sql.declaration import parse
from analysis.sql.engines import DuckDB, PostgreSQL
from analysis.sql.values import Bounds, bounded
from foundation.operations.errors import Degraded, Invalid, LimitReached
from foundation.people.caller import OPERATE, Caller
from foundation.work import progress
from memory_project.models import User
from tests.http_servers import QuietHandler, serving

pytestmark = pytest.mark.django_db


def test_a_query_returns_columns_and_rows(alice: Caller, warehouse: DeclaredSource) -> None:
    response = query_sql(
        alice, sql="WITH big AS (SELECT * FROM sales.orders) SELECT count(*) AS n, max(amount) m FROM big"
    )
    assert (response["columns"], response["rows"], response["row_count"]) == (["n", "m"], [[500, "748.5"]], 1)
    assert (response["source"], response["dialect"], "note" in response) == ("shop", "duckdb", False)
    truncated_response = query_sql(alice, sql="SELECT id FROM sales.orders ORDER BY id", limit=10)
    assert (
        truncated_response["row_count"],
        truncated_response["rows"][-1],
        "more rows" in truncated_response["note"],
    ) == (10, [9], True)


def test_only_the_personas_of_a_source_query_it(
    alice: Caller, olga: Caller, ada: Caller, warehouse: DeclaredSource
) -> None:
    assert query_sql.is_available is not None
    assert [query_sql.is_available(caller) for caller in (alice, olga, ada)] == [True, False, True]
    with pytest.raises(Invalid, match="no source is declared for your personas"):
        query_sql(olga, sql="SELECT 1")
    with pytest.raises(Invalid, match="'shop' is unknown"):
        query_sql(olga, sql="SELECT 1", source="shop")
    warehouse.is_enabled = False
    DeclaredSource.objects.filter(pk=warehouse.pk).update(is_enabled=False)
    with pytest.raises(Invalid):
        query_sql(alice, sql="SELECT 1")


def test_a_source_without_read_personas_is_for_operators_only(
    alice: Caller, ada: Caller, warehouse: DeclaredSource
) -> None:
    declaration = warehouse.declaration.replace('read_personas = ["sales"]\n', "")
    DeclaredSource.objects.update(declaration=declaration)
    otto = replace(alice, email="otto@example.org", rights=frozenset({OPERATE}))
    assert query_sql.is_available is not None
    assert [query_sql.is_available(caller) for caller in (alice, otto, ada)] == [False, True, True]
    for source in ("shop", ""):
        with pytest.raises(Invalid, match=r"only.* because the source's declaration names no read_personas"):
            query_sql(alice, sql="SELECT 1", source=source)
    assert query_sql(otto, sql="SELECT 1")["rows"] == [[1]]


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE sales.orders",
        "DELETE FROM sales.orders",
        "INSERT INTO sales.orders VALUES (1, 2)",
        "UPDATE sales.orders SET amount = 0",
        "CREATE TABLE x AS SELECT 1",
        "SELECT 1; DROP TABLE sales.orders",
        "WITH x AS (DELETE FROM sales.orders RETURNING *) SELECT * FROM x",
        "COPY sales.orders TO 'out.csv'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "PRAGMA database_list",
        "SET memory_limit = '10GB'",
        "EXPLAIN ANALYZE DELETE FROM sales.orders",
        "CALL pragma_version()",
        "SELECT 1 INTO x",
        "",
        "no sql (",
        "SELECT * FROM sales.orders FOR UPDATE",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_terminate_backend(1)",
        "SELECT * FROM dblink('host=x', 'delete from y') AS t(a int)",
        "SELECT query_to_xml('delete from x', true, true, '')",
        "SELECT * FROM query('drop table x')",
        "SELECT set_config('a', 'b', false)",
    ],
)
def test_statements_that_write_are_rejected_before_they_reach_the_engine(
    alice: Caller, warehouse: DeclaredSource, sql: str
) -> None:
    with pytest.raises(Invalid):
        query_sql(alice, sql=sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM 'secret.csv'",
        "SELECT nonsense FROM sales.orders",
    ],
)
def test_the_engine_reads_no_other_files(alice: Caller, warehouse: DeclaredSource, sql: str) -> None:
    with pytest.raises(UpstreamFailed):
        query_sql(alice, sql=sql)


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM read_csv('secret.csv')", "SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM glob('*')"]
)
def test_parser_and_engine_both_reject_file_functions(alice: Caller, warehouse: DeclaredSource, sql: str) -> None:
    with pytest.raises(Invalid, match="not on the list of functions"):
        query_sql(alice, sql=sql)
    with closing(DuckDB(parse("shop", warehouse.declaration))) as engine, pytest.raises(UpstreamFailed):
        engine.run(sql, Bounds(1, 10_000))


def test_a_file_of_another_database_is_not_opened(alice: Caller, warehouse: DeclaredSource, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t (a)")
        other.commit()
    DeclaredSource.objects.update(declaration=warehouse.declaration.replace("shop.duckdb", "other.db"))
    with pytest.raises(UpstreamFailed, match="can't be opened: IO Error"):
        query_sql(alice, sql="SELECT 1")


def test_a_query_that_takes_too_long_is_cancelled(alice: Caller, warehouse: DeclaredSource) -> None:
    DeclaredSource.objects.update(declaration=warehouse.declaration + "timeout_s = 0.5\n")
    started = time.monotonic()
    with pytest.raises(LimitReached, match=r"longer than 0\.5 s \(timeout_s"):
        query_sql(alice, sql="SELECT count(*) FROM range(100000000) a, range(100000000) b")
    assert time.monotonic() - started < 20


def test_a_query_ends_if_its_client_disconnects(alice: Caller, warehouse: DeclaredSource) -> None:
    class Gone(Exception):
        pass

    def leave(*report: Any) -> None:
        raise Gone

    progress.listen(leave)
    try:
        with pytest.raises(Gone):
            query_sql(alice, sql="SELECT count(*) FROM range(100000000) a, range(100000000) b")
    finally:
        progress.listen(lambda *report: None)


def test_a_response_stays_within_its_budget(alice: Caller, warehouse: DeclaredSource, settings: Any) -> None:
    settings.ANSWER_BUDGET_BYTES = 5_000
    response = query_sql(alice, sql="SELECT repeat('x', 300) AS t FROM sales.orders", limit=400)
    assert len(json.dumps(response)) < 5_500
    assert 0 < response["row_count"] < 20
    assert "more rows" in response["note"]


def test_values_are_converted_to_json() -> None:
    values = [
        None,
        True,
        3,
        2.5,
        float("nan"),
        Decimal("1.10"),
        b"\x00\xff",
        [1, Decimal("2")],
        {"a": b"x"},
        "y" * 3_000,
    ]
    (row,) = bounded([f"c{place}" for place in range(10)], [values], Bounds(1, 50_000)).rows
    assert row[:-1] == [None, True, 3, 2.5, "nan", "1.10", "00ff", [1, "2"], {"a": "78"}]
    assert len(row[-1]) < 2_100


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('kind = "sql"\nengine = "duckdb"', "database is missing"),
        ('kind = "sql"\nengine = "duckdb"\ndatabase = "../../etc/x.db"', "below ANALYSIS_FILES"),
        ('kind = "sql"\nengine = "postgresql"\ndsn_env = "DATABASE_URL"', "begin with SOURCE_"),
        ('kind = "sql"\nengine = "trino"\nurl = "trino.example"', "must be http"),
        ('kind = "sql"\nengine = "sqlite"', "engine"),
    ],
)
def test_the_form_explains_an_invalid_declaration(text: str, fault: str) -> None:
    form = DeclaredSourceForm({"name": "w", "declaration": text, "is_enabled": True})
    assert fault in str(form.errors["declaration"])


# -- PostgreSQL ----------------------------------------------------------------------------------------------


READER = "warehouse_reader"


def superuser() -> psycopg.Connection[Any]:
    """Connect to the test database beside the test's transaction, because another connection has to see the changes."""
    parameters = connection.get_connection_params()
    given = {key: parameters[key] for key in ("host", "port", "user", "password", "dbname") if parameters.get(key)}
    return psycopg.connect(**given, autocommit=True)


@pytest.fixture
def postgresql(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[psycopg.Connection[Any]]:
    """Declares the test database itself as a warehouse, with a role that may only read the table of users."""
    parameters = connection.get_connection_params()
    given = {**parameters, "user": READER}
    dsn = " ".join(f"{key}={given[key]}" for key in ("host", "port", "user", "dbname") if given.get(key))
    monkeypatch.setenv("SOURCE_PG", dsn)
    declaration = (
        'kind = "sql"\nengine = "postgresql"\ndsn_env = "SOURCE_PG"\ntimeout_s = 60\nread_personas = ["sales"]\n'
    )
    DeclaredSource.objects.create(name="pg", declaration=declaration)
    monkeypatch.setattr(postgresql_role, "_checked", {})
    with closing(superuser()) as admin:
        admin.execute(f"CREATE ROLE {READER} LOGIN")
        admin.execute(f"GRANT SELECT ON {User._meta.db_table} TO {READER}")
        try:
            yield admin
        finally:
            admin.execute(f"DROP OWNED BY {READER} CASCADE")
            admin.execute(f"DROP ROLE {READER}")


def test_a_postgresql_source_reads_and_cannot_write(alice: Caller, postgresql: psycopg.Connection[Any]) -> None:
    response = query_sql(alice, sql="SELECT g AS n, g::numeric / 2 AS half FROM generate_series(1, 300) g", limit=2)
    assert (response["columns"], response["rows"][0][0], response["dialect"]) == (["n", "half"], 1, "postgres")
    source = parse("pg", DeclaredSource.objects.get().declaration)
    with closing(PostgreSQL(source)) as engine, pytest.raises(UpstreamFailed, match="read-only"):
        engine.run("SELECT lo_create(0)", Bounds(1, 10_000))
    with pytest.raises(UpstreamFailed, match="does not exist"):
        query_sql(alice, sql="SELECT 1 FROM nowhere")


@pytest.mark.parametrize(
    ("grant", "fault", "remedy"),
    [
        ("ALTER ROLE {role} SUPERUSER", "is a superuser", "CREATE ROLE commonplace_reader LOGIN"),
        ("ALTER ROLE {role} CREATEROLE", "may create roles", "GRANT SELECT ON ALL TABLES IN SCHEMA"),
        ("ALTER ROLE {role} CREATEDB", "may create databases", "GRANT USAGE ON SCHEMA"),
        ("GRANT pg_read_server_files TO {role}", "pg_read_server_files", "REVOKE pg_read_server_files FROM {role}"),
        ("GRANT pg_execute_server_program TO {role}", "pg_execute_server_program", "REVOKE pg_execute_server_program"),
        ("GRANT pg_write_all_data TO {role}", "pg_write_all_data", "REVOKE pg_write_all_data FROM {role}"),
        (
            "GRANT UPDATE ON {table} TO {role}",
            "may UPDATE public.{table}",
            "REVOKE UPDATE ON public.{table} FROM {role}",
        ),
        ("GRANT INSERT (email) ON {table} TO {role}", "may INSERT public.{table}", "REVOKE INSERT ON public.{table}"),
        ("GRANT DELETE ON {table} TO warehouse_writers", "may DELETE public.{table}", "FROM warehouse_writers"),
        ("GRANT TRUNCATE ON {table} TO PUBLIC", "may TRUNCATE public.{table}", "ON public.{table} FROM PUBLIC"),
        (
            "GRANT CREATE ON SCHEMA public TO {role}",
            "create tables in the schema public",
            "REVOKE CREATE ON SCHEMA public",
        ),
        ("CREATE SCHEMA AUTHORIZATION {role}", "owns the schema {role}", "ALTER SCHEMA {role} OWNER TO"),
    ],
)
def test_a_role_that_may_do_more_than_read_is_refused(
    alice: Caller, postgresql: psycopg.Connection[Any], grant: str, fault: str, remedy: str
) -> None:
    names = {"role": READER, "table": User._meta.db_table}
    assert query_sql(alice, sql="SELECT 1")["rows"] == [[1]]
    postgresql.execute("CREATE ROLE warehouse_writers NOINHERIT")
    try:
        postgresql.execute(f"GRANT warehouse_writers TO {READER}")
        postgresql.execute(grant.format(**names))
        postgresql_role._checked.clear()  # as after VALID_S
        with pytest.raises(Degraded) as raised:
            query_sql(alice, sql="SELECT 1")
        form = DeclaredSourceForm(
            {"name": "w", "declaration": DeclaredSource.objects.get().declaration, "is_enabled": True}
        )
        for message in (raised.value.message, str(form.errors["declaration"].as_text())):
            assert fault.format(**names) in message
            assert remedy.format(**names) in message
            assert "dsn_env: the role warehouse_reader may do more than read" in message
    finally:
        postgresql.execute("DROP OWNED BY warehouse_writers")
        postgresql.execute("DROP ROLE warehouse_writers")
        postgresql.execute(f"REVOKE ALL ON {names['table']} FROM PUBLIC")


def test_a_role_that_only_reads_is_declared_without_a_warning(postgresql: psycopg.Connection[Any]) -> None:
    form = DeclaredSourceForm(
        {"name": "w", "declaration": DeclaredSource.objects.get().declaration, "is_enabled": True}
    )
    assert (form.is_valid(), form.warning) == (True, "")


def test_a_role_that_cannot_be_checked_yet_is_declared_with_a_warning(
    postgresql: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOURCE_PG")
    form = DeclaredSourceForm(
        {"name": "w", "declaration": DeclaredSource.objects.get().declaration, "is_enabled": True}
    )
    assert form.is_valid()
    assert "could not be checked, and is checked when it is used: the source 'w' needs" in form.warning


def test_the_warning_is_shown_to_the_admin(client: Client, ada_user: User, db: None) -> None:
    client.force_login(ada_user)
    declaration = 'kind = "sql"\nengine = "postgresql"\ndsn_env = "SOURCE_NOWHERE"\n'
    page = client.post(
        reverse("admin:analysis_declaredsource_add"),
        {"name": "w", "declaration": declaration, "is_enabled": "on"},
        follow=True,
    )
    assert "The role of w could not be checked" in page.content.decode()


def test_values_of_postgresql_are_cut_at_every_depth(
    alice: Caller, postgresql: psycopg.Connection[Any], settings: Any
) -> None:
    settings.ANSWER_BUDGET_BYTES = 10_000
    for sql in (
        "SELECT array_agg(g) AS v FROM generate_series(1, 100000) AS g",
        "SELECT jsonb_object_agg(g, repeat('x', 100)) AS v FROM generate_series(1, 5000) AS g",
        "SELECT repeat('x', 5000) AS v",
        "SELECT repeat('x', 1500) AS v FROM generate_series(1, 100)",
    ):
        response = query_sql(alice, sql=sql)
        assert len(json.dumps(response)) <= 10_000
        assert response["row_count"] >= 1
        assert "shortened" in response["note"] or "more rows" in response["note"]


def test_a_large_value_of_postgresql_stays_on_its_server(
    alice: Caller, postgresql: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = 0

    def measured(names: Any, rows: Any, bounds: Bounds) -> Any:
        nonlocal largest
        read = list(rows)
        largest = max(largest, *(len(str(value)) for row in read for value in row))
        return bounded(names, read, bounds)

    monkeypatch.setattr(engines, "bounded", measured)
    sql = "SELECT repeat('x', 30000000) AS a, 7 AS b, ARRAY[repeat('y', 30000000)] AS c, NULL::text AS a; -- all"
    response = query_sql(alice, sql=sql)
    assert largest < 10_000
    assert response["columns"] == ["a", "b", "c", "a"]
    (row,) = response["rows"]
    assert row[0] == "x" * 2_000 + "… (30000000 bytes)"
    assert (row[1], row[2][:2], row[3]) == (7, "{y", None)
    assert response["note"] == "values were shortened where … says so, in a, c: select parts of them"


def test_more_columns_than_postgresql_could_return_with_their_sizes_are_left_out(
    alice: Caller, postgresql: psycopg.Connection[Any], settings: Any
) -> None:
    settings.ANSWER_BUDGET_BYTES = 200_000
    response = query_sql(alice, sql="SELECT " + ", ".join(f"'a' AS c{place}" for place in range(1_000)))
    assert (len(response["columns"]), response["rows"]) == (800, [["a"] * 800])
    assert response["note"] == "200 more columns do not fit: name the columns you need"


def test_columns_of_postgresql_keep_their_names_order_and_types(
    alice: Caller, postgresql: psycopg.Connection[Any]
) -> None:
    sql = """
        WITH t(n, n2, j) AS (VALUES (1, 'b', '{"k": [1, 2]}'::jsonb), (2, 'a', NULL))
        SELECT n2 AS x, n AS x, j, ARRAY[n], ROW(n, n2), decode('00ff', 'hex') FROM t ORDER BY n2
    """
    response = query_sql(alice, sql=sql)
    assert response["columns"] == ["x", "x", "j", "array", "row", "decode"]
    assert response["rows"][0] == ["a", 2, None, [2], ["2", "a"], "00ff"]
    assert response["rows"][1][2] == {"k": [1, 2]}
    assert query_sql(alice, sql="SELECT 1 WHERE false")["rows"] == []


def test_postgresql_explains_a_statement(alice: Caller, postgresql: psycopg.Connection[Any]) -> None:
    for sql in ("EXPLAIN SELECT 1", "explain (analyze, costs off) SELECT 1", "EXPLAIN ANALYZE VERBOSE VALUES (1)"):
        response = query_sql(alice, sql=sql)
        assert (response["columns"], "Result" in response["rows"][0][0]) == (["QUERY PLAN"], True)
    for sql in ("EXPLAIN ANALYZE DELETE FROM users", "EXPLAIN DELETE FROM users", "EXPLAIN (ANALYZE) SELECT 1 INTO x"):
        with pytest.raises(Invalid):
            query_sql(alice, sql=sql)


def test_postgresql_settings_are_not_shown(alice: Caller, postgresql: psycopg.Connection[Any]) -> None:
    for sql in ("SHOW data_directory", "SHOW ALL", "SHOW TABLES"):
        with pytest.raises(Invalid, match=r"information_schema\.tables"):
            query_sql(alice, sql=sql)


def test_intervals_of_postgresql_are_exact(alice: Caller, postgresql: psycopg.Connection[Any]) -> None:
    sql = "SELECT interval '14 months 3 days -1 hour', array[interval '1 month'], 9007199254740993"
    assert query_sql(alice, sql=sql)["rows"] == [["1 year 2 mons 3 days -01:00:00", ["1 mon"], "9007199254740993"]]


def test_an_error_of_postgresql_is_complete(alice: Caller, postgresql: psycopg.Connection[Any]) -> None:
    table = User._meta.db_table
    with pytest.raises(UpstreamFailed) as raised:
        query_sql(alice, sql=f"SELECT emial FROM {table}")  # noqa: S608 - our table
    assert "LINE 1: SELECT emial" in raised.value.message
    assert "\n               ^" in raised.value.message
    assert f'HINT:  Perhaps you meant to reference the column "{table}.email"' in raised.value.message


def test_a_missing_variable_of_a_source_is_named(
    alice: Caller, postgresql: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOURCE_PG")
    with pytest.raises(Degraded, match="SOURCE_PG"):
        query_sql(alice, sql="SELECT 1")


# -- Trino ---------------------------------------------------------------------------------------------------


class Coordinator(QuietHandler):
    """Fake Trino coordinator: accepts a statement, then serves pages until there is no `nextUri`."""

    statements: list[tuple[str, str]] = []

    def do_POST(self) -> None:
        sql = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.statements.append((sql, self.headers["X-Trino-User"]))
        if "nowhere" in sql:
            fault = {"message": "line 1:15: Table 'nowhere' does not exist", "errorName": "TABLE_NOT_FOUND",
                     "errorType": "USER_ERROR", "errorCode": 46}  # fmt: skip
            return self._answer({"error": fault, "stats": {"state": "FAILED"}})
        self._answer({"nextUri": self._uri(1), "stats": {"state": "QUEUED"}})

    def do_GET(self) -> None:
        page = int(self.path.rpartition("/")[2])
        if "INTERVAL" in self.statements[-1][0]:
            kind = {"rawType": "interval year to month", "arguments": []}
            column = {"name": "i", "type": "interval year to month", "typeSignature": kind}
            return self._answer({"columns": [column], "data": [["1-2"]], "stats": {"state": "FINISHED"}})
        kind = {"rawType": "bigint", "arguments": []}
        body = {
            "columns": [{"name": "n", "type": "bigint", "typeSignature": kind}],
            "data": [[10 * page + row] for row in range(3)],
            "stats": {"state": "RUNNING" if page < 3 else "FINISHED"},
        }
        self._answer(body | ({"nextUri": self._uri(page + 1)} if page < 3 else {}))

    def do_DELETE(self) -> None:
        self.send_response(204)
        self.end_headers()

    def _uri(self, page: int) -> str:
        return f"http://{self.headers['Host']}/v1/statement/executing/q1/{page}"

    def _answer(self, body: dict[str, Any]) -> None:
        content = json.dumps({"id": "q1", "infoUri": "http://x/", **body}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def trino() -> Iterator[None]:
    Coordinator.statements.clear()
    with serving(Coordinator) as address:
        url = address.replace("http://", "http://reader@") + "/hive/sales"
        DeclaredSource.objects.create(
            name="lake", declaration=f'kind = "sql"\nengine = "trino"\nurl = "{url}"\nread_personas = ["sales"]\n'
        )
        yield


def test_trino_is_queried_over_its_protocol(alice: Caller, trino: None) -> None:
    response = query_sql(alice, sql="SELECT n FROM hive.sales.numbers")
    assert (response["columns"], response["rows"]) == (["n"], [[10], [11], [12], [20], [21], [22], [30], [31], [32]])
    assert Coordinator.statements[-1] == ("SELECT n FROM hive.sales.numbers", "reader")
    with pytest.raises(UpstreamFailed, match="does not exist"):
        query_sql(alice, sql="SELECT n FROM nowhere")
    pass_through = "SELECT * FROM TABLE(postgresql.system.query(query => 'DELETE FROM t'))"
    for sql in ("DELETE FROM hive.sales.numbers", pass_through, "CALL system.sync_partition_metadata()"):
        with pytest.raises(Invalid):
            query_sql(alice, sql=sql)


def test_months_of_trino_are_exact(alice: Caller, trino: None) -> None:
    assert query_sql(alice, sql="SELECT INTERVAL '14' MONTH")["rows"] == [["14 months"]]


def test_trino_shows_and_explains(alice: Caller, trino: None) -> None:
    for sql in ("SHOW TABLES FROM hive.sales", "SHOW COLUMNS IN sales.t", "DESCRIBE t", "EXPLAIN (TYPE IO) SELECT 1"):
        assert query_sql(alice, sql=sql)["columns"] == ["n"]
        assert Coordinator.statements[-1][0] == sql
    for sql in ("SHOW SESSION", "SHOW GRANTS", "SHOW CREATE TABLE t", "EXPLAIN ANALYZE DELETE FROM t"):
        with pytest.raises(Invalid):
            query_sql(alice, sql=sql)


def test_trino_without_its_driver_names_the_command(
    alice: Caller, trino: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trino", None)
    with pytest.raises(Degraded, match=r"'lake' needs.*pip install 'commonplace\[trino\]'"):
        query_sql(alice, sql="SELECT 1")


def test_an_unreachable_trino_raises_a_domain_error(alice: Caller) -> None:
    declaration = (
        'kind = "sql"\nengine = "trino"\nurl = "http://reader@127.0.0.1:9/hive"\ntimeout_s = 5\n'
        'read_personas = ["sales"]\n'
    )
    DeclaredSource.objects.create(name="lake", declaration=declaration)
    with pytest.raises(UpstreamFailed) as raised:
        query_sql(alice, sql="SELECT 1")
    assert raised.value.message == "lake can't be reached"
