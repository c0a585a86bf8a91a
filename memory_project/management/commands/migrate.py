from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import OperationalError, connection
from django.db.migrations.exceptions import InconsistentMigrationHistory

from foundation.database import restore_marker
from foundation.database.owner import as_owner
from memory_project.operating.postgres import blockers
from memory_project.operating.postgres.roles import grant
from memory_project.operating.postgres.server import EmbeddedPostgres, EmbeddedPostgresError
from memory_project.operating.shared import secret_key_check
from memory_project.operating.shared.migration_lock import single_migration
from memory_project.operating.system_checks import database_problems, newer_migrations


class Command(migrate.Command):
    """Django's `migrate`, run as the owner of the tables, followed by the grants of the application's role.

    Each possible failure is reported in one line.
    """

    help = "Create and alter the tables. Also gives the application's role its rights."

    def execute(self, *args: Any, **options: Any) -> str | None:
        # before the system checks, which connect as the application's role: homes of early versions have none
        if not settings.DATABASE_URL:
            server = EmbeddedPostgres(settings.COMMONPLACE_HOME)
            try:
                server.ensure_running()
                server.ensure_roles()
            except EmbeddedPostgresError as error:
                raise CommandError(str(error)) from None
        return super().execute(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            application = str(connection.settings_dict["USER"])
            with as_owner(), single_migration(self.stderr.write):
                connection.ensure_connection()  # refused here, with its own message, while a restore is unfinished
                self.refuse_unready_database()
                secret_key_check.refuse_other_key()
                blockers.limit_waiting()
                super().handle(*args, **options)
                grant(application)
        except InconsistentMigrationHistory as error:
            raise CommandError(f"This version can't migrate this database: {error}") from None
        except (CommandError, secret_key_check.OtherKey):
            raise
        except Exception as error:  # any error; if a migration failed, PostgreSQL has rolled it back
            if blockers.is_lock_timeout(error):
                raise CommandError(
                    f"The migration waited {blockers.LOCK_TIMEOUT_S} s for a table in vain and was rolled back. "
                    + blockers.describe()
                ) from error
            if unfinished_restore := restore_marker.message_of(error):
                raise CommandError(unfinished_restore) from None
            first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
            is_unreachable = isinstance(error, OperationalError)
            problem = "database does not answer" if is_unreachable else "migration failed and was rolled back"
            raise CommandError(f"The {problem}: {first_line}") from error

    def refuse_unready_database(self) -> None:
        problems = [f"{problem.msg} {problem.hint or ''}".strip() for problem in database_problems()]
        if problems:
            raise CommandError(" ".join(problems))
        if newer := newer_migrations():
            raise CommandError(
                f"The database was migrated by a newer version ({', '.join(newer[:3])}): install that version, or "
                "restore an earlier backup."
            )
