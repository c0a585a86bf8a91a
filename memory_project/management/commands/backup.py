from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import filesizeformat

from memory_project import backups


class Command(BaseCommand):
    help = "Write all data, the catalog and the signing key into one file. Only its owner can read it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="path of the new file")

    def handle(self, *, file: Path, **options: Any) -> None:
        try:
            size = backups.write(file)
        except (backups.BackupFailed, OSError) as error:
            raise CommandError(str(error)) from None
        erased_list = backups.erased_list(file).name
        self.stdout.write(
            f"{file}: {filesizeformat(size)}. Memories erased from now on will be listed in {erased_list}: keep both "
            "files together, so that restore can erase those memories again."
        )
