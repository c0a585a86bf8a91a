"""The child processes of query_sql on DuckDB: limits of memory, temporary files and time, and their own end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from analysis.mcp_tools import query_sql
from analysis.models import DeclaredSource
from analysis.sources.interface import UpstreamFailed
from analysis.sql import engines, processes
from analysis.sql.declaration import parse
from analysis.sql.engines import DuckDB
from analysis.sql.processes import Process, ProcessPool
from analysis.sql.values import Bounds
from foundation.operations.errors import LimitReached
from foundation.people.caller import Caller
from foundation.work import progress
from tests.other_processes import until

pytestmark = pytest.mark.django_db
ENDLESS = "SELECT count(*) FROM range(100000000) a, range(100000000) b"
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="the limit of a process's memory is Linux's")


@pytest.fixture(autouse=True)
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessPool]:
    processes.POOL.end()  # earlier tests have left idle processes in it
    pool = ProcessPool()
    monkeypatch.setattr(processes, "POOL", pool)
    monkeypatch.setattr(engines, "POOL", pool)
    yield pool
    pool.end()


@pytest.fixture
def patient_warehouse(warehouse: DeclaredSource) -> DeclaredSource:
    """The warehouse, whose statements have so much time that they reach other limits first."""
    warehouse.declaration += "timeout_s = 600\n"
    warehouse.save()
    return warehouse


def has_ended(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def children() -> list[psutil.Process]:
    """Return the processes that run statements, and those that have ended without being waited for."""
    found = []
    for child in psutil.Process().children():
        try:
            if child.status() == psutil.STATUS_ZOMBIE or "analysis.sql.duckdb_process" in child.cmdline():
                found.append(child)
        except psutil.NoSuchProcess:
            pass
    return found


@on_linux
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT range(8000000)",
        "SELECT list(range) FROM range(100000000)",
        "SELECT repeat('x', 1000000000)",
        "SELECT repeat('x', 1000000) FROM range(100000)",
        "SELECT map_from_entries([(x, repeat('k', 10000)) FOR x IN range(100000)])",
        "SELECT count(DISTINCT range::VARCHAR || 'abcdefghijklmnopqrstuvwxyz') FROM range(5000000)",
    ],
)
def test_a_statement_that_needs_much_memory_ends_with_its_limit(
    alice: Caller, patient_warehouse: DeclaredSource, settings: Any, sql: str
) -> None:
    settings.ANALYSIS_SQL_MEMORY_MB, settings.ANALYSIS_SQL_DISK_MB = 128, 64
    query_sql(alice, sql="SELECT 1")  # imports the parser of SQL into this process
    before = psutil.Process().memory_info().rss
    with pytest.raises(LimitReached, match=r"ANALYSIS_SQL_(MEMORY|DISK)_MB"):
        query_sql(alice, sql=sql, limit=10_000)
    assert psutil.Process().memory_info().rss - before < 30_000_000
    assert query_sql(alice, sql="SELECT 1")["rows"] == [[1]]


SUMS = ", ".join(f"sum(range) FILTER (range = {n})" for n in range(200))


@pytest.mark.parametrize(
    "sql",
    [
        "PIVOT (SELECT range x, 1 v FROM range(400)) ON x USING sum(v)",
        f"SELECT {SUMS} FROM range(1000)",  # noqa: S608 - no text from outside
    ],
)
def test_a_small_statement_with_many_aggregates_is_within_the_limits(
    alice: Caller, warehouse: DeclaredSource, sql: str
) -> None:
    for _ in range(3):
        assert query_sql(alice, sql=sql)["row_count"] == 1


def test_temporary_files_are_limited(alice: Caller, patient_warehouse: DeclaredSource, settings: Any) -> None:
    settings.ANALYSIS_SQL_DISK_MB = 1
    settings.ANALYSIS_SQL_MEMORY_MB = 100
    with pytest.raises(LimitReached, match=r"1 MB of temporary files .ANALYSIS_SQL_DISK_MB"):
        query_sql(alice, sql="SELECT range, hash(range) AS h FROM range(30000000) ORDER BY h", limit=10)


def test_a_process_is_reused_and_stays_idle(alice: Caller, warehouse: DeclaredSource) -> None:
    for _ in range(3):
        query_sql(alice, sql="SELECT 1")
    assert len(children()) == 1


def test_neither_processes_nor_files_of_a_canceled_statement_remain(
    alice: Caller, warehouse: DeclaredSource, pool: ProcessPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    DeclaredSource.objects.update(declaration=warehouse.declaration + "timeout_s = 0.5\n")
    with pytest.raises(LimitReached, match="timeout_s"):
        query_sql(alice, sql=ENDLESS)
    assert until(lambda: not children())
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("sent", "error"), [(signal.SIGSEGV, UpstreamFailed), (signal.SIGKILL, LimitReached)])
def test_the_pool_recovers_from_a_process_that_ends(
    alice: Caller, warehouse: DeclaredSource, sent: signal.Signals, error: type[Exception]
) -> None:
    engine = DuckDB(parse("shop", warehouse.declaration))
    raised: list[Exception] = []

    def run() -> None:
        with pytest.raises(error) as info:
            engine.run(ENDLESS, Bounds(1, 10_000))
        raised.append(info.value)

    thread = threading.Thread(target=run)
    thread.start()
    engine._process._popen.send_signal(sent)
    thread.join(30)
    engine.close()
    assert len(raised) == 1
    assert not children()
    assert query_sql(alice, sql="SELECT 1")["rows"] == [[1]]


def test_an_idle_process_that_has_ended_is_replaced(alice: Caller, warehouse: DeclaredSource) -> None:
    query_sql(alice, sql="SELECT 1")
    (child,) = children()
    child.kill()
    (idle,) = processes.POOL._idle
    assert until(lambda: not idle.is_running())  # its threads end after the process is a zombie
    assert query_sql(alice, sql="SELECT 1")["rows"] == [[1]]
    (replacement,) = children()
    assert replacement.pid != child.pid


def test_waiting_for_a_process_is_bounded_and_reported(
    alice: Caller, warehouse: DeclaredSource, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ANALYSIS_SQL_PROCESSES = 1
    monkeypatch.setattr(processes, "WAIT_S", 0.3)
    reports: list[str] = []
    progress.listen(lambda completed, total, message: reports.append(message))
    engine = DuckDB(parse("shop", warehouse.declaration))
    try:
        with pytest.raises(LimitReached, match=r"busy: 1 statements .*ANALYSIS_SQL_PROCESSES"):
            query_sql(alice, sql="SELECT 1")
    finally:
        engine.close()
        progress.listen(lambda *report: None)
    assert "waiting for a free process" in reports
    assert query_sql(alice, sql="SELECT 1")["rows"] == [[1]]


def test_a_process_is_given_back_if_no_thread_can_be_started(
    alice: Caller, warehouse: DeclaredSource, pool: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> Any:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(ThreadPoolExecutor, "submit", refuse)
        with pytest.raises(RuntimeError):
            query_sql(alice, sql="SELECT 1")
    assert pool._lent == set()


def test_canceling_after_the_end_does_not_stop_another_statement(alice: Caller, warehouse: DeclaredSource) -> None:
    engine = DuckDB(parse("shop", warehouse.declaration))
    engine.run("SELECT 1", Bounds(1, 10_000))
    engine.close()
    engine.cancel()
    (child,) = children()
    query_sql(alice, sql="SELECT 1")
    assert [process.pid for process in children()] == [child.pid]


PARENT = """
import os, sys, time, django
django.setup()
from analysis.sql.processes import Process
process = Process()
print(process._popen.pid, process._folder, flush=True)
if sys.argv[1] == "busy":
    process.run({"path": sys.argv[2], "sql": sys.argv[3], "is_explain": False, "bounds": {"rows": 1, "bytes": 9000}})
