from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.db.models import Q

from knowledge.changesets import rollback
from knowledge.models import Insight
from memories.contract.errors import DomainError, NotFound
from memories.database.owner import as_owner
from memories.identity.caller import system_caller
from memories.operations import Erase
from memories.writing import erasure
from memory_project import backups
from memory_project.postgres.server import EmbeddedPostgres, EmbeddedPostgresError


class Command(BaseCommand):
    help = "Restore a backup into an empty home or database. Memories erased after the backup are erased again."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="path of the backup; FILE.erased is read beside it")

    def handle(self, *, file: Path, **options: Any) -> None:
        try:
            erased = backups.erased_since(file)
            with backups.unpacked(file) as (folder, manifest):
                backups.refuse_newer(manifest)
                self.load(folder)
                backups.restore_key(folder)
        except (backups.BackupFailed, EmbeddedPostgresError, OSError) as error:
            raise CommandError(str(error)) from None
        except DatabaseError as error:
            raise CommandError(f"The database reports: {str(error).strip().splitlines()[0]}") from None
        call_command("migrate", verbosity=0, interactive=False)
        self.stdout.write(f"Restored the backup of {manifest['created_at']}.")
        self.erase_again(erased)

    def load(self, folder: Path) -> None:
        if not settings.DATABASE_URL:
            server = EmbeddedPostgres(settings.COMMONPLACE_HOME)
            server.ensure_running()
            server.ensure_roles()
        with as_owner():
            backups.refuse_nonempty_database()
            backups.load(folder)

    def erase_again(self, erased: list[UUID]) -> None:
        failures = []
        for record_id in erased:
            try:
                self.erase(record_id)
            except NotFound:
                continue  # the memory was created after the backup, so the backup does not contain it
            except DomainError as error:
                failures.append(f"{record_id.hex}: {error.message}")
        if erased:
            self.stdout.write(f"Erased again: {len(erased) - len(failures)} of {len(erased)}.")
        if failures:
            raise CommandError(
                "These memories were erased after the backup but are back. Erase them yourself:\n" + "\n".join(failures)
            )

    def erase(self, record_id: UUID) -> None:
        caller = system_caller()
        of_memory = Q(pk=record_id) | Q(beside=record_id)  # also insights that were captured with the same text
        applied = Insight.objects.filter(of_memory, changeset__isnull=False).values_list("changeset", flat=True)
        for changeset_id in set(applied):
            # the catalog must not keep the text, and erase() refuses a memory that is applied to it
            rollback.roll_back(caller=caller, changeset_id=changeset_id, skip_conflicts=True)
        erasure.erase(Erase(record_id=record_id, confirm=True), caller=caller)
