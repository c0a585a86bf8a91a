"""Which functions, system tables and spellings of them a statement may use, in each dialect."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pytest
from django.db import connection

from analysis.mcp_tools import query_sql
from analysis.models import DeclaredSource
from analysis.sql.allowed import functions_of
from analysis.sql.lexer import tokens_of
from analysis.sql.statements import check_reads
from foundation.operations.errors import Invalid
from foundation.people.caller import Caller

USEFUL = {
    "duckdb": [
        "SELECT lower(x), count(*) FILTER (WHERE a > 1) OVER (PARTITION BY b ORDER BY c ROWS 1 PRECEDING) FROM t",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 9), s(a, b) AS "
        "MATERIALIZED (FROM r) FROM s",
        "SELECT * FROM (VALUES (1, 2)) AS t(a, b)",
        "SELECT [abs(x) FOR x IN l IF x > 0], list_transform(l, lambda x: x + 1), l.list_filter(x -> x > 1) FROM t",
        "SELECT COLUMNS('a.*'), * EXCLUDE (a) REPLACE (b + 1 AS b) FROM t",
        "PIVOT t ON a USING sum(b) GROUP BY c",
        "UNPIVOT t ON COLUMNS(* EXCLUDE (id)) INTO NAME n VALUE v",
        "DESCRIBE SELECT 1",
        "PIVOT t ON a USING histogram(b)",
        "SELECT g, histogram(a) AS h FROM t GROUP BY g HAVING len(histogram(a)) > 1 ORDER BY cardinality(histogram(a))",
        "FROM duckdb_tables()",
        "SELECT * FROM information_schema.columns",
        "SELECT CAST(a AS DECIMAL(10, 2)), a::VARCHAR(3), TRY_CAST(a AS STRUCT(a INT)), MAP {'a': 1}, "
        "INTERVAL (1) DAY FROM t",
        "SELECT DISTINCT ON (a) b FROM t GROUP BY GROUPING SETS ((a), ()) QUALIFY row_number() OVER "
        "(PARTITION BY a) = 1",
        "SELECT quantile_cont(a, 0.5), mode() WITHIN GROUP (ORDER BY a), string_agg(a, ',' ORDER BY b), "
        "histogram(a) FROM t",
        "SELECT a FROM t USING SAMPLE reservoir(10 ROWS)",
        "SELECT o.pg_rating, 'pg_13' FROM o",
        "SELECT x -- why\n, /* what */ y, 'it''s -- no /* comment', \"a$b\" FROM t;",
        "SELECT extract(year FROM d), substring(a FROM 2), trim(BOTH 'x' FROM a), position('a' IN b), "
        "EXISTS (SELECT 1) FROM t",
        "SELECT json_extract(j, '$.a'), j->>'$.b', regexp_matches(a, '(x|y)'), strftime(d, '%Y') "
        "FROM range(10) AS r(a)",
        "SELECT a FROM t, LATERAL (SELECT 1) AS x(y)",
        "SELECT sum(x) OVER (ORDER BY x) FROM range(6) t(x) JOIN (VALUES (1), (2)) v(a) ON v.a = t.x",
    ],
    "postgres": [
        "SELECT * FROM generate_series(1, 3) AS g(n)",
        "SELECT * FROM generate_series(1, 3) g(n) CROSS JOIN LATERAL (SELECT 1) x(y)",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a), count(*) FILTER (WHERE b) FROM t GROUP BY "
        "ROLLUP (a), CUBE (b)",
        "SELECT a::numeric(10, 2), ARRAY[1], ARRAY(SELECT 1), ROW(1, 2), jsonb_path_query(j, '$.a[*]') FROM t",
        "SELECT * FROM json_to_record(j) AS x(a int, b text)",
        "SELECT E'a\\n\\'b', U&'\\0041', pg_catalog.lower('A'), (a).b, a <-> b FROM t",
        "SELECT relname FROM pg_catalog.pg_class",
        "WITH a(x) AS (SELECT 1), b(y) AS NOT MATERIALIZED (VALUES (1)) SELECT * FROM a, b",
        "SELECT * FROM t TABLESAMPLE system(10)",
        "SELECT current_date, extract(epoch FROM x), x AT TIME ZONE 'UTC', x IS DISTINCT FROM y, r.pg_rating FROM r",
        "SELECT make_interval(days => 3), overlay('a' PLACING 'b' FROM 1), a IN (1, 2), coalesce(b, 1) FROM t",
    ],
    "trino": [
        "SELECT approx_distinct(a), array_agg(b) FILTER (WHERE c) FROM hive.s.t",
        "SELECT * FROM UNNEST(ARRAY[1, 2]) WITH ORDINALITY AS t(a, n)",
        "SELECT CAST(ROW(1, 2) AS ROW(a bigint, b varchar(3))), TRY(a / b), IF(a, b, c) FROM t",
        "SELECT * FROM TABLE(exclude_columns(input => TABLE(t), columns => DESCRIPTOR(a)))",
        "SELECT transform(a, x -> x + 1), reduce(a, 0, (s, x) -> s + x, s -> s), json_query(j, 'lax $.a') FROM t",
        "SELECT * FROM hive.information_schema.tables",
    ],
}  # fmt: skip
ATTACKS = {
    "duckdb": [
        "FROM duckdb_settings()",
        "FROM duckdb_databases",
        "FROM main.duckdb_databases",
        "FROM system.main.duckdb_databases",
        "FROM 'duckdb_databases'",
        "SELECT 1 FROM t, 'main.duckdb_databases'",
        'FROM "duckdb_databases"',
        'FROM "DUCKDB_DATABASES"()',
        "FROM duc\u212adb_databases",
        "FROM duckdb_logs",
        "FROM duckdb_secrets()",
        "FROM duckdb_functions()",
        "FROM pg_settings",
        "FROM pg_catalog.pg_settings",
        "FROM pragma_database_list",
        "FROM sqlite_master",
        "TABLE duckdb_databases",
        "FROM (TABLE duckdb_databases)",
        "SUMMARIZE duckdb_databases",
        "UNPIVOT 'duckdb_databases' ON path",
        "PIVOT duckdb_databases ON path USING count(*)",
        "EXPLAIN FROM duckdb_settings()",
        "SELECT current_setting('home_directory')",
        "SELECT \"current_setting\"('home_directory')",
        "SELECT current_setting /* no */ ('home_directory')",
        "SELECT 'home_directory'.current_setting()",
        "SELECT getenv('HOME')",
        "SELECT getvariable('x')",
        "SELECT nextval('s')",
        "SELECT sleep_ms(100000)",
        "SELECT write_log('x')",
        "FROM checkpoint('shop')",
        "FROM histogram('duckdb_databases', path)",
        "FROM histogram('duckdb_' || 'databases', path)",
        "FROM main.histogram('duckdb_' || 'databases', path)",
        "FROM range(3) AS t, LATERAL histogram('duckdb_' || 'databases', path)",
        "SELECT * FROM t JOIN histogram('duckdb_' || 'databases', path) ON true",
        "PIVOT histogram('duckdb_' || 'databases', path) ON bin USING count(*)",
        "FROM query('select 1')",
        "FROM query_table('duckdb_settings')",
        "SELECT json_execute_serialized_sql('x')",
        "FROM pragma_table_info('x')",
        "FROM test_all_types()",
        "WITH read_csv(a) AS (SELECT 1) SELECT * FROM read_csv('x')",
        "WITH x AS (SELECT 'a' AS p) SELECT 1 FROM x, read_text(p) AS (values int)",
        "SELECT DISTINCT ON (1) read_text(p) FROM (SELECT '/etc/passwd' AS p)",
        "FROM (SELECT '/etc/passwd' AS p) SELECT DISTINCT ON (1) read_text(p)",
        "SELECT 1 FROM range(1) r(x), read_text('/etc/passwd')",
        "SELECT 1 FROM range(1) r(x) JOIN read_text('/etc/passwd') ON true",
        "SELECT 1 FROM (SELECT 1) WHERE (true) AND read_text('/etc/passwd') IS NULL",
        "SELECT 1 FROM read_text('/etc/passwd') t(x)",
        "SELECT 1 AS a$$, read_text('x') AS b$$",
        "FROM read_text($$x$$)",
        "SELECT 1 /* /* */ , read_text('x') -- */",
        "FROM U&\"duckdb\\005fdatabases\"",
        "SELECT `read_text`('x')",
        "SELECT read_text\u00a0('x')",
        "FROM glob('*')",
        "CALL pragma_version()",
        "LOAD httpfs",
        "USE x",
        "VACUUM",
        "CHECKPOINT",
        "DETACH shop",
        "EXPORT DATABASE 'x'",
        "CREATE MACRO f(x) AS x",
        "PREPARE a AS SELECT 1",
    ],
    "postgres": [
        "SELECT U&\"\\0070g_read_file\"('/etc/passwd')",
        "SELECT u&\"\\0070g_read_file\"('/etc/passwd')",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_catalog.pg_read_file('/etc/passwd')",
        'SELECT "pg_read_file" (\'/etc/passwd\')',
        "SELECT * FROM ts_stat('select 1')",
        "SELECT query_to_xml('select 1', true, true, '')",
        "SELECT database_to_xml(true, true, '')",
        "SELECT 'x'::regclass",
        "SELECT regclass 'x'",
        "SELECT CAST('x' AS pg_catalog.regrole)",
        "SELECT * FROM pg_settings",
        'SELECT * FROM pg_catalog."pg_settings"',
        "SELECT * FROM PG_STAT_ACTIVITY",
        "SELECT * FROM pg_hba_file_rules",
        "SELECT * FROM pg_file_settings",
        "TABLE pg_authid",
        "WITH x AS (TABLE pg_authid) SELECT * FROM x",
        "SELECT * FROM information_schema.user_mapping_options",
        "SELECT * FROM information_schema.foreign_table_options",
        "SELECT public.lower('x')",
        "SELECT 1 OPERATOR(pg_catalog.+) 2",
        "SELECT lo_import('/etc/passwd')",
        "SELECT DISTINCT ON (1) pg_read_file(p) FROM (SELECT 'x' AS p) AS x",
        "SELECT * FROM x, dblink(c) AS (a int)",
        "SELECT * FROM x, dblink(c) AS (values int)",
        "SELECT current_setting('data_directory')",
        "SELECT set_config('a', 'b', false)",
        "SELECT 1 AS a$$, pg_read_file('x') AS b$$",
        "SELECT pg_sleep(10)",
        "SELECT nextval('s')",
        "SELECT inet_server_addr()",
        "WITH x AS (DELETE FROM t RETURNING *) SELECT * FROM x",
        "WITH x AS (INSERT INTO t(a) VALUES (1) RETURNING *) SELECT * FROM x",
        "SELECT * FROM t FOR SHARE",
        "SELECT 1 INTO x",
        "DO 'x'",
        "LISTEN x",
    ],
    "trino": [
        "SELECT * FROM TABLE(system.unload(input => TABLE(t)))",
        "SELECT * FROM TABLE(postgresql.system.query(query => 'x'))",
        "SELECT * FROM system.runtime.queries",
        "SELECT * FROM system.metadata.catalogs",
        "SELECT * FROM jmx.current.\"java.lang:type=runtime\"",
        'SELECT "$path" FROM t',
        'SELECT * FROM "t$files"',
        "SELECT 1 /* /* */ , f(1) /* */ */",
        "SELECT E'a\\', f('x') --'",
        "SELECT c.s.f(1)",
        "SELECT fail('x')",
        "WITH FUNCTION f(x int) RETURNS int RETURN 1 SELECT f(1)",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("dialect", "sql"), [(dialect, sql) for dialect in USEFUL for sql in USEFUL[dialect]])
def test_statements_that_only_compute_are_allowed(dialect: str, sql: str) -> None:
    check_reads(sql, dialect)


@pytest.mark.parametrize(("dialect", "sql"), [(dialect, sql) for dialect in ATTACKS for sql in ATTACKS[dialect]])
def test_statements_that_do_more_are_refused(dialect: str, sql: str) -> None:
    with pytest.raises(Invalid, match=r"^sql: "):
        check_reads(sql, dialect)


def test_a_refused_function_is_named_with_those_of_similar_names() -> None:
    with pytest.raises(Invalid, match=r"calls read_csv, which is not on the list .* allowed: .*`functions`"):
        check_reads("SELECT * FROM read_csv('x')", "duckdb")
    with pytest.raises(Invalid, match=r"calls date_trun, .*allowed: date_trunc"):
        check_reads("SELECT date_trun('month', d) FROM t", "postgres")


# What DuckDB's functions of these names do: files, settings, logs, secrets, other SQL, state.
DANGEROUS = re.compile(
    r"read_|write_|parquet|sniff|glob|_scan|scan_|copy|import|export|checkpoint|setting|secret|_log|logging|profil|query$|"
    r"query_table|query_id|execute|serialize|pragma|which_|repository|extension|external|register|getvariable|getenv|"
    r"nextval|currval|setval|sleep|temporary|duckdb_(databases|memory|variables|functions|prepared)|_privilege|inet_|"
    r"platform|user_agent|python|pandas|arrow|database_list|storage|metadata|txid|transaction_id|connection_id|^test_"
)


def refusal(sql: str) -> str:
    try:
        check_reads(sql, "duckdb")
    except Invalid as error:
        return error.message
    return ""


def test_each_function_of_duckdb_is_allowed_or_refused_by_its_name() -> None:
    with duckdb.connect() as database:
        rows = database.execute("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    names = {name.lower() for (name,) in rows if re.fullmatch(r"\w+", name)}
    allowed = functions_of("duckdb")
    passed = {name for name in names if not refusal(f"SELECT {name}(x) FROM t")}  # noqa: S608 - names of functions
    # a word of SQL such as `row` is no call
    assert sorted(passed - allowed - functions_of("syntax")) == []
    assert [name for name in sorted(passed) if DANGEROUS.search(name)] == []
    # the parser wants other arguments of some functions
    assert (
        sorted(name for name in names & allowed - passed if "is not on the list" in refusal(f"SELECT {name}(x)")) == []
    )
    assert [name for name in sorted(allowed) if DANGEROUS.search(name)] == []
    assert len(names & allowed) > 500


def test_the_listed_functions_of_duckdb_exist() -> None:
    with duckdb.connect() as database:
        rows = database.execute("SELECT DISTINCT lower(function_name) FROM duckdb_functions()").fetchall()
    syntax = {"cast", "coalesce", "extract", "grouping", "grouping_id", "ifnull", "percentile_cont", "percentile_disc",
              "try", "try_cast"}  # fmt: skip
    assert sorted(functions_of("duckdb") - {name for (name,) in rows} - syntax) == []


@pytest.mark.django_db
def test_no_listed_function_of_postgresql_changes_something_or_reads_the_server() -> None:
    """Every volatile function is one of a few that only compute, and nothing is restricted to superusers."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT proname, bool_or(provolatile = 'v'), bool_or(proacl IS NOT NULL) FROM pg_proc "
            "WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY(%s) GROUP BY proname",
            [sorted(functions_of("postgres"))],
        )
        rows = cursor.fetchall()
    assert sorted(name for name, is_volatile, _ in rows if is_volatile) == [
        "array_sample", "array_shuffle", "clock_timestamp", "gen_random_uuid", "pg_relation_size", "pg_table_size",
        "pg_total_relation_size", "random", "random_normal", "timeofday", "uuidv4", "uuidv7",
    ]  # fmt: skip
    assert [name for name, _, is_restricted in rows if is_restricted] == []