time.sleep(60)
"""


@pytest.mark.parametrize("state", ["busy", "idle"])
def test_a_process_ends_with_the_process_that_started_it(warehouse: DeclaredSource, tmp_path: Path, state: str) -> None:
    command = [sys.executable, "-c", PARENT, state, str(tmp_path / "shop.duckdb"), ENDLESS]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        child = psutil.Process(int(pid))
        parent.kill()
    assert until(lambda: has_ended(child))
    assert until(lambda: not Path(folder).exists())


def test_the_environment_of_a_process_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_PG", "password=hunter2")
    process = Process()
    try:
        assert set(psutil.Process(process._popen.pid).environ()) <= {"PYTHONPATH", "TZ", "LC_ALL", "LC_CTYPE"}
    finally:
        process.end()


def test_a_forked_process_starts_its_own(pool: ProcessPool, alice: Caller, warehouse: DeclaredSource) -> None:
    query_sql(alice, sql="SELECT 1")
    pool.forget()
    assert pool._idle == []
    query_sql(alice, sql="SELECT 1")
    assert len(pool._idle) == 1


# -- bytes of an answer --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT range(100000) AS v",
        "SELECT {'a': range(50000), 'b': [repeat('é', 90000)]} AS v, 1 AS n",
        "SELECT [[[[repeat('x', 1900)] FOR x IN range(100)]]] AS v",
        "SELECT map_from_entries([(x::VARCHAR || repeat('k', 500), 'v') FOR x IN range(2000)]) AS v",
        "SELECT (SELECT json_group_array(repeat('\\n', 50)) FROM range(3000)) AS v",
        "SELECT " + ", ".join(f"repeat('x', 1500) AS v{n}" for n in range(300)),
        "SELECT " + ", ".join(f'1 AS "{"v" * 60}{n}"' for n in range(250)),
        "SELECT repeat(chr(1), 2000) AS v FROM range(500)",
    ],
)
def test_an_answer_is_cut_at_every_depth_and_says_where(
    alice: Caller, warehouse: DeclaredSource, settings: Any, sql: str
) -> None:
    settings.ANSWER_BUDGET_BYTES = 10_000
    response = query_sql(alice, sql=sql)
    assert len(json.dumps(response, ensure_ascii=False).encode()) <= 10_000
    assert response["row_count"] >= 1
    assert any(part in response["note"] for part in ("shortened", "more rows", "more columns"))


def test_small_values_beside_a_large_one_are_whole(alice: Caller, warehouse: DeclaredSource) -> None:
    response = query_sql(alice, sql="SELECT 'first' AS a, range(1000000) AS large, 'last' AS z")
    (row,) = response["rows"]
    assert (row[0], row[2], row[1][:3]) == ("first", "last", [0, 1, 2])
    assert row[1][-1] == f"… {1_000_000 - len(row[1]) + 1} more"
    assert "in large" in response["note"]
