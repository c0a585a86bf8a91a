from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import filesizeformat

from memory_project import backups


class Command(BaseCommand):
    help = "Writes all data, the catalog and the signing key into one file, which only its owner can read."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *, file: Path, **options: Any) -> None:
        try:
            size = backups.write(file)
        except (backups.BackupFailed, OSError) as error:
            raise CommandError(str(error)) from None
        beside = backups.erased_list(file).name
        self.stdout.write(
            f"{file}: {filesizeformat(size)}. Texts erased from now on are listed in {beside}: keep the two "
            "files together, and restore will erase those texts again."
        )
