"""The embedded server: started by whoever needs it, repaired after a kill, stopped only when nobody is there."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_project.postgres.server import DATABASE, EmbeddedPostgres, EmbeddedPostgresError, others_can_enter


@pytest.fixture
def home() -> Iterator[Path]:
    # Not pytest's folder: under root others can't enter that one, which is a test of its own below.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)
        EmbeddedPostgres(Path(folder)).stop()


def value(server: EmbeddedPostgres, sql: str) -> object:
    with server.connect(DATABASE) as connection:
        row = connection.execute(sql).fetchone()
        assert row is not None
        return row[0]


def dies(pid: int) -> None:
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)


def test_it_starts_once_and_has_a_database(home: Path) -> None:
    server = EmbeddedPostgres(home)
    assert server.ensure_running() is True
    assert server.ensure_running() is False
    assert value(server, "SELECT current_database()") == DATABASE
    assert server.status().running
    assert server.stop() is True
    assert server.stop() is False


def test_many_at_once_start_one_server(home: Path) -> None:
    started: list[bool] = []
    threads = [
        threading.Thread(target=lambda: started.append(EmbeddedPostgres(home).ensure_running())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(started) == [False, False, False, True]


def test_a_killed_server_is_repaired_with_its_data(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.ensure_running()
    with server.connect(DATABASE) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    pid = server.status().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    dies(pid)
    assert EmbeddedPostgres(home).ensure_running() is True
    assert value(server, "SELECT answer FROM kept") == 42


def test_a_process_that_has_seen_the_server_notices_its_death(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.ensure_running()
    assert server.ensure_running() is False
    pid = server.status().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    dies(pid)
    assert server.ensure_running() is True
    assert value(server, "SELECT 1") == 1


@pytest.mark.parametrize("content", ["PID\n/elsewhere\n", "", "12"])  # PID: a process that lives, and is none of ours
def test_a_stale_pid_file_does_not_keep_it_from_starting(home: Path, content: str) -> None:
    server = EmbeddedPostgres(home)
    server.ensure_running()
    server.stop()
    (server.data / "postmaster.pid").write_text(content.replace("PID", str(os.getpid())))
    assert server.ensure_running() is True
    assert value(server, "SELECT 1") == 1


def test_an_interrupted_initialisation_is_begun_again(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.data.mkdir()
    (server.data / "half").write_text("written")
    assert server.ensure_running() is True


def test_it_is_not_stopped_under_others(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.ensure_running()
    with server.connect():
        assert server.stop(only_if_unused=True) is False
    for _ in range(50):
        if server.stop(only_if_unused=True):
            break
        time.sleep(0.1)
    assert not server.accepts_connections()


def test_only_its_owner_can_open_the_socket(home: Path) -> None:
    server = EmbeddedPostgres(home)
    server.ensure_running()
    assert (server.socket_dir / ".s.PGSQL.5432").stat().st_mode & 0o077 == 0
    assert server.data.stat().st_mode & 0o077 == 0


def test_a_long_path_still_has_a_socket(home: Path) -> None:
    deep = home / ("deep" * 20) / ("deeper" * 10)
    deep.mkdir(parents=True)
    server = EmbeddedPostgres(deep)
    assert server.ensure_running() is True
    assert value(server, "SELECT 1") == 1
    server.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has the trouble of lending an account")
def test_under_root_closed_parents_stay_closed(home: Path) -> None:
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


def test_a_folder_of_somebody_else_is_refused_in_one_line(home: Path) -> None:
    server = EmbeddedPostgres(home)
    (home / "elsewhere").mkdir()
    (home / "run").symlink_to(home / "elsewhere")
    with pytest.raises(EmbeddedPostgresError, match="belongs to another account"):
        server.ensure_running()
