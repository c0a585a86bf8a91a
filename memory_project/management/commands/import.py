from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any, BinaryIO

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from foundation.database import identity
from foundation.operations.errors import DomainError
from foundation.people.caller import Caller
from foundation.people.permissions import build_caller
from foundation.work.jobs import run_slices
from memories.models import Visibility
from memory_project.exchange.imports import report, staging, taking_over
from memory_project.exchange.imports.formats import FORMATS
from memory_project.exchange.imports.installation import InstallationReport, restore_file
from memory_project.exchange.imports.jobs import ImportJobs
from memory_project.exchange.imports.models import Import
from memory_project.models import User

SLICE_S = 2.0  # seconds between two updates of the progress bar


class Command(BaseCommand):
    help = "Report what a file of memories holds, and import it with --yes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--as", dest="email", required=True, help="address of the person who imports")
        parser.add_argument("--persona", default="", help="the active persona; default: the person's default")
        parser.add_argument("--format", default="", choices=["", *FORMATS], help="default: it is recognized")
        parser.add_argument(
            "--visibility",
            default="",
            choices=["", *Visibility.values],
            help="of rows that name none; default: private",
        )
        parser.add_argument(
            "--installation",
            action="store_true",
            help="restore the export of an installation, with the owners of its rows; for admins",
        )
        parser.add_argument("--yes", action="store_true", help="take the rows over, instead of only reporting on them")

    def handle(self, *, file: Path, email: str, persona: str, **options: Any) -> None:
        person = User.objects.filter(email=email.strip().lower(), is_active=True).first()
        if person is None:
            raise CommandError(f"There is no active account {email!r}.")
        try:
            caller = build_caller(person, channel="command", persona=persona)
            with identity.acting_as(caller), file.open("rb") as content:
                if options["installation"]:
                    self._restore(caller, content, file.name)
                    return
                staged = staging.start(caller, file=content, name=file.name, format=options["format"])
                self._work(staged, "rows read")
                self._report(staged)
                if options["yes"] and staged.state == "parsed":
                    taking_over.start(caller, import_id=staged.pk, visibility=options["visibility"])
                    self._work(staged, "taken over")
                    self._report(staged)
        except (DomainError, OSError) as error:
            raise CommandError(getattr(error, "message", str(error))) from None
        if staged.error:
            raise CommandError(staged.error)
        if not options["yes"]:
            self.stdout.write("Nothing was stored. To take the new rows over, repeat with --yes.")

    def _restore(self, caller: Caller, content: BinaryIO, name: str) -> None:
        """Restore an installation. Rows that are there already stay, so a run that was stopped can be repeated."""
        restored = InstallationReport()
        with tqdm(unit=" rows", disable=None) as bar:
            for count in restore_file(caller, content, name, restored):
                bar.update(count)
        for (kind, outcome), count in sorted(restored.counts.items()):
            self.stdout.write(f"{count:>9,} {kind}: {outcome}")
        for problem in [*restored.problems, *sorted(restored.remarks)]:
            self.stdout.write(f"  {problem}")

    def _work(self, staged: Import, what: str) -> None:
        staged.refresh_from_db()
        with tqdm(desc=what, unit=" rows", disable=None) as bar:
            while staged.is_working:
                run_slices(ImportJobs(), staged, SLICE_S)
                staged.refresh_from_db()
                done = staged.rows_read if what == "rows read" else staged.rows.filter(outcome="kept").count()
                bar.update(done - bar.n)

    def _report(self, staged: Import) -> None:
        counts = report.counts(staged)
        self.stdout.write(", ".join(f"{count.rows:,} {count.label.lower()}" for count in counts) or "no rows")
        for row in staged.rows.filter(outcome="refused")[:20]:
            self.stdout.write(f"  {row.place}: {row.reason}")