@pytest.mark.django_db
def test_a_source_may_declare_more_functions(alice: Caller, warehouse: DeclaredSource, tmp_path: Any) -> None:
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as file:
        file.execute("CREATE MACRO net(x) AS x * 0.8")
    sql = "SELECT net(100) AS n"
    with pytest.raises(Invalid, match="calls net"):
        query_sql(alice, sql=sql)
    DeclaredSource.objects.update(declaration=warehouse.declaration + 'functions = ["net"]\n')
    assert query_sql(alice, sql=sql)["rows"] == [["80.0"]]
    check_reads("SELECT pricing.net(1)", "postgres", ["pricing.net"])
    with pytest.raises(Invalid, match=r"calls other\.net"):
        check_reads("SELECT other.net(1)", "postgres", ["pricing.net", "net"])


@pytest.mark.parametrize("sql", ["SELECT " + "(" * 9_000, "SELECT " + "[" * 200 + "]" * 200, "SELECT 1 /*", "SELECT '"])
def test_texts_that_engines_may_read_differently_are_refused_with_the_place(sql: str) -> None:
    with pytest.raises(Invalid, match="at character"):
        tokens_of(sql, "duckdb")


@pytest.mark.django_db
def test_no_file_of_the_server_is_read_or_named(alice: Caller, warehouse: DeclaredSource, tmp_path: Any) -> None:
    for sql in (
        "FROM 'secret.csv'", 'FROM "secret.csv"', f"FROM '{tmp_path}/secret.csv'", "EXPLAIN SELECT * FROM sales.orders",
        "EXPLAIN ANALYZE SELECT * FROM sales.orders", "FROM duckdb_tables()", "FROM duckdb_views()", "SHOW SCHEMAS",
        "SELECT * FROM information_schema.schemata", "SHOW ALL TABLES", "FROM information_schema.tables",
        "SELECT * FROM 'x/y/../secret.csv'", "SELECT 1 FROM nowhere", "SELECT current_database()",
        "FROM duckdb_schemas()", "FROM duckdb_columns()", "FROM duckdb_types()",
    ):  # fmt: skip
        try:
            text = str(query_sql(alice, sql=sql, limit=1_000))
        except Exception as error:
            text = str(error)
        assert str(tmp_path) not in text, sql
        assert "hunter2" not in text, sql
