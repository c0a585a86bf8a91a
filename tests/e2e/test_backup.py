"""Backup of an installation, and restore into an empty home folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.prepared_homes import prepared_home
from tests.e2e.processes import folder_and_port, run

SECRET = "The margin of the north region is 4.2 percent."
FACT = "Orders come twice a day."


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    with prepared_home("tables") as (folder, _):
        yield folder


@pytest.fixture
def empty() -> Iterator[Path]:
    with folder_and_port() as (folder, _):
        yield folder


def python(home: Path, code: str) -> str:
    """Run code in the product's Django shell. Return its output."""
    process = run(home, "shell", "--no-imports", "--command", code)
    assert process.returncode == 0, process.stderr
    return process.stdout.strip()


SETUP = f"""
from memories import services
from memories.operations import Remember
from foundation.people.permissions import build_caller
from memory_project.models import User
user = User.objects.create_user("alice@example.org", "a long password")
caller = build_caller(user, channel="test")
for text in ({SECRET!r}, {FACT!r}):
    print(services.remember(caller, Remember(content=text)).record.pk)
"""
ERASE = """
from memories.writing import erasure
from foundation.people.caller import system_caller
from memories.operations import Erase
erasure.erase(system_caller(), Erase.read(dict(record_id={pk!r}, confirm=True)))
"""
TEXTS = "from memories.models import MemoryRecord as R; print(sorted(R.objects.values_list('content', flat=True)))"


def test_a_restore_leaves_out_memories_erased_after_the_backup(home: Path, empty: Path) -> None:
    secret, _ = python(home, SETUP).split()
    backup = home / "one.backup"
    backup_run = run(home, "backup", str(backup))
    assert backup_run.returncode == 0, backup_run.stderr
    assert backup.stat().st_mode & 0o777 == 0o600
    assert "already exists" in run(home, "backup", str(backup)).stderr
    assert "rows are there" in run(home, "backup", str(backup), "--verify").stdout
    python(home, ERASE.format(pk=secret))
    assert (home / "one.backup.erased").stat().st_mode & 0o777 == 0o600

    refused = run(home, "restore", str(backup))
    assert "already contains data" in refused.stderr
    restored = run(empty, "restore", str(backup))
    assert restored.returncode == 0, restored.stderr
    assert "Erased again: 1 of 1" in restored.stdout
    assert python(empty, TEXTS) == str([FACT])
    assert (empty / "secret_key").read_text() == (home / "secret_key").read_text()
    assert (empty / "secret_key").stat().st_mode & 0o777 == 0o600
    assert run(empty, "check", "--database", "default").stdout.strip().endswith("(0 silenced).")
    for process in (backup_run, refused, restored):
        assert "Traceback" not in process.stderr


@pytest.mark.parametrize("content", ["", "not an archive\n" * 100])
def test_a_file_that_is_no_backup_is_rejected_in_one_line(empty: Path, content: str) -> None:
    file = empty / "x"
    file.write_text(content)
    process = run(empty, "restore", str(file))
    assert process.returncode == 1
    assert "is not a Commonplace backup" in process.stderr
    assert len(process.stderr.strip().splitlines()) == 1
    assert not (empty / "postgres").exists()


def test_an_invalid_setting_is_reported_in_one_line(empty: Path) -> None:
    process = run(empty, "check", COMMONPLACE_PORT="0")
    assert process.returncode == 1
    assert process.stderr.strip() == "COMMONPLACE_PORT=0 is out of range; allowed: 1 to 65535"
