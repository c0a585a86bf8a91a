"""A restore that is killed leaves a database that nothing can use until the restore has been completed."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from memory_project.operating.postgres.server import DATABASE, EmbeddedPostgres
from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import ROOT, command, environment, folder_and_port

SECRET = "The margin of the north region is 4.2 percent."
FACT = "Orders come twice a day."
WAIT_S = 120
SETUP = f"""
from django.core.management import call_command
from memories import services
from memories.operations import Erase, Remember
from foundation.people.permissions import build_caller
from memories.writing import erasure
from memory_project.models import User
user = User.objects.create_user("alice@example.org", "a long password")
caller = build_caller(user, channel="test")
secret, _ = (services.remember(caller, Remember(content=text)).record.pk for text in ({SECRET!r}, {FACT!r}))
call_command("backup", BACKUP)
erasure.erase(caller, Erase(record_id=secret, confirm=True))
"""
# what each door answers, each tried for itself
DOORS = """
import json
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from memory_project.management.command_line import CommandLine
settings.STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
def attempt(door):
    try:
        return door()
    except Exception as error:
        return f"{error} {error.__cause__}"
def get(address, **headers):
    response = Client(raise_request_exception=False, SERVER_NAME="localhost").get(address, headers=headers)
    return f"{response.status_code} {response.content.decode()}"
doors = {
    "migrate": lambda: call_command("migrate"),
    "backup": lambda: call_command("backup", "x.backup"),
    **{name: (lambda name=name: CommandLine(["manage.py", name]).fetch_command(name))
       for name in ("serve", "qcluster", "mcp", "watch_catalog")},
    "health": lambda: get("/healthz"),
    "page": lambda: get("/", Cookie="sessionid=" + "x" * 32),
    "rest": lambda: get("/api/v1/memories/", Authorization="Bearer none"),
}
print(json.dumps({name: str(attempt(door)) for name, door in doors.items()}))
"""


def start(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*arguments),
        env=environment(home, 8000),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(home: Path, *arguments: str) -> str:
    process = start(home, *arguments)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def programs_of(home: Path) -> list[str]:
    """Return the running pg_restores that read a dump in this home."""
    return [
        process.info["name"]
        for process in psutil.process_iter(["name", "cmdline"])
        if process.info["name"] == "pg_restore" and str(home) in " ".join(process.info["cmdline"] or [])
    ]


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A backup with SECRET and FACT, after which SECRET was erased."""
    file = tmp_path_factory.mktemp("backup") / "one.backup"
    with prepared_home("tables") as (home, _):
        run(home, "shell", "--no-imports", "--command", SETUP.replace("BACKUP", repr(str(file))))
        yield file


def test_no_door_opens_a_half_restored_database(backup: Path) -> None:
    assert backup.with_name("one.backup.erased").read_text()
    with folder_and_port() as (home, _):
        server = EmbeddedPostgres(home)
        server.ensure_running()
        with server.connect(DATABASE) as watcher, server.connect(DATABASE) as blocker:
            # pg_restore waits until the name of this table is free
            with blocker.transaction(force_rollback=True):
                blocker.execute("CREATE TABLE public.django_migrations ()")
                restore = start(home, "restore", str(backup))
                wait_for(lambda: is_waiting(watcher), restore)
                kill(restore)
                deadline = time.monotonic() + WAIT_S
                while programs_of(home):
                    assert time.monotonic() < deadline, "pg_restore has outlived the restore"
                    time.sleep(0.05)
            doors = json.loads(run(home, "shell", "--no-imports", "--command", DOORS))
            assert {name for name, answer in doors.items() if "--start-over" not in answer} == set()
            assert [doors[name][:3] for name in ("health", "page", "rest")] == ["503"] * 3
            assert str(backup) not in doors["page"] + doors["rest"] + doors["health"]

            # killed again, this time after the dump was loaded
            restore = start(home, "restore", str(backup), "--start-over")
            wait_for(lambda: texts(watcher), restore)
            kill(restore)
            assert texts(watcher) == sorted([SECRET, FACT])
            assert is_marked(watcher)
            assert list(home.glob(".backup-*"))

            assert "Erased again: 1 of 1" in run(home, "restore", str(backup), "--continue")
            assert (texts(watcher), is_marked(watcher)) == ([FACT], False)
            assert list(home.glob(".backup-*")) == []
        assert (home / "secret_key").stat().st_mode & 0o777 == 0o600


def is_waiting(database: psycopg.Connection[Any]) -> bool:
    return (
        database.execute(
            "SELECT 1 FROM pg_stat_activity WHERE application_name = 'commonplace restore' AND wait_event_type = 'Lock'"
        ).fetchone()
        is not None
    )


def is_marked(database: psycopg.Connection[Any]) -> bool:
    return database.execute("SELECT to_regclass('public.restore_in_progress')").fetchone() != (None,)


def texts(database: psycopg.Connection[Any]) -> list[str]:
    if database.execute("SELECT to_regclass('public.memory_records')").fetchone() == (None,):
        return []
    return sorted(text for (text,) in database.execute("SELECT content FROM memory_records").fetchall())
