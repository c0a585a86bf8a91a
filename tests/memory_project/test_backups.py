"""The daily backup, the list of backups in the database, and the lists of erased memories beside the files."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from django.core.management import CommandError, call_command
from django.utils import timezone

from foundation.people.caller import WIPE, Caller
from memories.conversation.operations import Wipe
from memories.conversation.wipe import request_wipe
from memories.models import MemoryRecord
from memories.operations import Erase
from memories.writing import erasure
from memory_project.operating.backups import archive, erased, rotation, verification
from memory_project.operating.backups.folders import private_folder, remove_leftovers
from memory_project.operating.backups.models import Backup
from memory_project.operating.backups.programs import BackupFailed
from memory_project.operating.doctor import storage, table_facts

pytestmark = pytest.mark.django_db
Committed = Callable[..., Any]


@pytest.fixture
def folder(settings: Any, tmp_path: Path) -> Path:
    settings.COMMONPLACE_HOME = tmp_path / "home"
    settings.COMMONPLACE_HOME.mkdir()
    settings.BACKUP_FOLDER = str(tmp_path / "backups")
    settings.BACKUP_KEEP, settings.BACKUP_VERIFY_DAYS = 2, 0
    return tmp_path / "backups"


def write_file(file: Path, backup: Backup) -> None:
    """Write a file that has only the manifest of a backup."""
    created_at = backup.created_at.isoformat()
    write_manifest(file, {"id": str(backup.pk), "created_at": created_at, "version": "1", "migrations": []})


def write_manifest(file: Path, manifest: dict[str, Any]) -> None:
    content = json.dumps(manifest).encode()
    member = tarfile.TarInfo(archive.MANIFEST)
    member.size = len(content)
    with tarfile.open(file, "w") as tar:
        tar.addfile(member, BytesIO(content))


def listed(folder: Path, name: str, *, days_ago: int = 0, is_scheduled: bool = True) -> Backup:
    folder.mkdir(exist_ok=True)
    created_at = timezone.now() - timedelta(days=days_ago)
    backup = Backup(path=str(folder / name), host="here", created_at=created_at, is_scheduled=is_scheduled)
    backup.save()
    write_file(folder / name, backup)
    return backup


def test_one_backup_a_day_is_written_and_the_oldest_are_deleted(folder: Path) -> None:
    for days_ago in (1, 2, 3):
        listed(folder, f"{days_ago}.backup", days_ago=days_ago)
    erased.list_beside(folder / "3.backup").write_text("")
    by_hand = listed(folder, "by-hand.backup", days_ago=9, is_scheduled=False)

    assert "written, 2 deleted" in rotation.run_if_due()
    assert rotation.run_if_due() == "not due"
    newest = Backup.objects.filter(is_scheduled=True).first()
    assert newest is not None
    assert {file.name for file in folder.iterdir()} == {Path(newest.path).name, "1.backup", Path(by_hand.path).name}
    assert Path(newest.path).stat().st_mode & 0o777 == 0o600
    assert archive.read_manifest(Path(newest.path))["rows"]["memory_records"] == 0
    assert Backup.objects.filter(deleted_at=None).count() == 3
    assert storage.last_backup(table_facts.read()).state == "ok"


@pytest.mark.parametrize("key", sorted(archive.REQUIRED))
def test_a_backup_with_an_incomplete_manifest_is_refused(tmp_path: Path, key: str) -> None:
    manifest = {"created_at": "2026-11-28T00:00:00+00:00", "version": "1", "migrations": []}
    del manifest[key]
    write_manifest(tmp_path / "x.backup", manifest)
    with pytest.raises(BackupFailed, match=f"is incomplete: it lacks {key}"):
        archive.read_manifest(tmp_path / "x.backup")


def test_a_failed_backup_is_mailed_once_and_tried_again_after_an_hour(
    folder: Path, settings: Any, admin_user: Any
) -> None:
    settings.EMAIL_HOST = "localhost"
    folder.write_text("a file where the folder should be")
    assert rotation.run_if_due().startswith("failed")
    assert rotation.run_if_due() == "not due"
    finding = storage.last_backup(table_facts.read())
    assert (finding.state, str(folder) in str(finding.found)) == ("problem", True)
    Backup.objects.update(created_at=timezone.now() - timedelta(hours=2))
    assert rotation.run_if_due().startswith("failed")
    assert [message.to for message in mail.outbox] == [[admin_user.email]]
    assert str(folder) in mail.outbox[0].body

    folder.unlink()
    Backup.objects.update(created_at=timezone.now() - timedelta(hours=2))
    assert "written" in rotation.run_if_due()
    assert storage.last_backup(table_facts.read()).state == "ok"


def test_a_machine_without_the_folder_writes_none(folder: Path, settings: Any) -> None:
    settings.BACKUP_FOLDER = ""
    assert "not set" in rotation.run_if_due()
    assert not Backup.objects.exists()


def test_erased_memories_are_listed_beside_every_reachable_backup(
    folder: Path, ada: Caller, fact: MemoryRecord, django_capture_on_commit_callbacks: Committed
) -> None:
    here = listed(folder, "here.backup")
    elsewhere = listed(folder, "elsewhere.backup")
    Path(elsewhere.path).rename(folder / "moved")
    with django_capture_on_commit_callbacks(execute=True):
        erasure.erase(ada, Erase(record_id=fact.pk, confirm=True))
    assert erased.erased_since(Path(here.path)) == [fact.pk]
    assert not erased.list_beside(Path(elsewhere.path)).exists()

    # another file has taken its path; then the machine is reached where the backup is
    write_file(Path(elsewhere.path), here)
    assert erased.update_lists() == 0
    (folder / "moved").replace(elsewhere.path)
    assert erased.update_lists() == 1
    assert erased.erased_since(Path(elsewhere.path)) == [fact.pk]
    assert erased.update_lists() == 0


def test_wiped_memories_are_listed_too(
    folder: Path, alice: Caller, fact: MemoryRecord, django_capture_on_commit_callbacks: Committed
) -> None:
    here = listed(folder, "here.backup")
    with django_capture_on_commit_callbacks(execute=True):
        request_wipe(replace(alice, rights=frozenset({WIPE})), Wipe(user_id=alice.email, confirm=True))
    assert erased.erased_since(Path(here.path)) == [fact.pk]


def test_a_memory_erased_while_a_backup_is_written_is_listed(folder: Path, fact: MemoryRecord) -> None:
    """Its transaction began before the backup, and ended after it."""
    erased.record_erased(fact.pk)
    backup = listed(folder, "one.backup")
    assert erased.complete_list(Path(backup.path), backup.created_at) == 1


def test_a_damaged_backup_is_refused(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.backup"
    call_command("backup", str(file))
    damaged = bytearray(file.read_bytes())
    damaged[-20_000] ^= 255
    file.write_bytes(damaged)
    for arguments in (["restore", str(file)], ["backup", str(file), "--verify"]):
        with pytest.raises(CommandError, match="damaged"):
            call_command(*arguments)


def test_a_trial_restore_that_misses_rows_fails() -> None:
    verification.compare({"memory_records": 3, "insights": 1}, {"memory_records": 3})
    with pytest.raises(BackupFailed, match="memory_records has 3 rows, of which 4 were written"):
        verification.compare({"memory_records": 3}, {"memory_records": 4})


def test_folders_of_killed_processes_are_removed_and_those_in_use_stay(folder: Path, settings: Any) -> None:
    with private_folder(folder) as used:
        left = settings.COMMONPLACE_HOME / ".backup-left"
        left.mkdir()
        (left / "lock").touch()
        (left / "secret_key").write_text("secret")
        assert remove_leftovers([folder]) == 1
        assert (left.exists(), used.exists()) == (False, True)
    assert not used.exists()
