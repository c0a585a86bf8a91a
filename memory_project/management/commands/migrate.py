from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connection
from django.db.migrations.exceptions import InconsistentMigrationHistory

from memories.database.owner import as_owner
from memory_project.checks import database_faults, newer_migrations
from memory_project.postgres.roles import grant
from memory_project.postgres.server import EmbeddedPostgres, EmbeddedPostgresError


class Command(migrate.Command):
    """Django's, as the tables' owner, with one line for each thing that can be wrong; then the application's grants."""

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if not settings.DATABASE_URL:
                server = EmbeddedPostgres(settings.COMMONPLACE_HOME)
                server.ensure_running()
                server.ensure_roles()
            application = str(connection.settings_dict["USER"])
            with as_owner():
                self.refuse_unready_database()
                super().handle(*args, **options)
                grant(application)
        except EmbeddedPostgresError as error:
            raise CommandError(str(error)) from None
        except InconsistentMigrationHistory as error:
            raise CommandError(f"This version can't migrate this database: {error}") from None
        except CommandError:
            raise
        except Exception as error:  # whatever a migration runs into: PostgreSQL took that one back
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            fault = "does not answer" if isinstance(error, OperationalError) else "migration failed and was rolled back"
            raise CommandError(f"The {'database ' if 'answer' in fault else ''}{fault}: {first}") from error

    def refuse_unready_database(self) -> None:
        faults = [f"{fault.msg} {fault.hint or ''}".strip() for fault in database_faults()]
        if faults:
            raise CommandError(" ".join(faults))
        if newer := newer_migrations():
            raise CommandError(
                f"The database was migrated by a newer version ({', '.join(newer[:3])}): install that one, or restore "
                "an earlier backup."
            )
