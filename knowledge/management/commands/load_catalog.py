from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from foundation.operations.errors import DomainError
from knowledge.catalog import projections
from knowledge.catalog.metadata_files import read_file
from knowledge.freshness.catalog_load import load


class Command(BaseCommand):
    help = (
        "Load DataHub metadata files into the embedded catalog. They hold events or proposals as JSON. Can be repeated."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="*", type=Path, help="paths of the metadata files")
        parser.add_argument("--rebuild", action="store_true", help="rebuild names, search and lineage from all aspects")
        parser.add_argument("--known-only", action="store_true", help="skip aspects that the product does not read")

    def handle(self, *, files: list[Path], known_only: bool, rebuild: bool, verbosity: int = 1, **options: Any) -> None:
        if not files and not rebuild:
            raise CommandError("Specify at least one file of DataHub metadata, or --rebuild.")
        for file in files:
            try:
                records = read_file(file)
            except DomainError as error:
                raise CommandError(error.message) from None
            if not records:
                self.stdout.write(f"{file.name}: no records")
                continue
            with tqdm(total=len(records), disable=verbosity < 1 or None, leave=False) as bar:
                for count in load(records, known_only=known_only):
                    bar.update(count.records - bar.n)
            self.stdout.write(f"{file.name}: {count.writes} aspects written, {count.unchanged} unchanged")
            if count.stale:
                self.stdout.write(f"  {count.stale} memories became stale")
            self._write_counts(
                f"writes to aspects that the product does not read {'skipped' if known_only else 'kept'}", count.unknown
            )
            self._write_counts("records skipped", count.skipped)

        if rebuild:
            total = 0
            with tqdm(unit="entities", disable=verbosity < 1 or None, leave=False) as bar:
                for total in projections.rebuild():
                    bar.update(total - bar.n)
            self.stdout.write(f"{total} entities rebuilt")

    def _write_counts(self, label: str, counts: dict[str, int]) -> None:
        if counts:
            details = ", ".join(f"{name} {number}" for name, number in sorted(counts.items()))
            self.stdout.write(f"  {sum(counts.values())} {label}: {details}")
