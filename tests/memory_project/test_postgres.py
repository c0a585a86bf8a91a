"""The embedded PostgreSQL server: started on demand, recovered after a kill, and not stopped while in use."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_project.operating.postgres import server as embedded
from memory_project.operating.postgres.base import EmbeddedPostgresAway
from memory_project.operating.postgres.server import DATABASE, EmbeddedPostgres, EmbeddedPostgresError, others_can_enter
from memory_project.operating.postgres.server_log import DISK_FULL
from tests.other_processes import WITHIN_S


@pytest.fixture
def home() -> Iterator[Path]:
    # Not pytest's folder: under root, other accounts can't enter it, which a separate test below covers.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        EmbeddedPostgres(Path(folder)).stop()


def value(server: EmbeddedPostgres, sql: str) -> object:
    with server.connect(DATABASE) as connection:
        row = connection.execute(sql).fetchone()
        assert row is not None
        return row[0]


def wait_until_dead(pid: int) -> None:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)


def test_the_server_starts_once_and_has_a_database(home: Path) -> None:
    server = EmbeddedPostgres(home)
    assert server.ensure_running() is True
    assert server.ensure_running() is False
    assert value(server, "SELECT current_database()") == DATABASE
    assert server.status().running
    assert server.stop() is True
    assert server.stop() is False


def test_concurrent_starts_start_one_server(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "LOCK_TIMEOUT_S", WITHIN_S)
    started: list[bool] = []
    threads = [
        threading.Thread(target=lambda: started.append(EmbeddedPostgres(home).ensure_running())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(started) == [False, False, False, True]


def test_a_killed_server_is_restarted_with_its_data(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.ensure_running()
    with server.connect(DATABASE) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    pid = server.status().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_until_dead(pid)
    assert EmbeddedPostgres(home).ensure_running() is True
    assert value(server, "SELECT answer FROM kept") == 42


def test_a_process_that_used_the_server_restarts_it_after_a_kill(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.ensure_running()
    assert server.ensure_running() is False
    pid = server.status().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_until_dead(pid)
    assert server.ensure_running() is True
    assert value(server, "SELECT 1") == 1


# PID: the id of a running process that is not the server
@pytest.mark.parametrize("content", ["PID\n/elsewhere\n", "", "12"])
def test_a_stale_pid_file_does_not_prevent_a_start(home: Path, content: str) -> None:
    server = EmbeddedPostgres(home)
    server.ensure_running()
    server.stop()
    (server.data / "postmaster.pid").write_text(content.replace("PID", str(os.getpid())))
    assert server.ensure_running() is True
    assert value(server, "SELECT 1") == 1


def test_an_interrupted_initialization_is_repeated(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.data.mkdir()
    (server.data / "half").write_text("written")
    assert server.ensure_running() is True


def test_the_server_is_not_stopped_while_others_use_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = EmbeddedPostgres(home)
    server.ensure_running()
    with server.connect():
        assert server.stop(only_if_unused=True) is False
    monkeypatch.setattr(embedded, "LEAVING_S", WITHIN_S)
    assert server.stop(only_if_unused=True) is True  # also if PostgreSQL has not noticed yet that the client has left
    assert not server.accepts_connections()


def test_only_its_owner_can_open_the_socket(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.ensure_running()
    assert (server.socket_dir / ".s.PGSQL.5432").stat().st_mode & 0o077 == 0
    assert server.data.stat().st_mode & 0o077 == 0


def test_a_long_path_still_gets_a_socket(home: Path) -> None:
    deep = home / ("deep" * 20) / ("deeper" * 10)
    deep.mkdir(parents=True)
    server = EmbeddedPostgres(deep)
    assert server.ensure_running() is True
    assert value(server, "SELECT 1") == 1
    server.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has the trouble of lending an account")
def test_under_root_the_permissions_of_parent_folders_are_kept(home: Path) -> None:
    closed = home / "closed"
    inside = closed / "project"
    inside.mkdir(parents=True)
    closed.chmod(0o700)
    server = EmbeddedPostgres(inside)
    assert not others_can_enter(inside)
    assert server.ensure_running() is True
    assert value(server, "SELECT 1") == 1
    assert closed.stat().st_mode & 0o777 == 0o700
    assert inside not in server.data.parents
    server.stop()


def test_a_folder_of_another_account_is_rejected(home: Path) -> None:
    server = EmbeddedPostgres(home)
    (home / "elsewhere").mkdir()
    (home / "run").symlink_to(home / "elsewhere")
    with pytest.raises(EmbeddedPostgresError, match="belongs to another account"):
        server.ensure_running()


def test_callers_learn_that_the_server_is_away_and_operators_why() -> None:
    error = EmbeddedPostgresAway("could not open file /srv/commonplace/postgres/global/pg_control")
    assert "/srv" in str(error)
    assert "/srv" not in error.message
    assert "disk is full" in EmbeddedPostgresAway(DISK_FULL).message
