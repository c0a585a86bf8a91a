from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError, connection
from django.db.models import Q

from foundation.database import restore_marker
from foundation.database.owner import as_owner
from foundation.operations.errors import DomainError, NotFound
from foundation.people.caller import system_caller
from knowledge.changesets import rollback
from knowledge.models import Insight
from memories.operations import Erase
from memories.writing import erasure
from memory_project.operating.backups import erased, restoring
from memory_project.operating.backups.archive import refuse_newer, unpacked
from memory_project.operating.backups.programs import BackupFailed
from memory_project.operating.postgres.server import EmbeddedPostgres, EmbeddedPostgresError


class Command(BaseCommand):
    help = "Restore a backup into an empty home or database. Memories erased after the backup are erased again."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="path of the backup; FILE.erased is read beside it")
        way = parser.add_mutually_exclusive_group()
        way.add_argument("--continue", action="store_true", dest="continues", help="complete an interrupted restore")
        way.add_argument(
            "--start-over", action="store_true", help="empty the database of an interrupted restore, and restore anew"
        )
        parser.add_argument(
            "--leave-failures",
            action="store_true",
            help="open the database although some memories could not be erased again; erase them yourself",
        )

    def handle(self, *, file: Path, continues: bool, start_over: bool, leave_failures: bool, **options: Any) -> None:
        try:
            ids = erased.erased_since(file)
            with unpacked(file) as (folder, manifest), restore_marker.ignored():
                refuse_newer(manifest)
                self.load(file, folder, continues, start_over)
                restoring.restore_key(folder)
                call_command("migrate", verbosity=0, interactive=False)
                self.stdout.write(f"Restored the backup of {manifest['created_at']}.")
                self.erase_again(ids, leave_failures)
                erased.list_file(file)
                with as_owner():
                    restore_marker.remove()
        except (BackupFailed, EmbeddedPostgresError, OSError) as error:
            raise CommandError(str(error)) from None
        except DatabaseError as error:
            raise CommandError(f"The database reports: {str(error).strip().splitlines()[0]}") from None

    def load(self, file: Path, folder: Path, continues: bool, start_over: bool) -> None:
        if not settings.DATABASE_URL:
            server = EmbeddedPostgres(settings.COMMONPLACE_HOME)
            server.ensure_running()
            server.ensure_roles()
        application = str(connection.settings_dict["USER"])
        with as_owner():
            restoring.refuse_superuser()
            restoring.prepare(file, folder, application=application, continues=continues, starts_over=start_over)
            restoring.create_extension()
            if not restoring.is_loaded():
                restoring.load(folder)

    def erase_again(self, record_ids: list[UUID], leave_failures: bool) -> None:
        failures = []
        erased_count = 0
        for record_id in dict.fromkeys(record_ids):
            try:
                self.erase(record_id)
                erased_count += 1
            except NotFound:
                continue  # the backup does not contain it, or an interrupted restore has erased it
            except DomainError as error:
                failures.append(f"{record_id.hex}: {error.message}")
        if record_ids:
            self.stdout.write(f"Erased again: {erased_count} of {erased_count + len(failures)}.")
        if failures and not leave_failures:
            raise CommandError(
                "These memories were erased after the backup, and could not be erased again, so the database stays "
                "closed. Remove the cause and restore with --continue, or open it with --continue --leave-failures and "
                "erase them yourself:\n" + "\n".join(failures)
            )
        if failures:
            self.stderr.write("Erase these memories yourself:\n" + "\n".join(failures))

    def erase(self, record_id: UUID) -> None:
        caller = system_caller()
        of_memory = Q(pk=record_id) | Q(beside=record_id)  # also insights that were captured with the same text
        applied = Insight.objects.filter(of_memory, changeset__isnull=False).values_list("changeset", flat=True)
        for changeset_id in set(applied):
            # the catalog must not keep the text, and erase() refuses a memory that is applied to it
            rollback.roll_back(caller, changeset_id=changeset_id, skip_conflicts=True)
        erasure.erase(caller, Erase(record_id=record_id, confirm=True))
