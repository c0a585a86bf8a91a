"""Restores, migrations and failovers that are interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from memory_project.operating.postgres.server import APPLICATION, DATABASE, OWNER, EmbeddedPostgres
from tests.e2e.processes import ROOT, command, environment, folder_and_port
from tests.faults.installation import Installation
from tests.faults.table import fault
from tests.faults.workload import Workload
from tests.operations.earlier_homes import earlier_home, ids
from tests.operations.standby import Standby

KILLED_AFTER_S = (1.5, 3.0, 5.0)  # of a migration; its Python starts within a second


def manage(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), env=environment(home, 8000), cwd=ROOT, capture_output=True, text=True, timeout=600
    )


def killed_after(home: Path, seconds: float, *arguments: str) -> None:
    process = subprocess.Popen(
        command(*arguments), env=environment(home, 8000), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(seconds)
    process.kill()
    process.wait()


@fault("a restore is killed, and continued")
def restore_is_killed(place: Installation, work: Workload) -> None:
    """Nothing opens the database in between, and what was erased since the backup stays erased."""
    backup = place.home / "one.backup"
    written = place.run("backup", str(backup))
    assert written.returncode == 0, written.stderr
    expected = {pk.hex for _, pk in work.acknowledged[:20]}
    with folder_and_port() as (home, _):
        server = EmbeddedPostgres(home)
        server.ensure_running()
        process = subprocess.Popen(
            command("restore", str(backup)), env=environment(home, 8000), cwd=ROOT,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while not _marked(server):
            assert process.poll() is None, "the restore ended before it could be killed"
            time.sleep(0.02)
        process.kill()
        process.wait()
        refused = manage(home, "migrate")
        assert refused.returncode == 1, "a half restored database was opened"
        assert "--continue" in refused.stderr, refused.stderr
        done = manage(home, "restore", str(backup), "--continue")
        assert done.returncode == 0, done.stderr
        with server.connect(DATABASE) as database:
            found = {pk.hex for (pk,) in database.execute("SELECT id FROM memory_records").fetchall()}  # type: ignore[attr-defined]
        assert expected <= found, "memories from before the backup are missing"


def _marked(server: EmbeddedPostgres) -> bool:
    with server.connect(DATABASE) as database:
        return database.execute("SELECT to_regclass('public.restore_in_progress')").fetchone() != (None,)


@fault("a migration is killed three times, and run again")
def migration_is_killed(place: Installation, work: Workload) -> None:
    with earlier_home("first") as (home, server):
        with server.connect(DATABASE) as database:
            before = ids(database)
        for seconds in KILLED_AFTER_S:
            killed_after(home, seconds, "migrate")
        done = manage(home, "migrate")
        assert done.returncode == 0, done.stderr
        with server.connect(DATABASE) as database:
            assert ids(database) == before


def with_standby(place: Installation) -> None:
    """Let the installation use two servers of its own, the second of which follows the first."""
    primary = EmbeddedPostgres(place.home)
    primary.ensure_running()
    second = place.home / "second"
    second.mkdir(mode=0o755)
    standby = Standby(second)
    standby.follow(primary)
    hosts = f"{primary.socket_dir},{standby.socket_dir}"
    place.settings |= {
        "DATABASE_URL": f"postgres://{APPLICATION}@/{DATABASE}?host={hosts}",
        "DATABASE_OWNER_URL": f"postgres://{OWNER}@/{DATABASE}?host={hosts}",
    }
    with primary.connect() as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
    place.on_exit += [standby.stop, primary.stop]


@fault("the primary is lost, and its standby is promoted after 5 s", prepare=with_standby, silent_s=40)
def primary_is_lost(place: Installation, work: Workload) -> None:
    pid = place.postgres.status().pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    time.sleep(5)
    standby = Standby(place.home / "second")
    with standby.connect() as connection:
        connection.execute("SELECT pg_promote()")
        connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
        connection.execute("SELECT pg_reload_conf()")
    place.server = standby
