from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import filesizeformat

from memory_project.operating.backups import archive, erased, verification
from memory_project.operating.backups.programs import BackupFailed


class Command(BaseCommand):
    help = "Write all data, the catalog and the signing key into one file. Only its owner can read it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="path of the new file")
        way = parser.add_mutually_exclusive_group()
        way.add_argument("--verify", action="store_true", help="restore FILE into a temporary database and compare it")
        way.add_argument(
            "--update-list", action="store_true", help="complete FILE.erased beside a FILE that was moved here"
        )

    def handle(self, *, file: Path, verify: bool, update_list: bool, **options: Any) -> None:
        try:
            if verify:
                self.verify(file)
            elif update_list:
                self.update_list(file)
            else:
                self.write(file)
        except (BackupFailed, OSError) as error:
            raise CommandError(str(error)) from None

    def write(self, file: Path) -> None:
        backup = archive.write(file)
        erased.complete_list(file.absolute(), backup.created_at)
        size = filesizeformat(backup.size or 0)
        erased_list = erased.list_beside(file).name
        self.stdout.write(
            f"{file}: {size}. Memories erased from now on will be listed in {erased_list}: keep both files together, "
            "so that restore can erase those memories again."
        )

    def verify(self, file: Path) -> None:
        rows = verification.verify(file)
        self.stdout.write(f"{file}: restored into a temporary database and migrated; all {rows} rows are there.")

    def update_list(self, file: Path) -> None:
        added = erased.complete_list(file.absolute(), archive.time_of(archive.read_manifest(file)))
        self.stdout.write(f"{erased.list_beside(file)}: {added} memories added.")
