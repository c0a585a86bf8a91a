"""query_sql with several statements at the same time on one DuckDB file: none of them affects another."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest
from django.conf import settings
from django.db import connections

from analysis.mcp_tools import query_sql
from analysis.models import DeclaredSource
from analysis.sources.interface import UpstreamFailed
from analysis.sql import engines, execute, processes
from analysis.sql.declaration import SqlSource, parse
from analysis.sql.engines import DuckDB
from analysis.sql.values import Bounds
from foundation.operations.errors import DomainError, LimitReached
from foundation.people.caller import Caller
from foundation.work import progress
from tests.other_processes import WITHIN_S

pytestmark = pytest.mark.django_db(transaction=True)
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="open files are found in /proc")
ENDLESS = "SELECT count(*) FROM range(100000000) a, range(100000000) b"
WRITER = """
import sys, duckdb
try:
    connection = duckdb.connect(sys.argv[1])
except duckdb.Error:
    print("refused", flush=True)
else:
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "WAIT_S", WITHIN_S)


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run the calls in threads that start together. Returns their results, or the domain errors that they raised."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait(30)
        try:
            return call()
        except DomainError as error:
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def source_of(warehouse: DeclaredSource) -> SqlSource:
    return parse(warehouse.name, warehouse.declaration)


def rows(caller: Caller, sql: str) -> Any:
    return query_sql(caller, sql=sql)["rows"]


def writer(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_four_calls_of_one_agent_are_answered_at_once(alice: Caller, warehouse: DeclaredSource) -> None:
    responses = at_once([partial(rows, alice, f"FROM sales.orders SELECT sum(id) + {n}") for n in range(4)])
    assert responses == [[[124_750 + n]] for n in range(4)]


def test_twenty_calls_of_several_people_are_answered_at_once(
    alice: Caller, bob: Caller, ada: Caller, warehouse: DeclaredSource
) -> None:
    responses = at_once(
        [
            partial(rows, caller, f"FROM sales.orders SELECT max(id) + {n}")
            for n in range(7)
            for caller in (alice, bob, ada)
        ]
    )
    assert responses == [[[499 + n]] for n in range(7) for _ in range(3)]


def test_others_are_answered_while_a_long_statement_runs(alice: Caller, bob: Caller, warehouse: DeclaredSource) -> None:
    started, answered = threading.Event(), threading.Event()

    class Left(DomainError):
        pass

    def report(*progress_report: Any) -> None:
        started.set()
        if answered.is_set():
            raise Left("the client has disconnected")

    def ask_long() -> Any:
        progress.listen(report)
        return rows(alice, ENDLESS)

    def ask_short() -> Any:
        assert started.wait(30)
        try:
            return [rows(bob, f"FROM sales.orders SELECT max(id) + {n}") for n in range(3)]
        finally:
            answered.set()

    long, short = at_once([ask_long, ask_short])
    assert short == [[[499 + n]] for n in range(3)]
    assert isinstance(long, Left)


def test_failed_statements_do_not_affect_others(
    alice: Caller, bob: Caller, warehouse: DeclaredSource, settings: Any
) -> None:
    settings.ANALYSIS_SQL_MEMORY_MB, settings.ANALYSIS_SQL_DISK_MB, settings.ANALYSIS_SQL_PROCESSES = 64, 1, 6
    DeclaredSource.objects.update(declaration=warehouse.declaration + "timeout_s = 600\n")
    hog = "SELECT max(b) FROM (SELECT row_number() OVER (ORDER BY hash(range)) b FROM range(20000000))"
    responses = at_once(
        [lambda: rows(alice, hog), lambda: rows(alice, "SELECT 1 FROM nowhere"), lambda: rows(alice, hog)]
        + [lambda: [rows(bob, "SELECT sum(id) FROM sales.orders") for _ in range(5)]] * 3
    )
    assert [error.code for error in responses[:3]] == ["limit", "upstream", "limit"]
    assert responses[3:] == [[[[124_750]]] * 5] * 3


def test_a_statement_that_does_not_stop_is_left_behind(
    alice: Caller, warehouse: DeclaredSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    class Stubborn(DuckDB):
        def run(self, sql: str, bounds: Bounds) -> Any:
            release.wait(30)
            return super().run(sql, bounds)

        def close(self) -> None:
            super().close()
            closed.set()

    closed = threading.Event()
    monkeypatch.setitem(engines.ENGINES, "duckdb", Stubborn)
    monkeypatch.setattr(execute, "STOP_S", 0.0)
    DeclaredSource.objects.update(declaration=warehouse.declaration + "timeout_s = 0.1\n")
    with pytest.raises(LimitReached, match="took longer"):
        query_sql(alice, sql="SELECT 1")
    assert not closed.is_set()
    release.set()
    assert closed.wait(30)


def running(caller: Caller, source: SqlSource) -> tuple[threading.Thread, DuckDB]:
    """Start an endless statement on the file, and return when it has opened the file."""
    engine = DuckDB(source)

    def run() -> None:
        with pytest.raises(UpstreamFailed, match="canceled"):
            engine.run(ENDLESS, Bounds(1, 10_000))

    thread = threading.Thread(target=run)
    thread.start()
    path = str(Path(settings.ANALYSIS_FILES) / source.database)
    child = psutil.Process(engine._process._popen.pid)
    while path not in [file.path for file in child.open_files()]:
        time.sleep(0.01)
    return thread, engine


def stop(thread: threading.Thread, engine: DuckDB) -> None:
    engine.cancel()
    thread.join(30)
    engine.close()


@on_linux
def test_a_replaced_file_is_read_by_the_next_statement(
    alice: Caller, warehouse: DeclaredSource, tmp_path: Path
) -> None:
    with duckdb.connect(str(tmp_path / "new.duckdb")) as file:
        file.execute("CREATE SCHEMA sales; CREATE TABLE sales.orders AS SELECT 7 AS id")
    statement = running(alice, source_of(warehouse))
    os.replace(tmp_path / "new.duckdb", tmp_path / "shop.duckdb")
    assert rows(alice, "SELECT max(id) FROM sales.orders") == [[7]]
    stop(*statement)


@on_linux
def test_a_file_is_not_written_while_any_statement_reads_it(
    alice: Caller, warehouse: DeclaredSource, tmp_path: Path
) -> None:
    statement = running(alice, source_of(warehouse))
    assert rows(alice, "SELECT 1") == [[1]]
    assert writer(tmp_path / "shop.duckdb").communicate(timeout=60)[0] == "refused\n"
    stop(*statement)
    assert writer(tmp_path / "shop.duckdb").communicate(timeout=60)[0] == "writing\n"


@on_linux
def test_a_file_that_is_being_written_is_reported(alice: Caller, warehouse: DeclaredSource, tmp_path: Path) -> None:
    with writer(tmp_path / "shop.duckdb") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        with pytest.raises(UpstreamFailed, match="being written by another program"):
            query_sql(alice, sql="SELECT 1")
        process.communicate(timeout=60)
    assert rows(alice, "SELECT 1") == [[1]]


@pytest.mark.parametrize(("file", "name"), [("memory.duckdb", "memory"), ("system.db", "system_db"), ("a-b.db", "a-b")])
def test_a_file_may_have_any_name(
    alice: Caller, warehouse: DeclaredSource, tmp_path: Path, file: str, name: str
) -> None:
    os.replace(tmp_path / "shop.duckdb", tmp_path / file)
    DeclaredSource.objects.update(declaration=warehouse.declaration.replace("shop.duckdb", file))
    assert rows(alice, f'FROM "{name}".sales.orders SELECT max(id), current_catalog()') == [[499, name]]
    assert rows(alice, "SELECT DISTINCT database_name FROM duckdb_tables()") == [[name]]
